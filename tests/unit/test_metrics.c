#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"

static struct buffer rendered(struct metrics *metrics)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    metrics_render(metrics, &out);
    assert_int_equal(out.state, BUFFER_OK);
    return out;
}

static void check_render(struct metrics *metrics, const char *expected)
{
    struct buffer out = rendered(metrics);
    assert_string_equal(out.data, expected);
    buffer_free(&out);
}

static double forty_two(void *context)
{
    return *(const double *)context;
}

static void families_keep_their_order_and_have_one_help_and_type(void **state)
{
    (void)state;
    struct metrics *m = metrics_create();
    double answer = 42;
    counter_add(metrics_counter(m, "b_total", "Second letter.", "x=\"1\""), 2);
    gauge_set(metrics_gauge(m, "a", "First letter.", ""), -1.5);
    counter_add(metrics_counter(m, "b_total", "Another help.", "x=\"2\""), 0.5);
    metrics_read(m, "c_total", "Read.", "", forty_two, &answer);
    metrics_read(m, "d", "Read.", "", forty_two, &answer);
    check_render(m, "# HELP b_total Second letter.\n"
                    "# TYPE b_total counter\n"
                    "b_total{x=\"1\"} 2\n"
                    "b_total{x=\"2\"} 0.5\n"
                    "# HELP a First letter.\n"
                    "# TYPE a gauge\n"
                    "a -1.5\n"
                    "# HELP c_total Read.\n"
                    "# TYPE c_total counter\n"
                    "c_total 42\n"
                    "# HELP d Read.\n"
                    "# TYPE d gauge\n"
                    "d 42\n");
    metrics_destroy(m);
}

static void buckets_are_cumulative_and_the_bound_belongs_to_its_bucket(void **state)
{
    (void)state;
    static const double bounds[] = { 0.005, 0.5, 1, 1024 };
    struct metrics *m = metrics_create();
    struct histogram *h = metrics_histogram(m, "h", "Sizes.", "k=\"v\"", bounds, 4);
    const double values[] = { 0.5, 0.75, 1024, 1025, 0 };
    for (size_t i = 0; i < 5; i++)
        histogram_observe(h, values[i]);
    metrics_histogram(m, "h", "Sizes.", "", bounds, 1);
    check_render(m, "# HELP h Sizes.\n"
                    "# TYPE h histogram\n"
                    "h_bucket{k=\"v\",le=\"0.005\"} 1\n"
                    "h_bucket{k=\"v\",le=\"0.5\"} 2\n"
                    "h_bucket{k=\"v\",le=\"1\"} 3\n"
                    "h_bucket{k=\"v\",le=\"1024\"} 4\n"
                    "h_bucket{k=\"v\",le=\"+Inf\"} 5\n"
                    "h_sum{k=\"v\"} 2050.25\n"
                    "h_count{k=\"v\"} 5\n"
                    "h_bucket{le=\"0.005\"} 0\n"
                    "h_bucket{le=\"+Inf\"} 0\n"
                    "h_sum 0\n"
                    "h_count 0\n");
    metrics_destroy(m);
}

static void the_same_name_and_labels_are_the_same_series(void **state)
{
    (void)state;
    struct metrics *m = metrics_create();
    struct gauge *one = metrics_gauge(m, "g", "G.", "x=\"1\"");
    assert_ptr_equal(one, metrics_gauge(m, "g", "G.", "x=\"1\""));
    assert_ptr_not_equal(one, metrics_gauge(m, "g", "G.", "x=\"2\""));
    gauge_add(one, 3);
    gauge_add(one, -1);
    assert_float_equal(gauge_value(one), 2, 0);
    metrics_destroy(m);
}

static void labels_and_help_cannot_break_the_format(void **state)
{
    (void)state;
    struct metrics *m = metrics_create();
    struct buffer labels;
    buffer_init(&labels, 100);
    metrics_label(&labels, "model", "a\"b\\c\nd} 1");
    metrics_label(&labels, "route", "");
    assert_string_equal(labels.data, "model=\"a\\\"b\\\\c\\nd} 1\",route=\"\"");
    metrics_gauge(m, "g", "Two\nlines \\ \"quoted\".", labels.data);
    check_render(m, "# HELP g Two\\nlines \\\\ \"quoted\".\n"
                    "# TYPE g gauge\n"
                    "g{model=\"a\\\"b\\\\c\\nd} 1\",route=\"\"} 0\n");
    buffer_free(&labels);
    metrics_destroy(m);
}

