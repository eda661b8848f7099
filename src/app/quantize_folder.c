#include "quantize_folder.h"

#include <ctype.h>
#include <dirent.h>
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
#include "model/file.h"

/* Folders in folders; modules have at most one below. */
enum { DEPTH_MAX = 8, PIECE_BYTES = 1 << 16, PASSED_OVER_BYTES = 4096 };

static int io_error(struct error *err, const char *path)
{
    return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

static int join(char path[PATH_MAX], const char *dir, const char *name, struct error *err)
{
    if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
        return 0;
    return error_set(err, ERR_IO, "%.128s/%.128s: the path is too long", dir, name);
}

/* Before `path` comes to be, so that what is made can always be taken away. */
static int remember(struct quantize_folder *folder, const char *path, struct error *err)
{
    if (folder->made_count == folder->made_capacity) {
        const size_t capacity = folder->made_capacity ? 2 * folder->made_capacity : 32;
        char **made = mem_resize(folder->made, capacity, sizeof *made);
        if (!made)
            return error_set(err, ERR_NO_MEMORY, "no memory for the names in %s", folder->out);
        folder->made = made;
        folder->made_capacity = capacity;
    }
    char *copy = mem_text(path);
    if (!copy)
        return error_set(err, ERR_NO_MEMORY, "no memory for the names in %s", folder->out);
    folder->made[folder->made_count++] = copy;
    return 0;
}

static void forget_last(struct quantize_folder *folder)
{
    mem_free(folder->made[--folder->made_count]);
}

static int make_dir(struct quantize_folder *folder, const char *path, struct error *err)
{
    if (remember(folder, path, err) < 0)
        return -1;
    if (mkdir(path, 0777) == 0)
        return 0;
    forget_last(folder);
    return io_error(err, path);
}

static int create_file(struct quantize_folder *folder, const char *path, struct error *err)
{
    if (remember(folder, path, err) < 0)
        return -1;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        return fd;
    forget_last(folder);
    return io_error(err, path);
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int check_empty(const char *path, struct error *err)
{
    DIR *entries = opendir(path);
    bool empty = true;
    if (!entries)
        return io_error(err, path);
    for (const struct dirent *entry; empty && (entry = readdir(entries));)
        empty = is_dot(entry->d_name);
    closedir(entries);
    return empty ? 0 : error_set(err, ERR_IO, "%s is not empty: name a new folder", path);
}

/* Else what is written would be found while files are copied. */
static int check_apart(const char *in, const char *out, struct error *err)
{
    char real_in[PATH_MAX], real_out[PATH_MAX];
    if (!realpath(in, real_in))
        return io_error(err, in);
    if (!realpath(out, real_out))
        return io_error(err, out);
    const size_t length = strlen(real_in);
    if (strncmp(real_out, real_in, length) != 0 || (real_out[length] && real_out[length] != '/'))
        return 0;
    return error_set(err, ERR_IO, "%s lies in the model folder %s; name one outside", out, in);
}

int quantize_folder_make(struct quantize_folder *folder, const char *in, const char *out,
                         struct error *err)
{
    struct stat st;
    *folder = (struct quantize_folder){ .in = in, .out = out };
    buffer_init(&folder->passed_over, PASSED_OVER_BYTES);
    const bool is_there = stat(out, &st) == 0;
    if ((is_there ? check_empty(out, err) : make_dir(folder, out, err)) < 0)
        return -1;
    return check_apart(in, out, err);
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);
    return length >= end && strcmp(name + length - end, ending) == 0;
}

/* Whoever serves the new folder reads model.packed. */
static bool is_weights(const char *name)
{
    static const char *const endings[] = { ".safetensors", ".safetensors.index.json", ".packed" };
    static const char *const names[] = { "tf_model.h5", "flax_model.msgpack", "rust_model.ot" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]))
            return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "pytorch_model", strlen("pytorch_model")) == 0;
}

/* As sentence-transformers calls the folders of its modules: "1_Pooling". */
static bool is_module(const char *name)
{
    const char *at = name;
    while (isdigit((unsigned char)*at))
        at++;
    return at > name && *at == '_';
}

static int write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        bytes += written;
        count -= (size_t)written;
    }
    return 0;
}

static int copy_bytes(int from, int to, const char *source, const char *target, struct error *err)
{
    char piece[PIECE_BYTES];
    for (;;) {
        const ssize_t got = read(from, piece, sizeof piece);
        if (got == 0)
            return 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_error(err, source);
        if (write_all(to, piece, (size_t)got) < 0)
            return io_error(err, target);
    }
}

