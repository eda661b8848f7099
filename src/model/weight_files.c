#include "weight_files.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/pack.h"
#include "shard_index.h"

/* Of one folder.  The largest models of these families have 7,000 tensors in 35 files. */
static const size_t TENSORS_MAX = 1 << 16, HEADER_BYTES_MAX = 16 << 20;

static const char single_name[] = "model.safetensors",
                  index_name[] = "model.safetensors.index.json";

static char *join(const char *dir, const char *name, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *text = mem_text(path);
    if (!text)
        error_set(err, ERR_NO_MEMORY, "%s", path);
    return text;
}

static int by_name(const void *a, const void *b)
{
    const struct tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

struct tensor *weight_files_find(const struct weight_files *files, const char *name)
{
    const struct tensor wanted = { .name = (char *)(uintptr_t)name }, *key = &wanted;
    struct tensor **found =
        bsearch(&key, files->tensors, files->tensor_count, sizeof *files->tensors, by_name);
    return found ? *found : NULL;
}

static int sort_tensors(struct weight_files *files, struct error *err)
{
    size_t count = 0;
    files->tensors = mem_alloc(files->tensor_count, sizeof *files->tensors);
    if (!files->tensors)
        return error_set(err, ERR_NO_MEMORY, "%s", files->path);
    for (size_t i = 0; i < files->file_count; i++)
        for (size_t j = 0; j < files->files[i].tensor_count; j++)
            files->tensors[count++] = &files->files[i].tensors[j];
    qsort(files->tensors, count, sizeof *files->tensors, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(files->tensors[i]->name, files->tensors[i - 1]->name) == 0)
            return error_set(err, ERR_BAD_MODEL, "%s and %s both have tensor \"%s\"",
                             files->tensors[i - 1]->path, files->tensors[i]->path,
                             files->tensors[i]->name);
    return 0;
}

/* A first file that is not there leaves *err alone. */
static int open_files(struct weight_files *files, const char *dir, const char *const *names,
                      size_t count, struct error *err)
{
    size_t header_bytes = 0;
    files->files = mem_alloc(count, sizeof *files->files);
    if (!files->files)
        return error_set(err, ERR_NO_MEMORY, "%s: %zu files", dir, count);
    for (size_t i = 0; i < count; i++) {
        struct safetensors *file = &files->files[i];
        if (safetensors_open(file, dir, names[i], err) < 0)
            return -1;
        files->file_count++;
        files->mapped_bytes += file->mapped.bytes;
        files->tensor_count += file->tensor_count;
        header_bytes += file->header_bytes;
        if (files->tensor_count > TENSORS_MAX || header_bytes > HEADER_BYTES_MAX)
            return error_set(err, ERR_BAD_MODEL,
                             "%s: more than %zu tensors, or %zu bytes of headers, in its files",
                             dir, TENSORS_MAX, HEADER_BYTES_MAX);
    }
    return sort_tensors(files, err);
}

/* Every tensor that the index names is where it says.  Those that it does not name are used like
 * the others: the reference loads each file whole, and takes from the index only their names. */
static int check_index(const struct weight_files *files, const struct shard_index *index,
                       struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach (index->weight_map, name, value) {
        const struct tensor *tensor = weight_files_find(files, name);
        const char *file = json_string_value(value);
        if (!tensor || strcmp(strrchr(tensor->path, '/') + 1, file) != 0)
            return error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" is not in %s%s%s", files->path,
                             name, file, tensor ? " but in " : "", tensor ? tensor->path : "");
    }
    const size_t unnamed = files->tensor_count - json_object_size(index->weight_map);
    if (unnamed > 0)
        log_write(LOG_WARNING, "%s does not name %zu tensors of its files", files->path, unnamed);
    return 0;
}

/* A folder without safetensors: say what is there instead, and what to do. */
static int other_format(const char *dir, struct error *err)
{
    static const char convert[] = "once run: tools/to_safetensors.py";
    static const char elsewhere[] = "take the model's safetensors or PyTorch files instead";
    static const struct {
        const char *name, *advice;
    } others[] = {
        { "pytorch_model.bin", convert },
        { "pytorch_model.bin.index.json", convert },
        { "tf_model.h5", elsewhere },
        { "flax_model.msgpack", elsewhere },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", dir, others[i].name);
        if (access(path, F_OK) == 0)
            return error_set(err, ERR_BAD_MODEL, "%s: only safetensors are read; %s%s%s", path,
                             others[i].advice, others[i].advice == convert ? " " : "",
                             others[i].advice == convert ? dir : "");
    }
    return error_set(err, ERR_IO, "%s has no weights: no such file as %s or %s", dir, single_name,
                     index_name);
}

static int open_shards(struct weight_files *files, const char *dir, struct error *err)
{
    struct shard_index index;
    if (shard_index_read(&index, dir, index_name, err) < 0)
        return err->code == ERR_NONE ? other_format(dir, err) : -1;
    int rc = -1;
    files->path = join(dir, index_name, err);
    if (files->path && open_files(files, dir, index.files, index.file_count, err) == 0)
        rc = check_index(files, &index, err);
    else if (err->code == ERR_NONE)
        error_set(err, ERR_IO, "%s/%s: no such file; %s names it", dir,
                  index.files[files->file_count], index_name);
    shard_index_free(&index);
    return rc;
}

static int open_single(struct weight_files *files, const char *dir, const char *name,
                       struct error *err)
{
    files->path = join(dir, name, err);
    return files->path ? open_files(files, dir, &name, 1, err) : -1;
}

/* A file that says it is packed must be of the version that is read here. */
static int check_packed(const struct safetensors *file, struct error *err)
{
    if (strcmp(file->packed, PACK_VERSION) == 0)
        return 0;
    return error_set(err, ERR_BAD_MODEL,
                     "%s is a packed file of version \"%s\"; version " PACK_VERSION
                     " is read: make it anew with `seqd quantize`",
                     file->path, file->packed);
}

int weight_files_open(struct weight_files *files, const char *dir, struct error *err)
{
    *files = (struct weight_files){ 0 };
    int rc = open_single(files, dir, PACK_FILE_NAME, err);
    if (rc == 0)
        rc = check_packed(&files->files[0], err);
    if (rc < 0 && err->code == ERR_NONE) {
        weight_files_close(files);
        rc = open_single(files, dir, single_name, err);
    }
    if (rc < 0 && err->code == ERR_NONE) {
        weight_files_close(files);
        rc = open_shards(files, dir, err);
    }
    if (rc < 0)
        weight_files_close(files);
    return rc;
}

int weight_files_add(struct weight_files *files, const char *dir, const char *name,
                     struct error *err)
{
    struct safetensors *grown =
        mem_resize(files->files, files->file_count + 1, sizeof *files->files);
    if (!grown)
        return error_set(err, ERR_NO_MEMORY, "%s/%s", dir, name);
    files->files = grown;
    struct safetensors *file = &grown[files->file_count];
    if (safetensors_open(file, dir, name, err) < 0)
        return -1;
    files->file_count++;
    files->mapped_bytes += file->mapped.bytes;
    files->tensor_count += file->tensor_count;
    mem_free(files->tensors);
    files->tensors = NULL;
    return check_packed(file, err) < 0 ? -1 : sort_tensors(files, err);
}

void weight_files_close(struct weight_files *files)
{
    for (size_t i = 0; i < files->file_count; i++)
        safetensors_close(&files->files[i]);
    mem_free(files->tensors);
    mem_free(files->files);
    mem_free(files->path);
    *files = (struct weight_files){ 0 };
}
