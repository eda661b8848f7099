/* The modules of sentence-transformers folders: the reference's vectors
 * (tests/unit/data/sentence_golden.json, by tools/golden_sentence.py), and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/sentence.h"
#include "model_folder.h"

enum { WIDTH = 4, PLACES_MAX = 16, DIM_MAX = 64 };

static struct kernels kernels;

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* FOLDER/NAME, made. */
static struct folder part_of(const struct folder *folder, const char *name)
{
    struct folder part;
    assert(snprintf(part.path, sizeof part.path, "%s/%s", folder->path, name) <
           (int)sizeof part.path);
    mkdir(part.path, 0700);
    return part;
}

/* `name` may lie one folder deeper. */
static void put(const struct folder *folder, const char *name, const char *text)
{
    char dir[32] = "";
    const char *slash = strchr(name, '/');
    if (slash) {
        memcpy(dir, name, (size_t)(slash - name));
        part_of(folder, dir);
    }
    folder_text(folder, name, text);
}

static void put_json(const struct folder *folder, const char *name, const json_t *json)
{
    char *text = json_dumps(json, 0);
    put(folder, name, text);
    free(text);
}

/* {"linear.weight": [[…], …], …} as float32. */
static void put_weights(const struct folder *folder, json_t *tensors)
{
    char header[512] = "{";
    float data[512];
    size_t count = 0;
    const char *name;
    json_t *tensor, *row, *number;
    json_object_foreach (tensors, name, tensor) {
        const size_t begin = count, rows = json_array_size(tensor);
        const size_t columns = json_array_size(json_array_get(tensor, 0));
        size_t i, j;
        json_array_foreach (tensor, i, row) {
            if (json_is_number(row))
                data[count++] = (float)json_number_value(row);
            json_array_foreach (row, j, number)
                data[count++] = (float)json_number_value(number);
        }
        char shape[32];
        snprintf(shape, sizeof shape, columns ? "%zu, %zu" : "%zu", rows, columns);
        snprintf(header + strlen(header), sizeof header - strlen(header),
                 "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}",
                 header[1] ? ", " : "", name, shape, begin * 4, count * 4);
    }
    strcat(header, "}");
    folder_safetensors(folder, header, data, count * sizeof *data);
}

static struct folder create(void)
{
    struct folder folder = { "/tmp/seqd-test-XXXXXX" };
    assert(mkdtemp(folder.path));
    return folder;
}

/* States of one row and what a model makes of them. */
struct row_of_states {
    float x[PLACES_MAX * WIDTH];
    int32_t places[PLACES_MAX];
    size_t count;
};

static void pooled(struct sentence *sentence, enum pooling pooling, bool normalize,
                   const struct row_of_states *row, float *vector)
{
    struct model model = { .config.width = WIDTH, .sentence = sentence };
    struct arena arena;
    struct error err = { 0 };
    assert_int_equal(arena_open(&arena, pooling_scratch_bytes(&model), &err), 0);
    const struct pass pass = { &model, &kernels, &arena, NULL, false };
    const struct source_row source = { .places = row->places, .count = row->count };
    assert_true(pooling_dim(&model, pooling) <= DIM_MAX);
    pooling_vector(&pass, pooling, normalize, &source, row->x, vector);
    assert_int_equal(arena_mark(&arena), 0);
    arena_close(&arena);
}

static struct row_of_states row_of(json_t *states, json_t *mask)
{
    struct row_of_states row = { .count = 0 };
    for (size_t place = 0; place < json_array_size(mask); place++) {
        if (json_integer_value(json_array_get(mask, place)) == 0)
            continue;
        for (size_t d = 0; d < WIDTH; d++)
            row.x[row.count * WIDTH + d] =
                (float)json_number_value(json_array_get(json_array_get(states, place), d));
        row.places[row.count++] = (int32_t)place;
    }
    return row;
}