static void numbers_are_exact_and_special_values_have_their_spelling(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *line;
    } cases[] = {
        { 9007199254740992.0, "g 9007199254740992\n" },
        { 0.1, "g 0.1\n" },
        { 1e100, "g 1e+100\n" },
        { NAN, "g NaN\n" },
        { INFINITY, "g +Inf\n" },
        { -INFINITY, "g -Inf\n" },
    };
    struct metrics *m = metrics_create();
    struct gauge *g = metrics_gauge(m, "g", "G.", "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gauge_set(g, cases[i].value);
        struct buffer out = rendered(m);
        assert_non_null(strstr(out.data, cases[i].line));
        assert_null(strstr(out.data, " \n"));
        buffer_free(&out);
    }
    metrics_destroy(m);
}

static void a_failed_allocation_leaves_a_working_registry(void **state)
{
    (void)state;
    static const double bounds[] = { 1 };
    for (long n = 0;; n++) {
        mem_fail_after(n);
        struct metrics *m = metrics_create();
        if (!m)
            continue;
        counter_add(metrics_counter(m, "c_total", "C.", ""), 1);
        gauge_set(metrics_gauge(m, "g", "G.", ""), 1);
        histogram_observe(metrics_histogram(m, "h", "H.", "", bounds, 1), 2);
        mem_fail_after(-1);
        struct buffer out = rendered(m);
        const bool complete = out.data && strstr(out.data, "c_total 1\n") &&
                              strstr(out.data, "g 1\n") && strstr(out.data, "h_count 1\n");
        buffer_free(&out);
        metrics_destroy(m);
        if (complete)
            break;
        assert_true(n < 100);
    }
    mem_fail_after(-1);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *update(void *metrics)
{
    static const double bounds[] = { 1, 2, 3 };
    for (int i = 0; i < ROUNDS; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "n=\"%d\"", i % 50);
        counter_add(metrics_counter(metrics, "c_total", "C.", labels), 1);
        histogram_observe(metrics_histogram(metrics, "h", "H.", "", bounds, 3), i % 5);
    }
    return NULL;
}

/* The number after `name` in the text. */
static long long number(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static void every_scrape_under_load_is_consistent_and_no_update_is_lost(void **state)
{
    (void)state;
    struct metrics *m = metrics_create();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, update, m), 0);
    for (int i = 0; i < 200; i++) {
        struct buffer out = rendered(m);
        if (out.data && strstr(out.data, "h_count")) {
            const long long all = number(out.data, "h_bucket{le=\"+Inf\"} ");
            assert_int_equal(all, number(out.data, "h_count "));
            assert_true(number(out.data, "h_bucket{le=\"3\"} ") <= all);
            assert_true(number(out.data, "h_bucket{le=\"1\"} ") <=
                        number(out.data, "h_bucket{le=\"2\"} "));
        }
        buffer_free(&out);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct buffer out = rendered(m);
    assert_int_equal(number(out.data, "h_count "), THREADS * ROUNDS);
    assert_int_equal(number(out.data, "h_sum "), THREADS * ROUNDS * 2);
    assert_int_equal(number(out.data, "c_total{n=\"49\"} "), THREADS * ROUNDS / 50);
    buffer_free(&out);
    metrics_destroy(m);
}

static void hidden_series_come_back_with_their_values(void **state)
{
    (void)state;
    struct metrics *m = metrics_create();
    static const char *const labels[] = { "model=\"a\"", "model=\"a\",phase=\"x\"",
                                          "route=\"/\",model=\"a\"", "model=\"ab\"",
                                          "submodel=\"a\"" };
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        counter_add(metrics_counter(m, "c_total", "C.", labels[i]), (double)i);
    metrics_hide(m, NULL, "model", "a");
    check_render(m, "# HELP c_total C.\n# TYPE c_total counter\n"
                    "c_total{model=\"ab\"} 3\nc_total{submodel=\"a\"} 4\n");
    metrics_counter(m, "c_total", "C.", labels[1]);
    check_render(m, "# HELP c_total C.\n# TYPE c_total counter\n"
                    "c_total{model=\"a\",phase=\"x\"} 1\n"
                    "c_total{model=\"ab\"} 3\nc_total{submodel=\"a\"} 4\n");
    metrics_hide(m, "d_total", "submodel", "a");
    metrics_hide(m, "c_total", "model", "a");
    check_render(m, "# HELP c_total C.\n# TYPE c_total counter\n"
                    "c_total{model=\"ab\"} 3\nc_total{submodel=\"a\"} 4\n");
    metrics_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_keep_their_order_and_have_one_help_and_type),
        cmocka_unit_test(buckets_are_cumulative_and_the_bound_belongs_to_its_bucket),
        cmocka_unit_test(the_same_name_and_labels_are_the_same_series),
        cmocka_unit_test(labels_and_help_cannot_break_the_format),
        cmocka_unit_test(numbers_are_exact_and_special_values_have_their_spelling),
        cmocka_unit_test(a_failed_allocation_leaves_a_working_registry),
        cmocka_unit_test(hidden_series_come_back_with_their_values),
        cmocka_unit_test(every_scrape_under_load_is_consistent_and_no_update_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
