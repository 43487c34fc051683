/* A function, and debug information of it that takes long to look through: blocks within blocks, 200
 * deep, and in the innermost four million entries. Where a block ends is not said, so that the end of
 * each is looked for behind all of them. */
	.text
	.globl	hostile_spin
	.type	hostile_spin, @function
hostile_spin:
1:	sub	$1, %rdi
	jnz	1b
	ret
	.size	hostile_spin, . - hostile_spin
hostile_spin_end:

	.section .debug_abbrev, "", @progbits
	.uleb128 1	/* the unit */
	.uleb128 0x11
	.byte	1
	.uleb128 0x11, 1	/* low_pc: address */
	.uleb128 0x12, 6	/* high_pc: data4 */
	.uleb128 0, 0
	.uleb128 2	/* a block, with children */
	.uleb128 0x0b
	.byte	1
	.uleb128 0, 0
	.uleb128 3	/* a variable */
	.uleb128 0x34
	.byte	0
	.uleb128 0, 0
	.uleb128 0

	.section .debug_info, "", @progbits
	.long	unit_end - unit_start
unit_start:
	.short	4
	.long	0
	.byte	8
	.uleb128 1
	.quad	hostile_spin
	.long	hostile_spin_end - hostile_spin
	.fill	200, 1, 2
	.fill	4194304, 1, 3
	.fill	201, 1, 0
unit_end:
	.section .note.GNU-stack, "", @progbits
