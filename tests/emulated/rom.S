/* rom.S — the 64 KB ROM that the emulated CPU starts in: to 32 bits, image.S from the disk to 1 MB,
 * and there. */
    .code16
    .text
rom:
    cli
    lgdtl %cs:gdt_pointer - rom
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $8, $start32

    .code32
start32:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl $0x100000, %edi
    xorl %ebx, %ebx /* sector */
    cld
next_128:
    movl $0x1f2, %edx
    movb $128, %al
    outb %al, %dx /* count */
    movl %ebx, %eax
    incl %edx
    outb %al, %dx /* sector, from its lowest byte */
    shrl $8, %eax
    incl %edx
    outb %al, %dx
    shrl $8, %eax
    incl %edx
    outb %al, %dx
    incl %edx
    movb $0xe0, %al
    outb %al, %dx
    incl %edx
    movb $0x20, %al /* read */
    outb %al, %dx
    movl $128, %esi
next_sector:
    movl $0x1f7, %edx
1:  inb %dx, %al
    andb $0x88, %al
    cmpb $0x08, %al /* not busy, data there */
    jne 1b
    movl $0x1f0, %edx
    movl $256, %ecx
    rep insw
    decl %esi
    jnz next_sector
    addl $128, %ebx
    cmpl $SECTORS, %ebx
    jb next_128
    movl $0x100000, %eax
    jmp *%eax

    .balign 8
gdt: /* nothing, 32-bit code, data: all memory */
    .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_pointer:
    .word . - gdt - 1
    .long gdt

    .org 0xfff0
    .code16
    jmp rom
    .org 0x10000

    .section .note.GNU-stack, "", @progbits
