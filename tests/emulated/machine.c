/* The least of a system that a static Linux program needs, on the bare emulated machine: memory
 * with pages that may not be touched, output by the serial port, an end.  Everything runs in ring
 * 0; no vector register is touched here.
 *
 * Physical addresses, which are the virtual ones too:
 *   1 MB    image.S, this, the program's file      < 16 MB  stack
 *   16 MB   page tables                             64 MB   the program and its heap
 *   160 MB  mmap                                   512 MB   the end */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

enum { MB = 1 << 20, PAGE = 4096, MEMORY = 512 * MB, MAPS = 160 * MB };
enum { PRESENT = 1, WRITABLE = 2 };

extern const char program[], exception_stubs[];
void enter(uint64_t entry, uint64_t *stack) __attribute__((noreturn));
void system_call(void);
void machine_start(void) __attribute__((noreturn));
void machine_exception(long vector, uint64_t first, uint64_t second, uint64_t address)
    __attribute__((noreturn));
long machine_call(long number, long a, long b, long c, long d);
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

static uint64_t *const page_table = (uint64_t *)(16 * MB); /* all entries, one after another */
static uint64_t heap_end, maps_end = MAPS;

static void out(uint16_t port, uint8_t byte)
{
    __asm__ volatile("outb %0, %1" : : "a"(byte), "Nd"(port));
}

static uint8_t in(uint16_t port)
{
    uint8_t byte;
    __asm__ volatile("inb %1, %0" : "=a"(byte) : "Nd"(port));
    return byte;
}

static void print(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while (!(in(0x3fd) & 0x20)) /* the one before is still on its way */
            ;
        out(0x3f8, (uint8_t)text[i]);
    }
}

static void print_line(const char *name, uint64_t number)
{
    size_t n = 0;
    while (name[n])
        n++;
    print(name, n);
    for (int shift = 60; shift >= 0; shift -= 4)
        print(&"0123456789abcdef"[number >> shift & 15], 1);
    print("\n", 1);
}

/* The emulator ends when it reads this. */
static void end(void) __attribute__((noreturn));
static void end(void)
{
    while (!(in(0x3fd) & 0x40))
        ;
    for (const char *c = "Shutdown"; *c; c++)
        out(0x8900, (uint8_t)*c);
    for (;;)
        ;
}

void machine_exception(long vector, uint64_t first, uint64_t second, uint64_t address)
{
    print_line("not ok - exception ", (uint64_t)vector);
    print_line("# code or address ", first);
    print_line("# address or segment ", second);
    print_line("# CR2 ", address);
    end();
}

void *memcpy(void *to, const void *from, size_t n)
{
    void *start = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return start;
}

void *memset(void *to, int byte, size_t n)
{
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
    return start;
}

static void write_msr(uint32_t msr, uint64_t value)
{
    __asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

static void protect(uint64_t begin, uint64_t end_, unsigned flags)
{
    for (uint64_t page = begin / PAGE; page < (end_ + PAGE - 1) / PAGE; page++) {
        page_table[page] = page * PAGE | flags;
        __asm__ volatile("invlpg (%0)" : : "r"(page * PAGE) : "memory");
    }
}

/* Pages of 4 KB for all memory; the first is nobody's. */
static void make_pages(void)
{
    const uint64_t pages = MEMORY / PAGE;
    uint64_t *directory = page_table + pages, *pointers = directory + PAGE / 8;
    uint64_t *top = pointers + PAGE / 8;
    memset(directory, 0, 3 * PAGE);
    for (uint64_t i = 0; i < pages; i++)
        page_table[i] = i ? i * PAGE | PRESENT | WRITABLE : 0;
    for (uint64_t i = 0; i < pages / 512; i++)
        directory[i] = (uint64_t)(page_table + i * 512) | PRESENT | WRITABLE;
    pointers[0] = (uint64_t)directory | PRESENT | WRITABLE;
    top[0] = (uint64_t)pointers | PRESENT | WRITABLE;
    __asm__ volatile("mov %0, %%cr3" : : "r"(top) : "memory");
}

static void catch_exceptions(void)
{
    static uint64_t gates[32][2];
    static struct {
        uint16_t limit;
        uint64_t base;
    } __attribute__((packed)) pointer = { sizeof gates - 1, 0 };
    for (size_t i = 0; i < 32; i++) {
        const uint64_t stub = (uint64_t)exception_stubs + 16 * i;
        gates[i][0] = (stub & 0xffff) | 0x08 << 16 | 0x8e00ull << 32 | (stub >> 16 & 0xffff) << 48;
        gates[i][1] = stub >> 32;
    }
    pointer.base = (uint64_t)gates;
    __asm__ volatile("lidt %0" : : "m"(pointer));
}

static uint64_t map(uint64_t bytes, long protection)
{
    const uint64_t begin = maps_end;
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes > MEMORY - begin)
        return (uint64_t)-12; /* ENOMEM */
    maps_end += bytes;
    protect(begin, maps_end, PRESENT | WRITABLE);
    memset((void *)begin, 0, bytes);
    if (protection == 0)
        protect(begin, maps_end, 0);
    return begin;
}

