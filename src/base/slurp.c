#include "slurp.h"

#include <fcntl.h>
#include <unistd.h>

bool slurp(const char *path, char *text, size_t room)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length < room - 1) {
        got = read(fd, text + length, room - 1 - length);
        if (got > 0)
            length += (size_t)got;
    }
    close(fd);
    text[length] = '\0';
    return got >= 0;
}
