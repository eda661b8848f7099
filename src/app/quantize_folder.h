/* quantize_folder.h — the folder that `seqd quantize` makes.  Private to src/app. */
#ifndef APP_QUANTIZE_FOLDER_H
#define APP_QUANTIZE_FOLDER_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

struct quantize_folder {
    const char *in, *out; /* borrowed */
    char **made;          /* paths of what was made, in this order; owned */
    size_t made_count, made_capacity;
    struct buffer passed_over; /* sub-folders of `in` that were not copied: "a, b" */
};

/* Makes the folder `out`; one that is there must be empty, and not lie in `in`.  After a failure,
 * too, quantize_folder_free() follows.  Errors of all: ERR_IO, ERR_NO_MEMORY; messages name the
 * file. */
int quantize_folder_make(struct quantize_folder *folder, const char *in, const char *out,
                         struct error *err);

/* Copies the files of `in` but those of weights, and whole the folders of sentence-transformers'
 * modules (1_Pooling, 2_Dense).  Nothing outside of `in` is read (model/file.h). */
int quantize_folder_copy(struct quantize_folder *folder, struct error *err);

/* A new file NAME in `out`, open for writing, under a temporary name until
 * quantize_folder_finish(), which closes it and makes it durable.  Returns the descriptor. */
int quantize_folder_create(struct quantize_folder *folder, const char *name, struct error *err);
int quantize_folder_finish(struct quantize_folder *folder, const char *name, int fd,
                           struct error *err);

/* Takes away all that was made. */
void quantize_folder_remove(struct quantize_folder *folder);
void quantize_folder_free(struct quantize_folder *folder);

#endif
