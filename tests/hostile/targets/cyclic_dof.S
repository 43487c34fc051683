/* A library whose DTrace objects go in circles. */
.macro header sections, size
  .byte 0x7f, 'D', 'O', 'F', 2, 1, 2, 2, 8, 8, 0, 0, 0, 0, 0, 0
  .4byte 0, 64, 32, \sections
  .8byte 64, \size, \size, 0
.endm
.macro section type, align, flags, entry, offset, size
  .4byte \type, \align, \flags, \entry
  .8byte \offset, \size
.endm

.text
.globl hostile_code
.type hostile_code, @function
hostile_code:
  nop
  ret
.size hostile_code, .-hostile_code

.section .SUNW_dof, "a", @0x6ffffff4
/* Each provider's probes, arguments, offsets and names are itself, or the other one. */
1: header 3, 272
  section 8, 1, 1, 0, 160, 8
  section 15, 4, 1, 0, 168, 44
  section 15, 4, 1, 0, 216, 44
  .asciz "\0cycles"
  .4byte 0, 2, 2, 2, 1, 0, 0, 0, 0, 0, 2
  .4byte 0
  .4byte 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1
  .4byte 0
  .balign 8
/* Four thousand million probes in no bytes; the names are the probes. */
2: header 5, 320
  section 8, 1, 1, 0, 224, 32
  section 16, 8, 1, 48, 224, 0xffffffffffffffe0
  section 17, 1, 1, 1, 0xffffffffffffffff, 2
  section 18, 4, 1, 0, 224, 0xffffffff
  section 15, 4, 1, 0, 256, 44
  .asciz "\0cycles"
  .zero 24
  .4byte 0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 3
  .zero 20
  .balign 8
/* More sections than memory, longer than its section. */
3: header 0xffffffff, 0xffffffffffffffff
  section 15, 4, 1, 0, 0, 0xffffffffffffffff
.section .note.GNU-stack, "", @progbits
