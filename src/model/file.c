#include "model/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* Does the real path `file` lie in the first `length` bytes of `folder`, followed by `below`? */
static bool lies_in(const char *file, const char *folder, size_t length, const char *below)
{
    return strncmp(file, folder, length) == 0 && strncmp(file + length, below, strlen(below)) == 0;
}

static bool may_be_read(const char *file, const char *folder)
{
    const size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    if (lies_in(file, folder, length, "/"))
        return true;
    static const char marker[] = "/snapshots/";
    const char *snapshots = NULL;
    for (const char *at = strstr(folder, marker); at; at = strstr(at + 1, marker))
        snapshots = at;
    return snapshots && lies_in(file, folder, (size_t)(snapshots - folder), "/blobs/");
}

/* Why `path` has no real path, by errno. */
static int no_real_path(const char *path, struct error *err)
{
    char target[PATH_MAX];
    if (errno != ENOENT)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    const ssize_t length = readlink(path, target, sizeof target);
    if (length < 0)
        return -1;
    return error_set(
        err, ERR_IO,
        "%s is a link to nothing; a Hugging Face cache must be mounted or copied whole, "
        "with its blobs, not only its snapshots (the target is %.*s)",
        path, (int)length, target);
}

int model_file_open(const char *dir, const char *name, size_t *bytes, struct error *err)
{
    char path[PATH_MAX], folder[PATH_MAX], file[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return error_set(err, ERR_IO, "%.128s: the path is too long", name);
    if (!realpath(dir, folder) || !realpath(path, file))
        return no_real_path(path, err);
    if (!may_be_read(file, folder))
        return error_set(err, ERR_IO,
                         "%s leads out of the model's folder; copy the file into it, or serve the "
                         "folder where it lies (the target is %s)",
                         path, file);
    /* Real paths have no links; whoever can put one there meanwhile can as well write the file.
     * O_NONBLOCK: a FIFO must not hold us. */
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        error_set(err, ERR_IO, "%s is not a regular file", path);
    else {
        *bytes = (size_t)st.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int read_all(int fd, char *content, size_t bytes, const char *path, struct error *err)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(fd, content + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(err, ERR_IO, "%s: %s", path,
                             got ? strerror(errno) : "it became shorter");
        done += (size_t)got;
    }
    return 0;
}

char *model_file_read(const char *dir, const char *name, size_t bytes_max, size_t *bytes,
                      struct error *err)
{
    const int fd = model_file_open(dir, name, bytes, err);
    if (fd < 0)
        return NULL;
    char path[PATH_MAX], *content = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (*bytes > bytes_max)
        error_set(err, ERR_BAD_MODEL, "%s has %zu bytes; at most %zu are read", path, *bytes,
                  bytes_max);
    else if (!(content = mem_alloc(*bytes, 1)))
        error_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    else if (read_all(fd, content, *bytes, path, err) < 0) {
        mem_free(content);
        content = NULL;
    }
    close(fd);
    return content;
}
