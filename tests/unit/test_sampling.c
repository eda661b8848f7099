/* Sampling: the distribution, the seed and the streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "search_runs.h"

static void samples_follow_the_distribution(void **state)
{
    (void)state;
    static struct options o;
    o = u_options();
    o.do_sample = o.seed_given = true;
    o.seed = 11;
    o.max_new_tokens = 2;
    o.num_return_sequences = 20000;
    o.eos_count = 0;
    resolve(&o, 1);
    struct search *s = run(&o, 8, (int32_t[]){ 2 }, 1, constant, P);
    for (size_t place = 0; place < 2; place++) {
        double chi_square = 0;
        size_t counts[8] = { 0 };
        for (size_t i = 0; i < o.num_return_sequences; i++)
            counts[search_sequence(s, i).tokens[place]]++;
        for (size_t v = 0; v < 8; v++) {
            const double mean = (double)P[v] * (double)o.num_return_sequences;
            chi_square += ((double)counts[v] - mean) * ((double)counts[v] - mean) / mean;
        }
        assert_true(chi_square < 24.32); /* 7 degrees of freedom, one in a thousand */
    }
    search_destroy(&s);
}

/* Tokens of sequence `index` of `n`, as one number. */
static uint64_t sample(uint64_t seed, size_t n, size_t index)
{
    static struct options o;
    o = u_options();
    o.do_sample = o.seed_given = true;
    o.seed = seed;
    o.max_new_tokens = 12;
    o.num_return_sequences = n;
    resolve(&o, 1);
    struct search *s = run(&o, 8, (int32_t[]){ 2 }, 1, constant, P);
    const struct sequence q = search_sequence(s, index);
    uint64_t digest = 1;
    for (size_t i = 0; i < q.count; i++)
        digest = digest * 8 + (uint64_t)q.tokens[i];
    search_destroy(&s);
    return digest;
}

static void a_seed_gives_the_same_tokens_again(void **state)
{
    (void)state;
    size_t differ = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(sample(seed, 1, 0), sample(seed, 1, 0));
        differ += sample(seed, 1, 0) != sample(seed + 1, 1, 0);
    }
    assert_true(differ > 10);
}

static void a_sequence_does_not_depend_on_how_many_there_are(void **state)
{
    (void)state;
    size_t differ = 0;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(sample(3, 8, i), sample(3, i + 1, i));
        assert_int_equal(sample(3, 8, i), sample(3, 100, i));
        differ += sample(3, 8, i) != sample(3, 8, (i + 1) % 8);
    }
    assert_true(differ > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_follow_the_distribution),
        cmocka_unit_test(a_seed_gives_the_same_tokens_again),
        cmocka_unit_test(a_sequence_does_not_depend_on_how_many_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
