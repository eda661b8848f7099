/* The only file that knows OpenBLAS. */
#include <assert.h>
#include <cblas.h>
#include <stdio.h>

#include "kernels_internal.h"

const char *blas_start(void)
{
    static char description[256];
    openblas_set_num_threads(1);
    snprintf(description, sizeof description, "%s %s", openblas_get_config(),
             openblas_get_corename());
    return description;
}

void blas_nt(const struct blas *p)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)p->m, (blasint)p->n,
                (blasint)p->k, p->alpha, p->a, (blasint)p->a_stride, p->b, (blasint)p->b_stride,
                0.0f, p->c, (blasint)p->c_stride);
}

void blas_nn(const struct blas *p)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)p->m, (blasint)p->n,
                (blasint)p->k, p->alpha, p->a, (blasint)p->a_stride, p->b, (blasint)p->b_stride,
                0.0f, p->c, (blasint)p->c_stride);
}

/* Rows of w as floats: the stored ones, or a widened copy of as many as fit `panel`. */
enum { PANEL_FLOATS = 16384 };

void gemm_openblas(const struct gemm *g)
{
    float panel[PANEL_FLOATS];
    const size_t K = g->w.columns;
    size_t rows_max = g->end - g->first;
    if (g->w.dtype != DTYPE_F32) {
        assert(K <= PANEL_FLOATS);
        rows_max = PANEL_FLOATS / K;
    }
    for (size_t n = g->first; n < g->end; n += rows_max) {
        const size_t rows = g->end - n < rows_max ? g->end - n : rows_max;
        const float *w = panel;
        if (g->w.dtype == DTYPE_F32)
            w = (const float *)g->w.data + n * K;
        else
            for (size_t i = 0; i < rows * K; i++)
                panel[i] = stored_to_float(g->w.data, g->w.dtype, n * K + i);
        blas_nt(&(struct blas){ .m = g->M,
                                .n = rows,
                                .k = K,
                                .alpha = 1.0f,
                                .a = g->x,
                                .a_stride = g->x_stride,
                                .b = w,
                                .b_stride = K,
                                .c = g->y + n,
                                .c_stride = g->y_stride });
    }
    for (size_t m = 0; m < g->M && g->bias; m++)
        for (size_t n = g->first; n < g->end; n++)
            g->y[m * g->y_stride + n] += g->bias[n];
}
