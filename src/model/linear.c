#include "linear.h"

#include "base/team.h"
#include "kernels/panels.h"

/* A product of fewer multiplications is done before a helper could begin, and so are fewer numbers
 * prepared. */
enum { SHARED_PRODUCTS_MIN = 1 << 17, SHARED_NUMBERS_MIN = 1 << 13 };

struct group {
    const struct product *products[PROJECTIONS_MAX];
    struct gemm gemms[PROJECTIONS_MAX];
    size_t count, panels; /* of all */
};

/* Panels of all products are numbered one after another; a member takes a run of them. */
static void share_group(void *context, size_t member, size_t members)
{
    const struct group *group = context;
    size_t first, end, passed = 0;
    team_share(group->panels, 1, member, members, &first, &end);
    for (size_t i = 0; i < group->count; i++) {
        struct gemm gemm = group->gemms[i];
        const size_t panels = panel_count(gemm.w.rows);
        const size_t from = first > passed ? first - passed : 0;
        const size_t to = end > passed ? end - passed : 0;
        if (from < panels && from < to) {
            gemm.first = from * PANEL_COLUMNS;
            gemm.end = to < panels ? to * PANEL_COLUMNS : gemm.w.rows;
            group->products[i]->gemm(&gemm);
        }
        passed += panels;
    }
}

/* Rows to prepare. */
struct preparation {
    const struct product *product;
    const float *x;
    size_t M, K;
    void *out;
};

static void share_preparation(void *context, size_t member, size_t members)
{
    const struct preparation *p = context;
    p->product->prepare(p->x, p->M, p->K, p->out, member, members);
}

static const void *prepare(const struct pass *pass, const struct product *product, const float *x,
                           size_t M, size_t K)
{
    struct preparation p = { product, x, M, K, arena_take(pass->arena, prepared_bytes(M, K), 1) };
    team_run(M * K < SHARED_NUMBERS_MIN ? NULL : pass->team, share_preparation, &p);
    return p.out;
}

/* Rows that an earlier product of the group prepared alike; NULL: none. */
static const void *prepared_before(const struct group *group, const struct projection *projections,
                                   size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (projections[i].x == projections[index].x &&
            group->products[i]->prepare == group->products[index]->prepare)
            return group->gemms[i].x;
    return NULL;
}

void linear_group(const struct pass *pass, const struct projection *projections, size_t count,
                  size_t M)
{
    struct group group = { .count = count };
    size_t multiplications = 0;
    const size_t mark = arena_mark(pass->arena);
    for (size_t i = 0; i < count; i++) {
        const struct linear *linear = projections[i].linear;
        const size_t K = linear->w.columns;
        group.products[i] = kernels_product(pass->kernels, &linear->w);
        const void *x = prepared_before(&group, projections, i);
        if (!x)
            x = prepare(pass, group.products[i], projections[i].x, M, K);
        group.gemms[i] = (struct gemm){ .x = x,
                                        .M = M,
                                        .w = linear->w,
                                        .bias = linear->bias,
                                        .y = projections[i].y,
                                        .y_stride = linear->w.rows,
                                        .end = linear->w.rows };
        group.panels += panel_count(linear->w.rows);
        multiplications += M * linear->w.rows * K;
    }
    team_run(multiplications < SHARED_PRODUCTS_MIN ? NULL : pass->team, share_group, &group);
    arena_release(pass->arena, mark);
}

void linear(const struct pass *pass, const struct linear *linear, const float *x, size_t M,
            float *y)
{
    linear_group(pass, &(struct projection){ linear, x, y }, 1, M);
}

size_t linear_scratch_bytes(size_t M, size_t width)
{
    return arena_need(prepared_bytes(M, width), 1);
}