static void compare(const float *vector, json_t *right, const char *name, size_t row)
{
    for (size_t i = 0; i < json_array_size(right); i++) {
        const double value = json_number_value(json_array_get(right, i));
        if (!(fabs((double)vector[i] - value) <= 1e-6))
            fail_msg("%s, row %zu: number %zu is %.9g, not %.9g", name, row, i, (double)vector[i],
                     value);
    }
}

static void check_case(json_t *one)
{
    const char *name = json_string_value(json_object_get(one, "name")), *path;
    const struct folder folder = create();
    json_t *json;
    json_object_foreach (json_object_get(one, "files"), path, json)
        put_json(&folder, path, json);
    json_object_foreach (json_object_get(one, "weights"), path, json) {
        const struct folder part = part_of(&folder, path);
        put_weights(&part, json);
    }
    struct sentence *sentence;
    struct error err = { 0 };
    if (sentence_open(&sentence, folder.path, WIDTH, &kernels, &err) < 0)
        fail_msg("%s: %s", name, err.message);
    json_t *states = json_object_get(one, "states"), *masks = json_object_get(one, "masks");
    for (size_t i = 0; i < json_array_size(states); i++) {
        const struct row_of_states row =
            row_of(json_array_get(states, i), json_array_get(masks, i));
        json_t *right = json_array_get(json_object_get(one, "vectors"), i);
        json_t *unit = json_array_get(json_object_get(one, "unit_vectors"), i);
        float vector[DIM_MAX];
        assert_int_equal(sentence->dim, json_array_size(right));
        pooled(sentence, POOLING_FOLDER, sentence->normalize, &row, vector);
        compare(vector, right, name, i);
        pooled(sentence, POOLING_FOLDER, true, &row, vector);
        compare(vector, unit, name, i);
    }
    sentence_close(&sentence);
    remove_tree(folder.path);
}

static void the_modules_give_the_vectors_of_the_reference(void **state)
{
    (void)state;
    json_error_t error;
    json_t *cases = json_load_file("tests/unit/data/sentence_golden.json", 0, &error);
    assert_true(json_array_size(cases) > 30);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
    json_decref(cases);
}

#define MODULE(type, path)                                                                         \
    "{\"idx\": 0, \"name\": \"0\", \"path\": \"" path "\","                                        \
    " \"type\": \"sentence_transformers.models." type "\"}"
#define TRANSFORMER MODULE("Transformer", "")
#define POOLING     MODULE("Pooling", "1_Pooling")
#define DENSE       MODULE("Dense", "2_Dense")
#define NORMALIZE   MODULE("Normalize", "3_Normalize")

/* Mean, Dense 4 → 2 without activation or bias, Normalize. */
static struct folder folder_of_three(void)
{
    const struct folder folder = create();
    put(&folder, "modules.json", "[" TRANSFORMER ", " POOLING ", " DENSE ", " NORMALIZE "]");
    put(&folder, "1_Pooling/config.json", "{\"word_embedding_dimension\": 4}");
    put(&folder, "2_Dense/config.json",
        "{\"in_features\": 4, \"out_features\": 2, \"bias\": false,"
        " \"activation_function\": \"torch.nn.modules.linear.Identity\"}");
    const struct folder dense = part_of(&folder, "2_Dense");
    json_t *weights =
        json_pack("{s: [[i, i, i, i], [i, i, i, i]]}", "linear.weight", 3, 0, 0, 0, 0, 4, 0, 0);
    put_weights(&dense, weights);
    json_decref(weights);
    return folder;
}

static void refused(const struct folder *folder, enum error_code code, const char *part)
{
    struct sentence *sentence;
    struct error err = { 0 };
    assert_int_equal(sentence_open(&sentence, folder->path, WIDTH, &kernels, &err), -1);
    assert_null(sentence);
    if (err.code != code || !strstr(err.message, part))
        fail_msg("%d: \"%s\" does not say \"%s\"", err.code, err.message, part);
}

