#include "shard_index.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/file.h"
#include "model/json.h"

/* A tensor takes about 90 bytes here, and less than 400 of heap. */
static const size_t INDEX_BYTES_MAX = 4 << 20, INDEX_HEAP_MAX = 20 << 20;

static bool is_plain_name(const char *file)
{
    return file[0] != '\0' && strlen(file) <= NAME_MAX && !strchr(file, '/') &&
           strcmp(file, ".") != 0 && strcmp(file, "..") != 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_files(struct shard_index *index, const char *path, struct error *err)
{
    const char *tensor;
    json_t *value;
    size_t count = 0;
    const char **files = mem_alloc(json_object_size(index->weight_map), sizeof *files);
    index->files = files;
    if (!files)
        return error_set(err, ERR_NO_MEMORY, "%s", path);
    json_object_foreach (index->weight_map, tensor, value) {
        const char *file = json_string_value(value);
        if (!file || !is_plain_name(file))
            return error_set(err, ERR_BAD_MODEL,
                             "%s: the file of tensor \"%.128s\" is %s%.64s%s; it must be a plain "
                             "name",
                             path, tensor, file ? "\"" : "", file ? file : "no text",
                             file ? "\"" : "");
        files[count++] = file;
    }
    qsort(files, count, sizeof *files, by_text);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(files[i], files[i - 1]) != 0)
            files[index->file_count++] = files[i];
    if (index->file_count == 0 || index->file_count > SHARDS_MAX)
        return error_set(err, ERR_BAD_MODEL, "%s names %zu files; it must be 1 to %d", path,
                         index->file_count, SHARDS_MAX);
    return 0;
}

int shard_index_parse(struct shard_index *index, const char *bytes, size_t count, const char *path,
                      struct error *err)
{
    *index = (struct shard_index){ 0 };
    index->json = json_parse_within(bytes, count, INDEX_HEAP_MAX, path, ERR_BAD_MODEL, err);
    if (!index->json)
        return -1;
    index->weight_map = json_object_get(index->json, "weight_map");
    if (!json_is_object(index->weight_map))
        error_set(err, ERR_BAD_MODEL, "%s: \"weight_map\" is no object", path);
    else if (list_files(index, path, err) == 0)
        return 0;
    shard_index_free(index);
    return -1;
}

int shard_index_read(struct shard_index *index, const char *dir, const char *name,
                     struct error *err)
{
    char path[PATH_MAX];
    size_t count;
    *index = (struct shard_index){ 0 };
    char *bytes = model_file_read(dir, name, INDEX_BYTES_MAX, &count, err);
    if (!bytes)
        return -1;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const int rc = shard_index_parse(index, bytes, count, path, err);
    mem_free(bytes);
    return rc;
}

void shard_index_free(struct shard_index *index)
{
    mem_free(index->files);
    json_decref(index->json);
    *index = (struct shard_index){ 0 };
}
