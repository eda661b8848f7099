/* slurp.h — a small file of the kernel's, as text. */
#ifndef BASE_SLURP_H
#define BASE_SLURP_H

#include <stdbool.h>
#include <stddef.h>

/* Reads at most room−1 bytes of the file and ends them with a NUL.  False: it cannot be read. */
bool slurp(const char *path, char *text, size_t room);

#endif
