/* file.h — the files of a model folder, which is untrusted input.
 *
 * Links are followed inside the folder, and from a snapshot of the Hugging Face cache
 * (REPO/snapshots/REVISION) into REPO/blobs beside it.  What leads anywhere else is refused: a
 * folder must not make the daemon read, and quote in a message, a file of the machine's. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include <stddef.h>

#include "base/error.h"

/* Opens the regular file DIR/NAME for reading: a descriptor, and its size in *bytes.  -1 on
 * failure; a file that is not there leaves *err alone, all else is ERR_IO.  A link to nothing is
 * an error that names its target. */
int model_file_open(const char *dir, const char *name, size_t *bytes, struct error *err);

/* The whole of such a file of at most `bytes_max`, for the caller to mem_free(); never NULL for an
 * empty one.  Errors as above, and ERR_BAD_MODEL (too large), ERR_NO_MEMORY. */
char *model_file_read(const char *dir, const char *name, size_t bytes_max, size_t *bytes,
                      struct error *err);

#endif
