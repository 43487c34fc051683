# Debug information that takes for ever to look through: blocks within blocks, 200 deep, and in the
# innermost eight million entries. Where a block ends is not said, so that the end of each is looked
# for behind all of them.
	.text
	.globl	trapped
	.type	trapped, @function
trapped:
	nop
	nop
	nop
	nop
	.size	trapped, . - trapped
	.globl	_start
	.type	_start, @function
_start:
	nop
	.size	_start, . - _start

	.section .debug_abbrev, "", %progbits
	.uleb128 1	# the unit
	.uleb128 0x11
	.byte	1
	.uleb128 0x11, 1	# low_pc: address
	.uleb128 0x12, 6	# high_pc: data4
	.uleb128 0, 0
	.uleb128 2	# a block, with children
	.uleb128 0x0b
	.byte	1
	.uleb128 0, 0
	.uleb128 3	# a variable
	.uleb128 0x34
	.byte	0
	.uleb128 0, 0
	.uleb128 0

	.section .debug_info, "", %progbits
	.long	unit_end - unit_start
unit_start:
	.short	4
	.long	0
	.byte	8
	.uleb128 1
	.quad	trapped
	.long	4
	.fill	200, 1, 2
	.fill	8388608, 1, 3
	.fill	201, 1, 0
unit_end:
