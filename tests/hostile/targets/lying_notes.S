/* A library whose probe notes lie; the code that they are about is run by notes-lie. */
.altmacro
.macro lie pc, semaphore, base, arguments:vararg
  .pushsection .note.stapsdt, "", "note"
  .balign 4
  .4byte 8, 9992f-9991f, 3
  .asciz "stapsdt"
9991:
  .8byte \pc, \base, \semaphore
  .asciz "lies"
  .asciz "probe"
  .asciz \arguments
9992:
  .balign 4
  .popsection
.endm

.text
.globl hostile_code
.type hostile_code, @function
hostile_code:
1: nop
2: nop
3: movabs $0x1122334455667788, %rax
   ret
end_of_code:
.size hostile_code, .-hostile_code

.section .probes, "aw", "progbits"
semaphore: .2byte 0
.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
base: .space 1

lie 1b, semaphore, base, "-4@%edi 8@%rsi"
/* Arguments. */
lie 1b, 0, base, "8@18446744073709551615(%rsp,%rbp,8)"
lie 1b, 0, base, "99999999999999999999@%rax"
lie 1b, 0, base, "8@%nosuch -1@ 4@$"
lie 1b, 0, base, "16@%xmm99 8@st(9)"
lie 1b, 0, base, "8@-9223372036854775808(%rdi) 8@no_such_symbol+9223372036854775807(%rip)"
lie 1b, 0, base, "8@%fs:(%rax,%rbx,99)"
lie 1b, 0, base, "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
lie 1b, 0, base, "8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@(8@("
/* Sites: in the middle of an instruction, in data, in no file, at the end, wrapping. */
lie 3b+3, 0, base, "8@%rdi"
lie semaphore, 0, base, ""
lie 0x7fffffffffffffff, 0, base, ""
lie 0xffffffffffffffff, 0, base, ""
lie end_of_code, 0, base, ""
lie 0, 0, base, ""
/* Semaphores: in no file, in code, odd, wrapping. */
lie 2b, 0x7fffffffffffffff, base, ""
lie 2b, 0xffffffffffffffff, base, ""
lie 2b, hostile_code, base, ""
lie 2b, semaphore+1, base, ""
lie 2b, 1, base, ""
/* Bases. */
lie 2b, semaphore, 0, ""
lie 2b, semaphore, 0xffffffffffffffff, ""
lie 2b, semaphore, 0x8000000000000000, ""
/* The last one is longer than the section, and than memory. */
.section .note.stapsdt, "", "note"
.balign 4
.4byte 0xfffffff0, 0xffffffff, 3
.asciz "stapsdt"
.8byte 1b
.section .note.GNU-stack, "", @progbits