static long write_pieces(const uint64_t (*pieces)[2], long count)
{
    long sum = 0;
    for (long i = 0; i < count; i++) {
        print((const char *)pieces[i][0], pieces[i][1]);
        sum += (long)pieces[i][1];
    }
    return sum;
}

long machine_call(long number, long a, long b, long c, long d)
{
    (void)d;
    switch (number) {
    case 1: /* write */
        print((const char *)b, (size_t)c);
        return c;
    case 20: /* writev */
        return write_pieces((const uint64_t(*)[2])b, c);
    case 9: /* mmap */
        return (long)map((uint64_t)b, c);
    case 10: /* mprotect */
        protect((uint64_t)a, (uint64_t)a + (uint64_t)b, !c ? 0 : PRESENT | (c & 2 ? WRITABLE : 0));
        return 0;
    case 11: /* munmap: what was mapped last can be mapped again */
        protect((uint64_t)a, (uint64_t)a + (uint64_t)b, 0);
        if (((uint64_t)a + (uint64_t)b + PAGE - 1) / PAGE * PAGE == maps_end)
            maps_end = (uint64_t)a;
        return 0;
    case 12: /* brk */
        if ((uint64_t)a >= heap_end && a < MAPS)
            heap_end = (uint64_t)a;
        return (long)heap_end;
    case 13: /* rt_sigaction */
    case 14: /* rt_sigprocmask */
        return 0;
    case 158: /* arch_prctl: the base of FS */
        if (a != 0x1002)
            return -22;
        write_msr(0xc0000100, (uint64_t)b);
        return 0;
    case 218: /* set_tid_address */
        return 1;
    case 60:  /* exit */
    case 231: /* exit_group */
        print_line("# exit ", (uint64_t)a);
        end();
    default:
        return -38; /* ENOSYS */
    }
}

static uint64_t load(const Elf64_Ehdr *file)
{
    const Elf64_Phdr *part = (const void *)(program + file->e_phoff);
    for (int i = 0; i < file->e_phnum; i++) {
        if (part[i].p_type != PT_LOAD)
            continue;
        memset((void *)part[i].p_vaddr, 0, part[i].p_memsz);
        memcpy((void *)part[i].p_vaddr, program + part[i].p_offset, part[i].p_filesz);
        if (part[i].p_vaddr + part[i].p_memsz > heap_end)
            heap_end = (part[i].p_vaddr + part[i].p_memsz + PAGE - 1) / PAGE * PAGE;
    }
    return file->e_entry;
}

void machine_start(void)
{
    static char name[] = "program", random[16];
    const Elf64_Ehdr *file = (const void *)program;
    /* argc, argv, environment, auxiliary vector */
    static uint64_t stack[] __attribute__((aligned(16))) = {
        1, 0, 0, 0, AT_PHDR, 0, AT_PHENT, 0, AT_PHNUM, 0, AT_PAGESZ, PAGE, AT_RANDOM, 0, AT_NULL, 0,
    };
    out(0x3fb, 0x80); /* 115200 baud, 8 bits */
    out(0x3f8, 1);
    out(0x3f9, 0);
    out(0x3fb, 0x03);
    make_pages();
    catch_exceptions();
    write_msr(0xc0000081, (uint64_t)0x08 << 32);  /* segments of SYSCALL */
    write_msr(0xc0000082, (uint64_t)system_call); /* its target */
    write_msr(0xc0000084, 0);                     /* flags that it clears */
    stack[1] = (uint64_t)name;
    stack[5] = (uint64_t)(program + file->e_phoff);
    stack[7] = file->e_phentsize;
    stack[9] = file->e_phnum;
    stack[13] = (uint64_t)random;
    const uint64_t entry = load(file);
    uint64_t *top = (uint64_t *)(15 * MB);
    memcpy(top, stack, sizeof stack);
    enter(entry, top);
}
