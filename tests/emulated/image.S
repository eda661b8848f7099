/* image.S — RAM from 1 MB on: to 64 bits, exceptions, system calls, and the program to run. */
    .code32
    .text
    .globl start
start:
    xorl %eax, %eax
    movl $__bss_start, %edi
    movl $_end, %ecx
    subl %edi, %ecx
    rep stosb
    movl $0x10000, %edi
    movl $(0x3000 / 4), %ecx
    rep stosl
    /* the first gigabyte, in pages of 2 MB */
    movl $0x11003, 0x10000
    movl $0x12003, 0x11000
    xorl %ecx, %ecx
1:  movl %ecx, %eax
    shll $21, %eax
    orl $0x83, %eax
    movl %eax, 0x12000(, %ecx, 8)
    incl %ecx
    cmpl $512, %ecx
    jne 1b
    movl $0x10000, %eax
    movl %eax, %cr3
    movl $(0x620 + OSXSAVE), %eax /* PAE, OSFXSR, OSXMMEXCPT */
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    movl $0x101, %eax /* long mode, SYSCALL */
    xorl %edx, %edx
    wrmsr
    movl $0x80010023, %eax /* paging, WP, NE, MP, protection */
    movl %eax, %cr0
    lgdt gdt_pointer
    ljmpl $0x08, $start64

    .code64
start64:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
#if OSXSAVE
    xorl %ecx, %ecx
    movl $XCR0, %eax
    xorl %edx, %edx
    xsetbv
#endif
    movq $0x1000000, %rsp
    call machine_start /* does not return */

    .balign 8
gdt: /* nothing, 64-bit code, data */
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
gdt_pointer:
    .word . - gdt - 1
    .quad gdt

/* Exceptions end the run.  Some push a code, so the address is looked for in both places. */
    .globl exception_stubs
    .balign 16
exception_stubs:
    .set vector, 0
    .rept 32
    .balign 16
    movl $vector, %edi
    jmp exception
    .set vector, vector + 1
    .endr
exception:
    movq (%rsp), %rsi
    movq 8(%rsp), %rdx
    movq %cr2, %rcx
    andq $-16, %rsp
    call machine_exception

/* The program runs in ring 0 too, so a system call is a jump there and back. */
    .globl system_call
system_call:
    leaq -128(%rsp), %rsp /* what lies below belongs to the program */
    pushq %rbp
    movq %rsp, %rbp
    pushq %rcx
    pushq %r11
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %r10
    pushq %r8
    pushq %r9
    andq $-16, %rsp
    movq %r10, %r8 /* d */
    movq %rdx, %rcx
    movq %rsi, %rdx
    movq %rdi, %rsi /* a */
    movq %rax, %rdi /* number */
    call machine_call
    leaq -64(%rbp), %rsp
    popq %r9
    popq %r8
    popq %r10
    popq %rdx
    popq %rsi
    popq %rdi
    popq %r11
    popq %rcx
    popq %rbp
    leaq 128(%rsp), %rsp
    jmp *%rcx

    .globl enter
enter: /* entry, stack */
    movq %rsi, %rsp
    xorl %edx, %edx
    xorl %ebp, %ebp
    jmp *%rdi

    .section .rodata
    .globl program
    .balign 4096
program:
    .incbin PROGRAM

    .section .note.GNU-stack, "", @progbits
