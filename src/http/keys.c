#include "http/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { FILE_BYTES_MAX = 1 << 20 };

/* A key, or what could be one: its first bytes, then zeros. */
struct secret {
    unsigned char bytes[KEY_BYTES_MAX];
    size_t length; /* in full */
};

struct keys {
    size_t count, room;
    struct key *keys;       /* (room) */
    struct secret *secrets; /* (room), never moved: no copy stays behind */
};

/* A line of the file, for messages. */
struct place {
    const char *path;
    size_t line;
};

static int refuse(const struct place *place, struct error *err, const char *what)
{
    return error_set(err, ERR_CONFIG, "%s:%zu: %s", place->path, place->line, what);
}

static void pad(struct secret *secret, const char *text, size_t length)
{
    *secret = (struct secret){ .length = length };
    memcpy(secret->bytes, text, length < KEY_BYTES_MAX ? length : KEY_BYTES_MAX);
}

/* 1 or 0, in a time that depends on neither. */
static size_t equal(const struct secret *a, const struct secret *b)
{
    size_t difference = a->length ^ b->length;
    for (size_t i = 0; i < KEY_BYTES_MAX; i++) {
        difference |= a->bytes[i] ^ b->bytes[i];
        __asm__ volatile("" : "+r"(difference)); /* or the compiler may leave the loop early */
    }
    return ((difference | ((size_t)0 - difference)) >> (8 * sizeof difference - 1)) ^ 1;
}

static size_t find(const struct keys *keys, const struct secret *secret)
{
    size_t found = keys->count;
    for (size_t i = 0; i < keys->count; i++) {
        const size_t mask = (size_t)0 - equal(secret, &keys->secrets[i]);
        found = (found & ~mask) | (i & mask);
    }
    return found;
}

const struct key *keys_find(const struct keys *keys, const char *text, size_t length)
{
    struct secret secret;
    pad(&secret, text, length);
    const size_t found = find(keys, &secret);
    explicit_bzero(&secret, sizeof secret);
    return found < keys->count ? &keys->keys[found] : NULL;
}

size_t keys_count(const struct keys *keys)
{
    return keys->count;
}

static uint64_t identify(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool is_label(const char *text, size_t length)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    return length > 0 && length <= KEY_LABEL_BYTES_MAX && strspn(text, allowed) >= length;
}

static int check_key(const char *text, size_t length, const struct place *place, struct error *err)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == ':')
            return refuse(place, err,
                          "a key has visible ASCII characters only, no blank and no colon");
    if (length < KEY_BYTES_MIN || length > KEY_BYTES_MAX)
        return refuse(place, err, "a key has 16 to 128 characters");
    return 0;
}

/* A line without blanks around it that is not empty. */
static int add(struct keys *keys, const char *text, size_t length, const struct place *place,
               struct error *err)
{
    const char *colon = memchr(text, ':', length);
    struct key key = { .label = "" };
    if (colon) {
        const size_t label = (size_t)(colon - text);
        if (!is_label(text, label))
            return refuse(place, err,
                          "a label, before the colon, is 1 to 64 letters, digits and ._-");
        memcpy(key.label, text, label);
        text = colon + 1;
        length -= label + 1;
        for (; length > 0 && (*text == ' ' || *text == '\t'); text++)
            length--;
    }
    if (check_key(text, length, place, err) < 0)
        return -1;
    key.identity = identify(text, length);
    struct secret *secret = &keys->secrets[keys->count];
    pad(secret, text, length);
    if (find(keys, secret) < keys->count)
        return refuse(place, err, "this key is there twice");
    if (keys->count == KEYS_MAX)
        return refuse(place, err, "more than 1024 keys");
    keys->keys[keys->count++] = key;
    return 0;
}

static int parse(struct keys *keys, char *text, const char *path, struct error *err)
{
    static const char blanks[] = " \t\r";
    struct place place = { path, 0 };
    for (char *line; (line = strsep(&text, "\n"));) {
        place.line++;
        line += strspn(line, blanks);
        size_t length = strlen(line);
        while (length > 0 && strchr(blanks, line[length - 1]))
            length--;
        if (length > 0 && line[0] != '#' && add(keys, line, length, &place, err) < 0)
            return -1;
    }
    return keys->count ? 0 : error_set(err, ERR_CONFIG, "%s: there is no key in it", path);
}

static size_t count_lines(const char *text)
{
    size_t count = 1;
    while ((text = strchr(text, '\n'))) {
        text++;
        count++;
    }
    return count;
}

static struct keys *create(size_t room)
{
    struct keys *keys = mem_alloc(1, sizeof *keys);
    if (!keys)
        return NULL;
    *keys = (struct keys){ .room = room,
                           .keys = mem_alloc(room, sizeof(struct key)),
                           .secrets = mem_alloc(room, sizeof(struct secret)) };
    if (!keys->keys || !keys->secrets)
        keys_close(&keys);
    return keys;
}

void keys_close(struct keys **in)
{
    struct keys *keys = *in;
    *in = NULL;
    if (!keys)
        return;
    if (keys->secrets)
        explicit_bzero(keys->secrets, keys->room * sizeof *keys->secrets);
    mem_free(keys->secrets);
    mem_free(keys->keys);
    mem_free(keys);
}

static int check_file(int fd, const char *path, size_t *size, struct error *err)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(err, ERR_CONFIG, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(err, ERR_CONFIG, "%s: it is not a regular file", path);
    if (status.st_mode & (S_IROTH | S_IWOTH))
        return error_set(err, ERR_CONFIG,
                         "%s: everyone on this machine may read or write it (mode %04o); take that "
                         "away, as with chmod o-rwx",
                         path, (unsigned)status.st_mode & 07777);
    if (status.st_size > FILE_BYTES_MAX)
        return error_set(err, ERR_CONFIG, "%s: more than %d bytes", path, FILE_BYTES_MAX);
    *size = (size_t)status.st_size;
    return 0;
}

/* The file's text in one piece of memory; it cannot be longer than it was at fstat(). */
static int read_text(int fd, const char *path, char *text, size_t size, struct error *err)
{
    size_t length = 0;
    for (ssize_t got; length < size; length += (size_t)got) {
        got = read(fd, text + length, size - length);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got < 0)
            return error_set(err, ERR_CONFIG, "%s: %s", path, strerror(errno));
        else if (got == 0)
            break;
    }
    if (strlen(text) != length)
        return error_set(err, ERR_CONFIG, "%s: there is a NUL byte in it", path);
    return 0;
}

int keys_open(struct keys **out, const char *path, struct error *err)
{
    *out = NULL;
    int result = -1;
    size_t size = 0;
    char *text = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (check_file(fd, path, &size, err) < 0)
        goto done;
    text = mem_alloc(size + 1, 1);
    if (!text) {
        error_set(err, ERR_NO_MEMORY, "no memory for %s", path);
        goto done;
    }
    if (read_text(fd, path, text, size, err) < 0)
        goto done;
    *out = create(count_lines(text));
    if (!*out)
        error_set(err, ERR_NO_MEMORY, "no memory for %s", path);
    else
        result = parse(*out, text, path, err);
done:
    if (result < 0)
        keys_close(out);
    if (text)
        explicit_bzero(text, size + 1);
    mem_free(text);
    if (fd >= 0)
        close(fd);
    return result;
}
