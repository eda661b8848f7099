#include "base/mapped_file.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { PLACES = 256, LINE_ROOM = 2100, SAY_MS = 100 };

/* A signal handler cannot compose a line: it is there before. */
struct watched {
    _Atomic uintptr_t begin, end; /* end 0: the place is free */
    int fd;
    char line[LINE_ROOM];
};

static struct watched places[PLACES];
static atomic_int places_used; /* none at or beyond it is taken */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void compose(char line[static LINE_ROOM], const char *path)
{
    char message[512];
    struct log_line text = { .level = LOG_ERROR };
    snprintf(message, sizeof message,
             "%.380s became shorter while it was served: no answer from it can be right, so the "
             "process ends",
             path);
    log_text(&text, "level", "error");
    log_text(&text, "message", message);
    snprintf(line, LINE_ROOM, "{%s}\n", text.text + strlen(", "));
}

static _Noreturn void end(const struct watched *place)
{
    struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&out, 1, SAY_MS) > 0 && write(STDERR_FILENO, place->line, strlen(place->line)) < 0)
        _exit(1); /* whether it was heard or not */
    _exit(1);
}

static int watch(const struct mapped_file *file, const char *path)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < PLACES && places[i].end != 0)
        i++;
    if (i < PLACES) {
        compose(places[i].line, path);
        places[i].fd = file->fd;
        places[i].begin = (uintptr_t)file->data;
        places[i].end = (uintptr_t)file->data + file->bytes;
        if (places_used <= i)
            places_used = i + 1;
    }
    pthread_mutex_unlock(&lock);
    return i < PLACES ? i : -1;
}

int mapped_file_open(struct mapped_file *file, int fd, size_t bytes, const char *path,
                     struct error *err)
{
    *file = (struct mapped_file){ .bytes = bytes, .fd = fd, .place = -1 };
    if (bytes == 0)
        return 0;
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        error_set(err, ERR_IO, "%s: cannot map: %s", path, strerror(errno));
        mapped_file_close(file);
        return -1;
    }
    file->data = data;
    file->place = watch(file, path);
    return 0;
}

void mapped_file_close(struct mapped_file *file)
{
    if (file->data) {
        pthread_mutex_lock(&lock);
        if (file->place >= 0)
            places[file->place].end = 0;
        pthread_mutex_unlock(&lock);
        munmap(file->data, file->bytes);
    }
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct mapped_file){ .fd = -1, .place = -1 };
}

void mapped_files_check(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < places_used; i++) {
        struct stat now;
        const uintptr_t bytes = places[i].end ? places[i].end - places[i].begin : 0;
        if (bytes && fstat(places[i].fd, &now) == 0 && (uintptr_t)now.st_size < bytes)
            end(&places[i]);
    }
    pthread_mutex_unlock(&lock);
}

void mapped_files_fault(const void *address)
{
    const uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < places_used; i++)
        if (at >= places[i].begin && at < places[i].end)
            end(&places[i]);
}
