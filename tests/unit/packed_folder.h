/* packed_folder.h — a checkpoint packed into a folder, for tests. */
#ifndef TESTS_PACKED_FOLDER_H
#define TESTS_PACKED_FOLDER_H

#include <fcntl.h>

#include "base/mem.h"
#include "checkpoint.h"
#include "model/pack.h"

static const struct pack_options to_float32 = { .dtype = DTYPE_F32, .whole = true };
static const struct pack_options to_bfloat16 = { .dtype = DTYPE_BF16, .whole = true };
static const struct pack_options to_int8 = { .dtype = DTYPE_I8, .whole = true };

/* A folder of the checkpoint, not packed. */
static inline struct folder plain_folder(const struct checkpoint *c)
{
    const struct folder folder = make_tree();
    checkpoint_write(c, &folder);
    return folder;
}

static inline struct model *open_folder(const struct folder *folder, struct error *err)
{
    struct model *model;
    *err = (struct error){ 0 };
    model_open(&model, folder->path, "packed", &checkpoint_kernels, err);
    return model;
}

static inline int pack_into(const struct folder *folder, const char *name,
                            const struct pack_options *options, struct error *err)
{
    struct model *model = open_folder(folder, err);
    assert_non_null(model);
    const int fd = open(path_in(folder, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    const int rc = pack_write(model, options, fd, err);
    close(fd);
    model_close(&model);
    return rc;
}

/* A folder of the checkpoint that has its weights only packed. */
static inline struct folder packed_folder(const struct checkpoint *c,
                                          const struct pack_options *options)
{
    struct error err;
    const struct folder folder = plain_folder(c);
    if (pack_into(&folder, PACK_FILE_NAME, options, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(unlink(path_in(&folder, "model.safetensors")), 0);
    return folder;
}

static size_t warnings;

static inline void count_warning(void *context, const char *message)
{
    (void)context;
    print_message("# %s\n", message);
    warnings++;
}

/* Its warnings are counted. */
static inline struct model *open_packed(const struct checkpoint *c,
                                        const struct pack_options *options)
{
    struct error err;
    const struct folder folder = packed_folder(c, options);
    log_set_level(LOG_WARNING);
    log_divert(count_warning, NULL);
    struct model *model = open_folder(&folder, &err);
    log_divert(NULL, NULL);
    log_set_level(LOG_ERROR);
    if (!model)
        fail_msg("%s", err.message);
    remove_tree(&folder);
    return model;
}

#endif