static void plain_pooling_leaves_the_modules_out(void **state)
{
    (void)state;
    const struct folder folder = folder_of_three();
    const struct row_of_states row = { .x = { 1, 2, 3, 4, 5, 0, 3, 8 }, .places = { 2, 5 }, 2 };
    static const struct {
        enum pooling pooling;
        bool normalize;
        float right[4];
    } cases[] = {
        { POOLING_MEAN, false, { 3, 1, 3, 6 } },   { POOLING_MAX, false, { 5, 2, 3, 8 } },
        { POOLING_CLS, false, { 1, 2, 3, 4 } },    { POOLING_LAST, false, { 5, 0, 3, 8 } },
        { POOLING_FOLDER, false, { 9, 4, 0, 0 } }, { POOLING_FOLDER, true, { 0.91f, 0.41f, 0, 0 } },
    };
    struct sentence *sentence;
    struct error err = { 0 };
    assert_int_equal(sentence_open(&sentence, folder.path, WIDTH, &kernels, &err), 0);
    assert_true(sentence->normalize);
    assert_int_equal(sentence->parameter_count, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float vector[DIM_MAX] = { 0 };
        pooled(sentence, cases[i].pooling, cases[i].normalize, &row, vector);
        for (size_t d = 0; d < WIDTH; d++)
            assert_true(fabsf(vector[d] - cases[i].right[d]) < 0.005f);
    }
    sentence_close(&sentence);
    remove_tree(folder.path);
}

static void a_vector_of_zeros_stays(void **state)
{
    (void)state;
    const struct row_of_states row = { .x = { 0 }, .places = { 0 }, .count = 1 };
    float vector[DIM_MAX];
    pooled(NULL, POOLING_MEAN, true, &row, vector);
    for (size_t d = 0; d < WIDTH; d++)
        assert_true(vector[d] == 0.0f);
}

static void a_folder_without_modules_has_no_sentence(void **state)
{
    (void)state;
    const struct folder folder = create();
    struct sentence *sentence;
    struct error err = { 0 };
    assert_int_equal(sentence_open(&sentence, folder.path, WIDTH, &kernels, &err), 0);
    assert_null(sentence);
    remove_tree(folder.path);
}

