# Functions as people write them in assembly: with and without `.type` and `.size`, with labels in them.
	.text
	.globl	_start
	.type	_start, @function
_start:
	nop
	nop
	.size	_start, . - _start

	.globl	bare_label		# neither a type nor a size
bare_label:
	nop
	nop
local_label:
	nop
	nop

	.globl	zero_size		# a type alone
	.type	zero_size, @function
zero_size:
	nop
	nop

	.globl	sized
	.type	sized, @function
sized:
	nop
	nop
loop_in_sized:			# within what has a size
	nop
	nop
	.size	sized, . - sized
behind_sized:
	nop
	nop

	.section .text.other, "ax", @progbits
	.type	last_of_all, @function
last_of_all:
	nop
	nop

	.data
datum:
	.quad	1