/* `name`: in both folders. */
static int copy_file(struct quantize_folder *folder, const char *name, struct error *err)
{
    char source[PATH_MAX], target[PATH_MAX];
    size_t bytes;
    if (join(source, folder->in, name, err) < 0 || join(target, folder->out, name, err) < 0)
        return -1;
    const int from = model_file_open(folder->in, name, &bytes, err);
    if (from < 0)
        return error_set(err, ERR_IO, "%s: it went away", source);
    const int to = create_file(folder, target, err);
    int rc = to < 0 ? -1 : copy_bytes(from, to, source, target, err);
    if (rc == 0 && fsync(to) != 0)
        rc = io_error(err, target);
    if (to >= 0 && close(to) != 0 && rc == 0)
        rc = io_error(err, target);
    close(from);
    return rc;
}

static int copy_folder(struct quantize_folder *folder, const char *name, int depth,
                       struct error *err);

static int copy_entry(struct quantize_folder *folder, const char *name, int depth,
                      struct error *err)
{
    char path[PATH_MAX];
    struct stat here, there;
    if (join(path, folder->in, name, err) < 0)
        return -1;
    if (lstat(path, &here) != 0)
        return io_error(err, path);
    if (!S_ISDIR(here.st_mode)) {
        if (depth == 0 && is_weights(name))
            return 0;
        if (S_ISLNK(here.st_mode) && stat(path, &there) == 0 && S_ISDIR(there.st_mode))
            return error_set(err, ERR_IO, "%s is a link to a folder, which is not followed", path);
        return copy_file(folder, name, err);
    }
    if (depth == 0 && !is_module(name)) {
        buffer_printf(&folder->passed_over, "%s%s", folder->passed_over.length ? ", " : "", name);
        return 0;
    }
    if (depth == DEPTH_MAX)
        return error_set(err, ERR_IO, "%s: folders lie too deep", path);
    char target[PATH_MAX];
    if (join(target, folder->out, name, err) < 0 || make_dir(folder, target, err) < 0)
        return -1;
    return copy_folder(folder, name, depth + 1, err);
}

/* What lies in the folder `name` of `in`; "": in `in` itself.  Hidden files are no model's. */
static int copy_folder(struct quantize_folder *folder, const char *name, int depth,
                       struct error *err)
{
    char path[PATH_MAX], below[PATH_MAX];
    if (join(path, folder->in, name, err) < 0)
        return -1;
    DIR *entries = opendir(path);
    if (!entries)
        return io_error(err, path);
    int rc = 0;
    for (const struct dirent *entry; rc == 0 && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.')
            continue;
        if (name[0])
            rc = join(below, name, entry->d_name, err);
        else
            snprintf(below, sizeof below, "%s", entry->d_name);
        if (rc == 0)
            rc = copy_entry(folder, below, depth, err);
    }
    closedir(entries);
    return rc;
}

int quantize_folder_copy(struct quantize_folder *folder, struct error *err)
{
    return copy_folder(folder, "", 0, err);
}

static int temporary(const struct quantize_folder *folder, const char *name, char path[PATH_MAX],
                     struct error *err)
{
    char hidden[NAME_MAX];
    snprintf(hidden, sizeof hidden, ".%s.new", name);
    return join(path, folder->out, hidden, err);
}

int quantize_folder_create(struct quantize_folder *folder, const char *name, struct error *err)
{
    char path[PATH_MAX];
    return temporary(folder, name, path, err) < 0 ? -1 : create_file(folder, path, err);
}

static int sync_folder(const char *path, struct error *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd < 0 || fsync(fd) != 0 ? io_error(err, path) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

int quantize_folder_finish(struct quantize_folder *folder, const char *name, int fd,
                           struct error *err)
{
    char path[PATH_MAX], final[PATH_MAX];
    int rc = temporary(folder, name, path, err) < 0 || join(final, folder->out, name, err) < 0 ||
                     remember(folder, final, err) < 0
                 ? -1
                 : 0;
    if (rc == 0 && fsync(fd) != 0)
        rc = io_error(err, path);
    if (close(fd) != 0 && rc == 0)
        rc = io_error(err, path);
    if (rc == 0 && rename(path, final) != 0)
        rc = io_error(err, final);
    return rc < 0 ? -1 : sync_folder(folder->out, err);
}

void quantize_folder_remove(struct quantize_folder *folder)
{
    for (size_t i = folder->made_count; i-- > 0;)
        remove(folder->made[i]);
}

void quantize_folder_free(struct quantize_folder *folder)
{
    for (size_t i = 0; i < folder->made_count; i++)
        mem_free(folder->made[i]);
    mem_free(folder->made);
    buffer_free(&folder->passed_over);
    *folder = (struct quantize_folder){ 0 };
}