static void what_is_not_served_is_named(void **state)
{
    (void)state;
    static const char pooling[] = "1_Pooling/config.json", dense[] = "2_Dense/config.json";
    static const char sizes[] = "{\"in_features\": 4, \"out_features\": 2, ";
    static const struct {
        const char *file, *text, *more, *message;
    } cases[] = {
        { "modules.json", "{}", "", "must be an array" },
        { "modules.json", "[" TRANSFORMER "]", "", "a Pooling" },
        { "modules.json", "[" TRANSFORMER ", 5]", "", "module 1 has no type" },
        { "modules.json", "[" TRANSFORMER ", " DENSE "]", "", "module 1 is Dense" },
        { "modules.json", "[" POOLING ", " POOLING "]", "", "module 0 is Pooling" },
        { "modules.json", "[" TRANSFORMER ", " POOLING ", " POOLING "]", "", "module 2 is Pool" },
        { "modules.json", "[" TRANSFORMER ", " POOLING ", " MODULE("CNN", "2_CNN") "]", "",
          "models.CNN" },
        { "modules.json",
          "[" TRANSFORMER ", " POOLING ", {\"path\": \"\", \"type\": \"my.Dense\"}]", "",
          "my.Dense" },
        { "modules.json", "[" MODULE("Transformer", "0_Transformer") ", " POOLING "]", "",
          "0_Transformer" },
        { "modules.json", "[" TRANSFORMER ", " MODULE("Pooling", "9_Pooling") "]", "",
          "9_Pooling/config.json" },
        { pooling, "{\"pooling_mode\": \"middle\"}", "", "\"middle\"" },
        { pooling, "{\"pooling_mode\": []}", "", "pooling_mode" },
        { pooling, "{\"pooling_mode\": [\"cls\", 1]}", "", "pooling_mode" },
        { pooling, "{\"pooling_mode\": \"cls\", \"pooling_mode_new\": true}", "",
          "pooling_mode_new" },
        { pooling, "{\"pooling_mode_cls_token\": 1}", "", "pooling_mode_cls_token" },
        { pooling, "{\"word_embedding_dimension\": 5}", "", "embedding_dimension" },
        { pooling, "[]", "", "1_Pooling/config.json is no JSON object" },
        { dense, sizes, "\"activation_function\": \"torch.nn.modules.activation.Mish\"}", "Mish" },
        { dense, sizes, "\"activation_function\": \"my.Tanh\"}", "my.Tanh" },
        { dense, sizes, "\"activation_function\": null}", "activation_function" },
        { dense, sizes, "\"use_residual\": true}", "use_residual" },
        { dense, sizes, "\"module_input_name\": \"token_embeddings\"}", "token_embeddings" },
        { dense, sizes, "\"bias\": 1}", "bias" },
        { dense, "{\"in_features\": 5, \"out_features\": 2}", "", "in_features" },
        { dense, "{\"in_features\": 4}", "", "out_features" },
        { dense, "{\"in_features\": 4, \"out_features\": 3, \"bias\": false}", "",
          "linear.weight" },
        { dense, sizes, "\"bias\": true}", "linear.bias" },
        { "3_Normalize/config.json", "{\"module_input_name\": \"token_embeddings\"}", "",
          "token_embeddings" },
        { "sentence_bert_config.json", "{\"transformer_task\": \"fill-mask\"}", "", "fill-mask" },
        { "sentence_bert_config.json", "{\"config_args\": {\"hidden_act\": \"relu\"}}", "",
          "config_args" },
        { "sentence_bert_config.json",
          "{\"modality_config\": {\"text\": {\"method\": \"forward\","
          " \"method_output_name\": \"pooler_output\"}}}",
          "", "pooler_output" },
        { "sentence_roberta_config.json", "{\"max_seq_length\": 0}", "", "max_seq_length" },
        { "config_sentence_transformers.json", "{\"truncate_dim\": 0}", "", "truncate_dim" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct folder folder = folder_of_three();
        char text[1024];
        snprintf(text, sizeof text, "%s%s", cases[i].text, cases[i].more);
        put(&folder, cases[i].file, text);
        const bool missing = strstr(cases[i].message, "9_Pooling") != NULL;
        refused(&folder, missing ? ERR_IO : ERR_BAD_MODEL, cases[i].message);
        remove_tree(folder.path);
    }
}

static void what_concerns_texts_only_is_let_through(void **state)
{
    (void)state;
    const struct folder folder = folder_of_three();
    struct sentence *sentence;
    struct error err = { 0 };
    put(&folder, "sentence_bert_config.json", "{\"max_seq_length\": 20, \"do_lower_case\": true}");
    put(&folder, "config_sentence_transformers.json",
        "{\"prompts\": {\"query\": \"q: \"}, \"default_prompt_name\": \"query\","
        " \"truncate_dim\": null}");
    put(&folder, "1_Pooling/config.json",
        "{\"embedding_dimension\": 4, \"include_prompt\": false}");
    put(&folder, "3_Normalize/config.json", "{\"module_input_name\": \"sentence_embedding\"}");
    assert_int_equal(sentence_open(&sentence, folder.path, WIDTH, &kernels, &err), 0);
    assert_int_equal(sentence->tokens_max, 20);
    assert_int_equal(sentence->dim, 2);
    sentence_close(&sentence);
    remove_tree(folder.path);
}

static void weights_that_only_pytorch_reads_are_refused(void **state)
{
    (void)state;
    const struct folder folder = folder_of_three();
    const struct folder dense = part_of(&folder, "2_Dense");
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", dense.path);
    unlink(path);
    refused(&folder, ERR_IO, "2_Dense");
    folder_text(&dense, "pytorch_model.bin", "");
    refused(&folder, ERR_BAD_MODEL, "pytorch_model.bin");
    remove_tree(folder.path);
}

static void no_path_leads_out_of_the_folder(void **state)
{
    (void)state;
    static const char *const paths[] = { "..", "../x", "/etc", "a/../../x", "a/..", "a/b/.." };
    const struct folder folder = folder_of_three();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "[" TRANSFORMER ", {\"path\": \"%s\", \"type\": "
                 "\"sentence_transformers.models.Pooling\"}]",
                 paths[i]);
        put(&folder, "modules.json", text);
        refused(&folder, ERR_BAD_MODEL, "leads out of the folder");
    }
    remove_tree(folder.path);
}

