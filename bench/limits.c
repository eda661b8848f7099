/* limits.c — what this machine can do at most: a JSON line with bytes read from memory, and with
 * products and sums of float32 and of int8 made in registers, 1e9 a second, by THREADS threads.
 * The most of some short tries; one argument: THREADS (1).
 *
 * What seqd's kernels use is measured: of int8 AVX-512 VNNI, else AVX2's pmaddubsw, pmaddwd and
 * paddd.  0: no loop for this CPU has been written. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { TRIES = 5, THREADS_MAX = 64 };
static const size_t BLOCK = (size_t)256 << 20; /* more than the caches hold */
static const long ROUNDS = 400000;

/* Does something with 256 MiB, or in registers; returns how much of it. */
typedef double work_function(const unsigned char *block);

/* A word of each line: what takes the time is that the line comes. */
static double read_block(const unsigned char *block)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK; i += 64) {
        uint64_t word;
        memcpy(&word, block + i, sizeof word);
        __builtin_prefetch(block + i + 4096);
        sum += word;
    }
    __asm__ volatile("" : : "r"(sum));
    return (double)BLOCK;
}

/* Twelve instructions, or groups of them, of which none waits for another one. */
#define TWELVE(I) I(0) I(1) I(2) I(3) I(4) I(5) I(6) I(7) I(8) I(9) I(10) I(11)

#if defined(__x86_64__)
#define LOOP(NAME, PRODUCTS, I)                                                                    \
    static double NAME(const unsigned char *block)                                                 \
    {                                                                                              \
        long rounds = ROUNDS;                                                                      \
        (void)block;                                                                               \
        __asm__ volatile("vzeroall\n1:\n" TWELVE(I) "dec %0\n\tjnz 1b"                             \
                         : "+r"(rounds)                                                            \
                         :                                                                         \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "cc");                      \
        return 2.0 * 12 * PRODUCTS * (double)ROUNDS;                                               \
    }
#define FLOATS_AVX2(R)   "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #R "\n\t"
#define FLOATS_AVX512(R) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" #R "\n\t"
#define BYTES_AVX2(R)                                                                              \
    "vpmaddubsw %%ymm12, %%ymm12, %%ymm13\n\tvpmaddwd %%ymm12, %%ymm13, %%ymm13\n\t"               \
    "vpaddd %%ymm13, %%ymm" #R ", %%ymm" #R "\n\t"
#define BYTES_VNNI(R) "vpdpbusd %%zmm12, %%zmm12, %%zmm" #R "\n\t"
LOOP(floats_avx2, 8, FLOATS_AVX2)
LOOP(floats_avx512, 16, FLOATS_AVX512)
LOOP(bytes_avx2, 32, BYTES_AVX2)
LOOP(bytes_vnni, 64, BYTES_VNNI)

static work_function *floats_here(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return floats_avx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? floats_avx2 : NULL;
}

static work_function *bytes_here(void)
{
    if (__builtin_cpu_supports("avx512vnni"))
        return bytes_vnni;
    return __builtin_cpu_supports("avx2") ? bytes_avx2 : NULL;
}
#else
static work_function *floats_here(void)
{
    return NULL;
}

static work_function *bytes_here(void)
{
    return NULL;
}
#endif

struct part {
    work_function *work;
    const unsigned char *block;
    pthread_barrier_t *together;
    double done;
};

static void *do_part(void *context)
{
    struct part *part = context;
    pthread_barrier_wait(part->together);
    part->done = part->work(part->block);
    return NULL;
}

/* 1e9 a second, of all threads together. */
static double rate(work_function *work, const unsigned char *block, int threads)
{
    pthread_barrier_t together;
    pthread_t ids[THREADS_MAX];
    struct part parts[THREADS_MAX];
    double done = 0.0;
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++) {
        parts[i] = (struct part){ work, block, &together, 0.0 };
        if (pthread_create(&ids[i], NULL, do_part, &parts[i])) {
            fprintf(stderr, "no thread\n");
            exit(1);
        }
    }
    parts[0] = (struct part){ work, block, &together, 0.0 };
    const uint64_t begin = clock_ns();
    do_part(&parts[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    const uint64_t end = clock_ns();
    for (int i = 0; i < threads; i++)
        done += parts[i].done;
    pthread_barrier_destroy(&together);
    return done / (double)(end - begin);
}

static double most(work_function *work, const unsigned char *block, int threads)
{
    double best = 0.0;
    for (int i = 0; work && i < TRIES; i++) {
        const double now = rate(work, block, threads);
        best = now > best ? now : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    unsigned char *block = aligned_alloc(64, BLOCK);
    if (threads < 1 || threads > THREADS_MAX || !block) {
        fprintf(stderr, "%s\n", block ? "threads: 1 to 64" : "no memory");
        return 1;
    }
    memset(block, 1, BLOCK);
    printf("{\"threads\":%d,\"read_gb_s\":%.1f,\"float32_gflops\":%.1f,\"int8_gops\":%.1f}\n",
           threads, most(read_block, block, threads), most(floats_here(), block, threads),
           most(bytes_here(), block, threads));
    free(block);
    return 0;
}
