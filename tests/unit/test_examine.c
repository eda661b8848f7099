/* Looking at a folder as a whole: every tensor at fault is found, and nothing leaks on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/model.h"
#include "model_folder.h"

enum { TENSORS = sizeof folder_tensors / sizeof *folder_tensors };

static struct kernels kernels;

static const struct finding *find(const struct findings *findings, const char *tensor)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].tensor && strcmp(findings->items[i].tensor, tensor) == 0)
            return &findings->items[i];
    return NULL;
}

static void a_good_folder_has_no_findings(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct findings findings = { 0 };
    size_t counts[DTYPE_COUNT];
    folder_weights(&folder, (struct folder_options){ .narrow = true });
    struct model *model = model_examine(folder.path, &kernels, &findings);
    assert_non_null(model);
    assert_int_equal(findings.count, 0);
    assert_int_equal(findings.problem_count, 0);
    model_count(model, counts);
    assert_int_equal(counts[DTYPE_F32] + counts[DTYPE_F16] + counts[DTYPE_BF16],
                     model->parameter_count);
    assert_true(counts[DTYPE_F16] > 0 && counts[DTYPE_BF16] > 0);
    assert_string_equal(model_tensor_name(model, model->output.w.data), "shared.weight");
    assert_null(model_tensor_name(model, &folder));
    model_close(&model);
    folder_remove(&folder);
}

static void each_tensor_at_fault_is_found_alone(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    for (size_t i = 0; i < 2 * TENSORS; i++) {
        const struct folder_tensor *tensor = &folder_tensors[i / 2];
        const bool skip = i % 2;
        struct findings findings = { 0 };
        folder_weights(&folder, skip ? (struct folder_options){ .skip = tensor->name }
                                     : (struct folder_options){ .wide = tensor->name });
        struct model *model = model_examine(folder.path, &kernels, &findings);
        assert_non_null(model);
        if (skip || tensor->columns > 0) { /* a vector may be written [n, 1] */
            assert_int_equal(findings.problem_count, 1);
            assert_int_equal(findings.count, 1);
            assert_non_null(find(&findings, tensor->name));
            assert_non_null(strstr(findings.items[0].text, skip ? "is missing" : "asks for ["));
        }
        findings_clear(&findings);
        model_close(&model);
    }
    folder_remove(&folder);
}

static void all_tensors_at_fault_and_all_unused_ones_are_found(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct findings findings = { 0 };
    folder_safetensors(&folder,
                       "{\"shared.weight\": {\"dtype\": \"F32\", \"shape\": [1, 2], "
                       "\"data_offsets\": [0, 8]}, \"other\": {\"dtype\": \"U8\", \"shape\": [0], "
                       "\"data_offsets\": [8, 8]}}",
                       "01234567", 8);
    struct model *model = model_examine(folder.path, &kernels, &findings);
    assert_non_null(model);
    assert_int_equal(findings.problem_count, TENSORS);
    assert_int_equal(findings.count, TENSORS + 1);
    assert_string_equal(find(&findings, "shared.weight")->text,
                        "is [1, 2]; config.json asks for [6, 4]");
    for (size_t i = 1; i < TENSORS; i++)
        assert_string_equal(find(&findings, folder_tensors[i].name)->text, "is missing");
    assert_int_equal(find(&findings, "other")->kind, FINDING_WARNING);
    findings_clear(&findings);
    model_close(&model);
    folder_remove(&folder);
}

static void a_folder_without_weights_still_has_its_configuration(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct findings findings = { 0 };
    struct model *model = model_examine(folder.path, &kernels, &findings);
    assert_non_null(model);
    assert_int_equal(model->config.width, 4);
    assert_int_equal(findings.problem_count, 1);
    assert_null(findings.items[0].tensor);
    assert_null(model_tensor_name(model, &folder));
    findings_clear(&findings);
    model_close(&model);

    folder_text(&folder, "config.json", "{}");
    assert_null(model_examine(folder.path, &kernels, &findings));
    assert_int_equal(findings.problem_count, 1);
    findings_clear(&findings);
    folder_remove(&folder);
}

static void the_same_of_one_tensor_is_kept_once(void **state)
{
    (void)state;
    struct findings findings = { 0 };
    for (int i = 0; i < 3; i++) {
        findings_add(&findings, FINDING_PROBLEM, "a", "is missing");
        findings_add(&findings, FINDING_PROBLEM, "b", "is missing");
        findings_add(&findings, FINDING_WARNING, NULL, "odd");
    }
    assert_int_equal(findings.count, 5);
    assert_int_equal(findings.problem_count, 2);
    findings_clear(&findings);
    assert_int_equal(findings.count, 0);
}

static void findings_are_counted_beyond_their_room(void **state)
{
    (void)state;
    struct findings findings = { 0 };
    for (int i = 0; i < 10000; i++)
        findings_add(&findings, FINDING_PROBLEM, NULL, "x");
    assert_int_equal(findings.problem_count, 10000);
    assert_true(findings.count < 10000);
    findings_clear(&findings);
}

static void every_failed_allocation_is_a_finding_or_leaves_the_model_whole(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    folder_weights(&folder, (struct folder_options){ .narrow = true, .shift = 1 });
    for (long count = 0;; count++) {
        struct findings findings = { 0 };
        mem_fail_after(count);
        struct model *model = model_examine(folder.path, &kernels, &findings);
        mem_fail_after(-1);
        assert_true(model || findings.problem_count > 0);
        const bool whole = findings.problem_count == 0 && findings.count == 1; /* "unused" */
        findings_clear(&findings);
        model_close(&model);
        if (whole)
            break;
    }
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_folder_has_no_findings),
        cmocka_unit_test(each_tensor_at_fault_is_found_alone),
        cmocka_unit_test(all_tensors_at_fault_and_all_unused_ones_are_found),
        cmocka_unit_test(a_folder_without_weights_still_has_its_configuration),
        cmocka_unit_test(the_same_of_one_tensor_is_kept_once),
        cmocka_unit_test(findings_are_counted_beyond_their_room),
        cmocka_unit_test(every_failed_allocation_is_a_finding_or_leaves_the_model_whole),
    };
    struct error err = { 0 };
    log_set_level(LOG_ERROR);
    if (kernels_init(&kernels, "", "own", &err) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