static void move(const struct folder *from, const char *name, const struct folder *to,
                 const char *new_name, const char *link)
{
    char old[128], new[128];
    snprintf(old, sizeof old, "%s/%s", from->path, name);
    snprintf(new, sizeof new, "%s/%s", to->path, new_name);
    assert_int_equal(rename(old, new), 0);
    assert_int_equal(symlink(link ? link : new, old), 0);
}

static void links_lead_into_the_hub_cache_only(void **state)
{
    (void)state;
    const struct folder cache = create(), plain = folder_of_three();
    const struct folder blobs = part_of(&cache, "blobs"), revisions = part_of(&cache, "snapshots");
    struct sentence *sentence;
    struct error err = { 0 };
    char snapshot[64];
    snprintf(snapshot, sizeof snapshot, "%.40s/r", revisions.path);
    assert_int_equal(rename(plain.path, snapshot), 0);
    struct folder folder;
    memcpy(folder.path, snapshot, sizeof snapshot);
    move(&folder, "modules.json", &blobs, "1", "../../blobs/1");
    move(&folder, "1_Pooling/config.json", &blobs, "2", "../../../blobs/2");
    move(&folder, "2_Dense/config.json", &blobs, "3", "../../../blobs/3");
    move(&folder, "2_Dense/model.safetensors", &blobs, "4", "../../../blobs/4");
    assert_int_equal(sentence_open(&sentence, folder.path, WIDTH, &kernels, &err), 0);
    assert_non_null(sentence);
    sentence_close(&sentence);

    const struct folder outside = create();
    move(&folder, "1_Pooling", &outside, "1_Pooling", NULL);
    put(&outside, "config.json", "{\"embedding_dimension\": 4}");
    move(&outside, "config.json", &outside, "1_Pooling/config.json", NULL);
    refused(&folder, ERR_IO, "leads out of");
    remove_tree(outside.path);
    remove_tree(cache.path);
}

static void every_failed_allocation_is_clean(void **state)
{
    (void)state;
    const struct folder folder = folder_of_three();
    struct sentence *sentence = NULL;
    for (long failures = 0; !sentence; failures++) {
        struct error err = { 0 };
        mem_fail_after(failures);
        const int rc = sentence_open(&sentence, folder.path, WIDTH, &kernels, &err);
        mem_fail_after(-1);
        assert_int_equal(rc, sentence ? 0 : -1);
        assert_int_equal(err.code, sentence ? ERR_NONE : ERR_NO_MEMORY);
        assert_true(failures < 10000);
    }
    sentence_close(&sentence);
    remove_tree(folder.path);
}

static int start(void **state)
{
    (void)state;
    struct error err = { 0 };
    log_set_level(LOG_NONE);
    return kernels_init(&kernels, getenv("SEQD_ISA"), "own", &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_modules_give_the_vectors_of_the_reference),
        cmocka_unit_test(plain_pooling_leaves_the_modules_out),
        cmocka_unit_test(a_vector_of_zeros_stays),
        cmocka_unit_test(a_folder_without_modules_has_no_sentence),
        cmocka_unit_test(what_is_not_served_is_named),
        cmocka_unit_test(what_concerns_texts_only_is_let_through),
        cmocka_unit_test(weights_that_only_pytorch_reads_are_refused),
        cmocka_unit_test(no_path_leads_out_of_the_folder),
        cmocka_unit_test(links_lead_into_the_hub_cache_only),
        cmocka_unit_test(every_failed_allocation_is_clean),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
