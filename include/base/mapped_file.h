/* mapped_file.h — a file mapped to be read, whose bytes must stay as they are.
 *
 * A file that becomes shorter while it is mapped leaves no answer to be trusted: pages beyond its
 * end raise SIGBUS, and the rest of its last page reads as zeros.  Both end the process with a
 * message that names the file. */
#ifndef BASE_MAPPED_FILE_H
#define BASE_MAPPED_FILE_H

#include <stddef.h>

#include "base/error.h"

struct mapped_file {
    void *data; /* NULL: the file is empty */
    size_t bytes;
    int fd;
    int place; /* among the files that are watched; −1: there are too many */
};

/* Takes fd over, whatever happens.  `path` is for messages.  Errors: ERR_IO. */
int mapped_file_open(struct mapped_file *file, int fd, size_t bytes, const char *path,
                     struct error *err);
void mapped_file_close(struct mapped_file *file);

/* Ends the process if a mapped file is shorter than it was.  Any thread; some system calls. */
void mapped_files_check(void);

/* SIGBUS came for this address: ends the process if it lies in a mapped file.  For a handler. */
void mapped_files_fault(const void *address);

#endif
