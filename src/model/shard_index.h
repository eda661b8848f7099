/* shard_index.h — model.safetensors.index.json: which file of a folder has which tensor.
 * Private to src/model.
 *
 *   {"metadata": {…}, "weight_map": {"NAME": "model-00001-of-00002.safetensors", …}}
 *
 * Untrusted: a file is a plain name in the folder, and there are few. */
#ifndef MODEL_SHARD_INDEX_H
#define MODEL_SHARD_INDEX_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

enum { SHARDS_MAX = 1024 };

struct shard_index {
    json_t *json;       /* owns everything below */
    json_t *weight_map; /* tensor → file; every value is a text */
    const char **files; /* each once, sorted; the array is our own */
    size_t file_count;  /* at least 1 */
};

/* Reads DIR/NAME.  On failure nothing is left; a file that is not there leaves *err alone.  Errors:
 * ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY. */
int shard_index_read(struct shard_index *index, const char *dir, const char *name,
                     struct error *err);

/* The same for a text in memory.  `path` is for messages. */
int shard_index_parse(struct shard_index *index, const char *bytes, size_t count, const char *path,
                      struct error *err);

void shard_index_free(struct shard_index *index);

#endif
