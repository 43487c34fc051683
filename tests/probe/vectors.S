/* The state of docs/formats/sdt.md, "Worked examples", and a probe for each of its arguments.
 * vectors_test.cpp knows the values. */
.macro probe number, arguments
990: nop
  .pushsection .note.stapsdt, "", "note"
  .balign 4
  .4byte 992f - 991f, 994f - 993f, 3
991: .asciz "stapsdt"
992: .balign 4
993: .8byte 990b, _.stapsdt.base, 0
  .asciz "vectors"
  .asciz "v\number"
  .asciz "\arguments"
994: .balign 4
  .popsection
.endm

  .section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
  .weak _.stapsdt.base
  .hidden _.stapsdt.base
_.stapsdt.base: .space 1

  .data
  .balign 16
table: .8byte 1, 2, -3, 4, 5
  .globl garr, gint, gd
garr: .4byte 10, -20, 30, 40
gint: .4byte -99
  .balign 8
gd: .double 2.5
stack: .8byte 0x1122334455667788
  .4byte -42, 77
  .fill 64, 1, 0
  .8byte 0x1122334455667788
frame: .8byte 0
single: .float 1.25
.Lloc: .4byte 1
  .type garr, @object
  .type gint, @object
  .type gd, @object

  .section .tdata, "awT", @progbits
  .globl tl
  .type tl, @object
tl: .4byte 55

  .text
  .globl main
  .type main, @function
main:
  /* So that the linker makes words for them, as it does for a program that is not hand-written. */
  movq gint@GOTPCREL(%rip), %rax
  movabsq $0x400921fb54442d18, %rax
  leaq table(%rip), %rbx
  movl $2, %ecx
  movabsq $0xffffffff80000001, %rdi
  movabsq $0xfedcba9876543210, %r12
  movq $-3, %r13
  leaq stack(%rip), %rsp
  leaq frame(%rip), %rbp
  movsd gd(%rip), %xmm0
  movss single(%rip), %xmm1
  probe 00, "-4@$5"
  probe 01, "8@$-1"
  probe 02, "8@$18446744073709551614"
  probe 03, "8@$0x10"
  probe 04, "-4@%edi"
  probe 05, "4@%edi"
  probe 06, "-1@%dil"
  probe 07, "-1@%al"
  probe 08, "1@%ah"
  probe 09, "8@%r12"
  probe 10, "4@%r12"
  probe 11, "-2@%r13w"
  probe 12, "%rdi"
  probe 13, "-4@8(%rsp)"
  probe 14, "8@-8(%rbp)"
  probe 15, "8@(%rbx,%rcx,8)"
  probe 16, "4@4(%rbx,%rcx,4)"
  probe 17, "-4@garr(,%rcx,4)"
  probe 18, "-4@gint(%rip)"
  probe 19, "-4@garr+4(%rip)"
  probe 20, "8@gint@GOTPCREL(%rip)"
  probe 21, "-4@%fs:tl@tpoff"
  probe 22, "8f@%xmm0"
  probe 23, "4f@%xmm1"
  probe 24, "8f@%rax"
  probe 25, "8f@gd(%rip)"
  probe 26, "-4@garr(%rcx)"
  probe 27, "8@$garr+4"
  probe 28, "-4@8+4(%rsp)"
  probe 29, "-4@.Lloc(%rip)"
  probe 30, "8@(%rbx,%rcx,3)"
  movl $231, %eax /* exit_group */
  xorl %edi, %edi
  syscall
  .size main, . - main
  .section .note.GNU-stack, "", @progbits
