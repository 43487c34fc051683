// A program whose DOF is written by hand (docs/formats/dof.md), with a label at its site. By the
// macros:
// ABSOLUTE: the word is an absolute address (SETX), as `dtrace -G` of FreeBSD and Oracle has it.
// FUNCTION: the name that the DOF gives its function.
#ifdef __aarch64__
#define NOPS nop
#else
#define NOPS .byte 0x90, 0x90, 0x90, 0x90, 0x90
#endif
#if defined(__LP64__)
#define MODEL 2
#define WORD(value) .quad value
#else
#define MODEL 1
#define WORD(value) .long value, 0
#endif
#ifndef FUNCTION
#define FUNCTION "serve"
#endif

  .text
  .globl serve, main, _start
  .hidden serve
  NOPS
serve:
  NOPS
serve_site:
  NOPS
  ret
main:
_start:
  NOPS
  ret

#ifdef ABSOLUTE
  .section .SUNW_dof, "aw"
#define VALUE serve
#define TYPE 1
#else
  .section .SUNW_dof, "a"
#define VALUE serve - .
#define TYPE 2
#endif
  .balign 8
dof:
  .byte 0x7f, 'D', 'O', 'F', MODEL, 1, 1, 2, 8, 8, 0, 0, 0, 0, 0, 0
  .long 0, 64, 32, 7
  .quad 64, end - dof, end - dof, 0
  // type, alignment, flags, entry size; offset, size
  .long 8, 1, 1, 0
  .quad strings - dof, end - strings
  .long 16, 8, 1, 48
  .quad probes - dof, arguments - probes
  .long 17, 1, 1, 1
  .quad arguments - dof, arguments_end - arguments
  .long 18, 4, 1, 4
  .quad offsets - dof, offsets_end - offsets
  .long 15, 4, 1, 0
  .quad provider - dof, relocations_pad - provider
  .long 10, 8, 1, 24
  .quad relocations - dof, relocation_header - relocations
  .long 12, 4, 1, 0
  .quad relocation_header - dof, strings - relocation_header
probes:
  WORD(VALUE)
  .long serve_name - strings, tick_name - strings, types - strings, types - strings, 0, 0
  .byte 1, 1
  .short 1
  .long 0
  .short 0, 0
  .long 0
arguments:
  .byte 0
arguments_end:
  .balign 4
offsets:
  .long serve_site - serve
offsets_end:
provider:
  .long 0, 1, 2, 3, shop_name - strings, 0x01010000, 0x01010000, 0x01010000, 0x01010000, 0x01010000, 0
relocations_pad:
  .balign 8
relocations:
  .long serve_name - strings, TYPE
  .quad 0, 0
relocation_header:
  .long 0, 5, 1
strings:
  .byte 0
shop_name:
  .asciz "shop"
tick_name:
  .asciz "tick"
serve_name:
  .asciz FUNCTION
types:
  .asciz "int"
end:

  .section .note.GNU-stack, "", %progbits
