#include <sys/sdt.h>
	.text
	.globl in_assembler
	.type in_assembler, "function"
in_assembler:
	STAP_PROBE(old, asm_none)
	STAP_PROBE1(old, asm_one, -4@%edi)
	STAP_PROBE3(old, asm_three, %rdi, 8@(%rsp,%rdi,8), 4@$17)
	movl %edi, %eax
	ret
	.section .note.GNU-stack, "", "progbits"
