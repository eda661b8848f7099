/* cblas.h — sgemm in plain loops, for machines that OpenBLAS is not built for. */
#ifndef EMULATED_CBLAS_H
#define EMULATED_CBLAS_H

typedef int blasint;
enum { CblasRowMajor, CblasNoTrans, CblasTrans };

static inline void openblas_set_num_threads(int threads)
{
    (void)threads;
}

static inline const char *openblas_get_config(void)
{
    return "none";
}

static inline const char *openblas_get_corename(void)
{
    return "none";
}

static inline void cblas_sgemm(int order, int transpose_a, int transpose_b, blasint m, blasint n,
                               blasint k, float alpha, const float *a, blasint a_stride,
                               const float *b, blasint b_stride, float beta, float *c,
                               blasint c_stride)
{
    (void)order;
    (void)transpose_a;
    for (blasint i = 0; i < m; i++) {
        for (blasint j = 0; j < n; j++) {
            float sum = 0.0f;
            for (blasint l = 0; l < k; l++)
                sum += a[i * a_stride + l] *
                       (transpose_b == CblasTrans ? b[j * b_stride + l] : b[l * b_stride + j]);
            c[i * c_stride + j] = alpha * sum + (beta != 0.0f ? beta * c[i * c_stride + j] : 0.0f);
        }
    }
}

#endif
