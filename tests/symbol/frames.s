# Functions with call frame information, and one without behind one of them.
	.text
	.globl	_start
_start:
	.cfi_startproc
	nop
	nop
	.cfi_endproc

	.globl	without_frames
without_frames:
	nop
	nop

	.globl	second
second:
	.cfi_startproc
	nop
	nop
	.cfi_endproc
