/* dlfcn.h — the one library there is on an emulated machine: cblas.h. */
#ifndef EMULATED_DLFCN_H
#define EMULATED_DLFCN_H

#include <stddef.h>
#include <string.h>

#include "cblas.h"

enum { RTLD_NOW, RTLD_LOCAL };

static inline void *dlopen(const char *name, int flags)
{
    static char handle;
    (void)name;
    (void)flags;
    return &handle;
}

static inline int dlclose(void *handle)
{
    (void)handle;
    return 0;
}

static inline const char *dlerror(void)
{
    return "";
}

static inline void *dlsym(void *handle, const char *name)
{
    (void)handle;
    return strcmp(name, "cblas_sgemm") == 0                ? (void *)cblas_sgemm
           : strcmp(name, "openblas_set_num_threads") == 0 ? (void *)openblas_set_num_threads
           : strcmp(name, "openblas_get_config") == 0      ? (void *)openblas_get_config
           : strcmp(name, "openblas_get_corename") == 0    ? (void *)openblas_get_corename
                                                           : NULL;
}

#endif
