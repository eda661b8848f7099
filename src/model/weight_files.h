/* weight_files.h — all tensors of a model folder: of model.packed or, when that is not there, of
 * model.safetensors or of the files that model.safetensors.index.json names.
 * Private to src/model. */
#ifndef MODEL_WEIGHT_FILES_H
#define MODEL_WEIGHT_FILES_H

#include "safetensors.h"

struct weight_files {
    char *path; /* of the file or the index, for messages */
    struct safetensors *files;
    size_t file_count;
    struct tensor **tensors; /* sorted by name; the files' */
    size_t tensor_count;
    size_t mapped_bytes; /* of all files */
};

/* Opens the files of the folder `dir`.  On failure nothing is left open.  Errors: ERR_IO,
 * ERR_BAD_MODEL, ERR_NO_MEMORY; messages name the file, and say what to do about weights in another
 * format. */
int weight_files_open(struct weight_files *files, const char *dir, struct error *err);
/* Opens one packed file more, whose tensors stand beside the others'.  A file that is not there
 * leaves *err alone; after any failure only weight_files_close() may follow. */
int weight_files_add(struct weight_files *files, const char *dir, const char *name,
                     struct error *err);
void weight_files_close(struct weight_files *files);

/* NULL when there is none of that name. */
struct tensor *weight_files_find(const struct weight_files *files, const char *name);

#endif
