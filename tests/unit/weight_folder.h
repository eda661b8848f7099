/* weight_folder.h — folders of hostile, sharded or linked weight files, written for one test. */
#ifndef TESTS_WEIGHT_FOLDER_H
#define TESTS_WEIGHT_FOLDER_H

#include <assert.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/model/weights.h"
#include "model_folder.h"

/* A fresh folder, for remove_tree(). */
static inline struct folder make_tree(void)
{
    struct folder folder = { "/tmp/seqd-test-XXXXXX" };
    assert(mkdtemp(folder.path));
    return folder;
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void remove_tree(const struct folder *folder)
{
    nftw(folder->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* FOLDER/NAME, in one of four buffers. */
static inline const char *path_in(const struct folder *folder, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder->path, name);
    return path;
}

static inline void make_folder(const struct folder *folder, const char *name)
{
    assert(mkdir(path_in(folder, name), 0700) == 0);
}

static inline void make_link(const struct folder *folder, const char *name, const char *target)
{
    const char *path = path_in(folder, name);
    unlink(path);
    assert(symlink(target, path) == 0);
}

/* A weight file NAME of that header, filled up with spaces to a multiple of 8 as writers do, and of
 * `data_bytes` bytes 0, 1, 2, … */
static inline void write_weights(const struct folder *folder, const char *name, const char *header,
                                 size_t data_bytes)
{
    const size_t text = strlen(header), length = (text + 7) / 8 * 8;
    char *file = calloc(8 + length + data_bytes, 1);
    assert(file);
    memset(file + 8, ' ', length);
    memcpy(file + 8, header, text);
    for (size_t i = 0; i < 8; i++)
        file[i] = (char)((uint64_t)length >> (8 * i) & 0xff);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + length + i] = (char)i;
    folder_write(folder, name, file, 8 + length + data_bytes);
    free(file);
}

/* A weight file with an F32 [1, 2] tensor for every letter of `tensors`. */
static inline void write_letters(const struct folder *folder, const char *name, const char *tensors)
{
    char header[1024] = "{";
    size_t length = 1;
    for (size_t i = 0; tensors[i]; i++)
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   "%s\"%c\": {\"dtype\": \"F32\", \"shape\": [1, 2], "
                                   "\"data_offsets\": [%zu, %zu]}",
                                   i ? ", " : "", tensors[i], 8 * i, 8 * i + 8);
    snprintf(header + length, sizeof header - length, "}");
    write_weights(folder, name, header, 8 * strlen(tensors));
}

#endif
