#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/commands.h"
#include "model/pack.h"
#include "quantize_folder.h"

static int read_dtype(const char *name, enum dtype *dtype, struct error *err)
{
    static const enum dtype offered[] = { DTYPE_F32, DTYPE_BF16, DTYPE_I8 };
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++)
        if (strcmp(dtype_name(offered[i]), name) == 0) {
            *dtype = offered[i];
            return 0;
        }
    return error_set(err, ERR_CONFIG, "--dtype is \"%.64s\"; it must be " QUANTIZE_DTYPES, name);
}

static int write_weights(struct quantize_folder *folder, const struct model *model,
                         enum dtype dtype, struct error *err)
{
    struct error reason = { 0 };
    const struct pack_options options = { .dtype = dtype, .whole = true };
    const int fd = quantize_folder_create(folder, PACK_FILE_NAME, err);
    if (fd < 0)
        return -1;
    if (pack_write(model, &options, fd, &reason) == 0)
        return quantize_folder_finish(folder, PACK_FILE_NAME, fd, err);
    close(fd);
    return error_set(err, reason.code, "%s/" PACK_FILE_NAME ": %s", folder->out, reason.message);
}

static void print_linear(const struct model *model, const struct linear *linear)
{
    if (!linear->w.data || linear->w.dtype != DTYPE_F32)
        return;
    const char *name = model_tensor_name(model, linear->w.data);
    const char *ending = name ? strstr(name, ".panels.") : NULL;
    if (ending)
        printf("  stays float32: %.*s\n", (int)(ending - name), name);
}

static void print_stack(const struct model *model, const struct stack *stack)
{
    for (size_t i = 0; i < stack->layer_count; i++) {
        const struct layer *layer = &stack->layers[i];
        const struct attention_weights *const attention[] = { &layer->self, &layer->cross };
        for (size_t j = 0; j < sizeof attention / sizeof *attention; j++) {
            print_linear(model, &attention[j]->q);
            print_linear(model, &attention[j]->k);
            print_linear(model, &attention[j]->v);
            print_linear(model, &attention[j]->out);
        }
        print_linear(model, &layer->ffn_in);
        print_linear(model, &layer->ffn_gate);
        print_linear(model, &layer->ffn_out);
    }
}

static void print_summary(const struct quantize_folder *folder, const struct model *before,
                          const struct model *after, enum dtype dtype)
{
    printf("%s: %s, %.1f MB of weights\n"
           "%s: %s, %.1f MB\n",
           folder->in, dtype_name(before->dtype), (double)before->mapped_bytes / 1e6, folder->out,
           dtype_name(dtype), (double)after->mapped_bytes / 1e6);
    if (dtype != DTYPE_F32) {
        print_stack(after, &after->encoder);
        print_stack(after, &after->decoder);
        print_linear(after, &after->output);
    }
    if (folder->passed_over.length > 0)
        printf("  not copied: %s\n", folder->passed_over.data);
}

/* What was made is opened as the daemon will, before anybody relies on it. */
static int make(struct quantize_folder *folder, const struct configuration *config,
                enum dtype dtype, const struct kernels *kernels, struct error *err)
{
    const struct quantize *q = &config->quantize;
    struct model *before, *after = NULL;
    if (model_open(&before, q->in, q->in, kernels, err) < 0)
        return -1;
    int rc = -1;
    if (quantize_folder_make(folder, q->in, q->out, err) == 0 &&
        quantize_folder_copy(folder, err) == 0 && write_weights(folder, before, dtype, err) == 0 &&
        model_open(&after, q->out, q->out, kernels, err) == 0) {
        print_summary(folder, before, after, dtype);
        rc = 0;
    }
    model_close(&after);
    model_close(&before);
    return rc;
}

int command_quantize(const struct configuration *config, struct error *err)
{
    struct kernels kernels;
    struct quantize_folder folder = { 0 };
    enum dtype dtype = DTYPE_F32;
    if (read_dtype(config->quantize.dtype, &dtype, err) < 0 ||
        kernels_init(&kernels, config->isa, config->gemm, err) < 0)
        return -1;
    const int rc = make(&folder, config, dtype, &kernels, err);
    if (rc < 0)
        quantize_folder_remove(&folder);
    quantize_folder_free(&folder);
    return rc;
}
