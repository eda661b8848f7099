#include "pack_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/pack.h"
#include "weights.h"

/* CONTENT.packed, where CONTENT is a digest of the weight files, so a copy belongs to what it was
 * made of, whatever the folder is called and whenever it changes.  While it is written it is called
 * .CONTENT.PID.N.new and locked: one that nobody has locked was left by a process that died. */
enum { NAME_BYTES = 128 };
static const char unfinished[] = ".new";

static int name_by_content(const struct weight_files *files, char name[NAME_BYTES],
                           struct error *err)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return error_set(err, ERR_NO_MEMORY, "a digest of %s", files->path);
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < files->file_count; i++) {
        const uint64_t bytes = files->files[i].mapped.bytes;
        XXH3_128bits_update(state, &bytes, sizeof bytes);
        XXH3_128bits_update(state, files->files[i].mapped.data, files->files[i].mapped.bytes);
    }
    const XXH128_hash_t digest = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(name, NAME_BYTES, "%016llx%016llx-" PACK_VERSION ".packed",
             (unsigned long long)digest.high64, (unsigned long long)digest.low64);
    return 0;
}

/* Nothing but what create_locked() makes: the folder may have files of others. */
static bool is_unfinished(const char *name)
{
    enum { DIGITS = 32 };
    static const char ours[] = ".packed.";
    const size_t length = strlen(name), end = sizeof unfinished - 1;
    if (name[0] != '.' || strspn(name + 1, "0123456789abcdef") != DIGITS || name[1 + DIGITS] != '-')
        return false;
    return strstr(name, ours) && strcmp(name + length - end, unfinished) == 0;
}

static void remove_abandoned(const char *dir)
{
    DIR *entries = opendir(dir);
    if (!entries)
        return;
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        if (!is_unfinished(entry->d_name))
            continue;
        const int fd = openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(entries), entry->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    closedir(entries);
}

static int io_error(struct error *err, const char *path)
{
    return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

/* Between its creation and its lock a file may be taken for abandoned; then another is made. */
static int create_locked(char *path, size_t size, const char *dir, const char *name,
                         struct error *err)
{
    enum { TRIES = 100 };
    struct stat here, there;
    for (int i = 0; i < TRIES; i++) {
        snprintf(path, size, "%s/.%s.%ld.%d%s", dir, name, (long)getpid(), i, unfinished);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 && errno != EEXIST)
            return io_error(err, path);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX) == 0 && fstat(fd, &here) == 0 && stat(path, &there) == 0 &&
            here.st_ino == there.st_ino)
            return fd;
        close(fd);
    }
    return error_set(err, ERR_IO, "%s: cannot be created", path);
}

static int write_copy(const struct model *model, const char *dir, const char *name,
                      struct error *err)
{
    char path[PATH_MAX], final[PATH_MAX];
    snprintf(final, sizeof final, "%s/%s", dir, name);
    const int fd = create_locked(path, sizeof path, dir, name, err);
    if (fd < 0)
        return -1;
    struct error reason = { 0 };
    int rc = pack_write(model, &(struct pack_options){ .as_stored = true }, fd, &reason);
    if (rc < 0)
        error_set(err, reason.code, "%s: %s", path, reason.message);
    if (rc == 0 && fsync(fd) != 0)
        rc = io_error(err, path);
    if (rc == 0 && rename(path, final) != 0)
        rc = io_error(err, final);
    if (rc < 0)
        unlink(path);
    close(fd);
    return rc;
}

static bool is_there(const char *dir, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

static int open_copy(struct model **packed, const struct model *model, const char *dir,
                     const char *name, const struct kernels *kernels, struct error *err)
{
    const struct packed_copy copy = { dir, name };
    if (model_open_beside(packed, model->dir, model->name, kernels, &copy, err) == 0)
        return 0;
    return error_set(err, ERR_IO, "%s/%s: no such file", dir, name);
}

/* A copy that cannot be used, whatever befell it, is written anew. */
static int use_copy(struct model **model, const char *dir, const struct kernels *kernels,
                    struct error *err)
{
    char name[NAME_BYTES];
    struct model *packed = NULL;
    struct error unusable = { 0 };
    if (strlen(dir) + 2 * NAME_BYTES > PATH_MAX)
        return error_set(err, ERR_IO, "%.128s…: the path is too long", dir);
    if (name_by_content(&(*model)->weights->tensors, name, err) < 0)
        return -1;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return io_error(err, dir);
    remove_abandoned(dir);
    if (is_there(dir, name))
        open_copy(&packed, *model, dir, name, kernels, &unusable);
    if (unusable.code != ERR_NONE)
        log_write(LOG_WARNING, "%s", unusable.message);
    if (!packed && (write_copy(*model, dir, name, err) < 0 ||
                    open_copy(&packed, *model, dir, name, kernels, err) < 0))
        return -1;
    model_close(model);
    *model = packed;
    return 0;
}

void model_use_cache(struct model **model, const char *dir, const struct kernels *kernels)
{
    struct error err = { 0 };
    if ((*model)->weights->tensors.files[0].packed[0])
        return;
    if (use_copy(model, dir, kernels, &err) < 0)
        log_write(LOG_WARNING, "no packed copy of %s, which is served as it is: %s", (*model)->dir,
                  err.message);
}
