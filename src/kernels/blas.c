/* The only file that knows OpenBLAS. */
#include <cblas.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels_internal.h"

/* Loaded by who needs it alone: it would start a thread a core before main, and each of them tries
 * for ever to map 128 MiB where there is no room. */
static struct {
    __typeof__(cblas_sgemm) *sgemm;
    char description[256];
} library;

void blas_prepare(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

int blas_load(struct error *err)
{
    static const char name[] = "libopenblas.so.0";
    if (library.sgemm)
        return 0;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return error_set(err, ERR_CONFIG, "gemm \"openblas\" needs %s: %s", name, dlerror());
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    __typeof__(openblas_get_config) *get_config;
    __typeof__(openblas_get_corename) *get_corename;
    /* As POSIX has it: ISO C knows no conversion between pointers to data and to functions. */
    *(void **)&sgemm = dlsym(handle, "cblas_sgemm");
    *(void **)&set_num_threads = dlsym(handle, "openblas_set_num_threads");
    *(void **)&get_config = dlsym(handle, "openblas_get_config");
    *(void **)&get_corename = dlsym(handle, "openblas_get_corename");
    if (!sgemm || !set_num_threads || !get_config || !get_corename) {
        dlclose(handle);
        return error_set(err, ERR_CONFIG, "gemm \"openblas\": %s is no OpenBLAS", name);
    }
    set_num_threads(1);
    snprintf(library.description, sizeof library.description, "%s %s", get_config(),
             get_corename());
    library.sgemm = sgemm;
    return 0;
}

const char *blas_description(void)
{
    return library.sgemm ? library.description : "none";
}

/* C (m, n) = A (m, k) · Bᵀ + beta · C, B is (n, k); strides in floats. */
struct blas {
    size_t m, n, k;
    float beta;
    const float *a;
    size_t a_stride;
    const float *b;
    size_t b_stride;
    float *c;
    size_t c_stride;
};

static void blas_nt(const struct blas *p)
{
    library.sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)p->m, (blasint)p->n,
                  (blasint)p->k, 1.0f, p->a, (blasint)p->a_stride, p->b, (blasint)p->b_stride,
                  p->beta, p->c, (blasint)p->c_stride);
}

/* A block of w as floats: the stored ones, or a widened copy that fits `panel`. */
enum { PANEL_FLOATS = 16384 };

static void add_block(const struct gemm *g, size_t n, size_t rows, size_t k, size_t columns)
{
    float panel[PANEL_FLOATS];
    const size_t K = g->w.columns;
    struct blas block = { .m = g->M,
                          .n = rows,
                          .k = columns,
                          .beta = k > 0,
                          .a = (const float *)g->x + k,
                          .a_stride = K,
                          .b = panel,
                          .b_stride = columns,
                          .c = g->y + n,
                          .c_stride = g->y_stride };
    if (g->w.dtype == DTYPE_F32) {
        block.b = (const float *)g->w.data + n * K + k;
        block.b_stride = K;
    }
    for (size_t i = 0; i < rows && g->w.dtype != DTYPE_F32; i++)
        for (size_t j = 0; j < columns; j++)
            panel[i * columns + j] = stored_to_float(g->w.data, g->w.dtype, (n + i) * K + k + j);
    blas_nt(&block);
}

static void gemm_openblas(const struct gemm *g)
{
    const bool narrow = g->w.dtype != DTYPE_F32;
    const size_t K = g->w.columns, all = g->end - g->first;
    const size_t columns_max = narrow && K > PANEL_FLOATS ? PANEL_FLOATS : K;
    const size_t rows_max = narrow ? PANEL_FLOATS / columns_max : all;
    for (size_t n = g->first; n < g->end; n += rows_max) {
        const size_t rows = g->end - n < rows_max ? g->end - n : rows_max;
        for (size_t k = 0; k < K; k += columns_max)
            add_block(g, n, rows, k, K - k < columns_max ? K - k : columns_max);
    }
    for (size_t m = 0; m < g->M && g->bias; m++)
        for (size_t n = g->first; n < g->end; n++)
            g->y[m * g->y_stride + n] += g->bias[n];
}

static void keep_rows(const float *x, size_t M, size_t K, void *out, size_t part, size_t parts)
{
    if (part == 0)
        memcpy(out, x, M * K * sizeof *x);
    (void)parts;
}

const struct product product_openblas = { keep_rows, gemm_openblas };
