/* A library with 70,000 probes: more than readers attach to. */
.altmacro
.macro one number
  .4byte 8, 9992f-9991f, 3
  .asciz "stapsdt"
9991:
  .8byte site, base, semaphore
  .asciz "many"
  .asciz "probe\number"
  .asciz "-4@%edi 8@-8(%rbp) -8@%rsi"
9992:
  .balign 4
.endm

.text
.globl hostile_code
.type hostile_code, @function
hostile_code:
site: nop
  ret
.size hostile_code, .-hostile_code
.section .probes, "aw", "progbits"
semaphore: .2byte 0
.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
base: .space 1
.section .note.stapsdt, "", "note"
.balign 4
.set number, 0
.rept 70000
  one %number
  .set number, number + 1
.endr
.section .note.GNU-stack, "", @progbits
