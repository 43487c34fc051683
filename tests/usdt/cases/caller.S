/* A caller as people write them: nothing says that it is a function. */
	.text
	.globl from_assembler
from_assembler:
#if defined(__x86_64__)
	sub $8, %rsp
	mov $6, %edi
	call __dtrace_cases___other
here_cases_other_1:
	add $8, %rsp
	ret
#elif defined(__i386__)
	sub $12, %esp
	movl $6, (%esp)
	call __dtrace_cases___other
here_cases_other_1:
	add $12, %esp
	ret
#elif defined(__aarch64__)
	stp x29, x30, [sp, #-16]!
	mov w0, #6
	bl __dtrace_cases___other
here_cases_other_1:
	ldp x29, x30, [sp], #16
	ret
#endif
	.section .note.GNU-stack, "", %progbits
