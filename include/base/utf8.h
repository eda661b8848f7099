/* utf8.h — what is a character in bytes that somebody else wrote.  Any thread. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* How many bytes the UTF-8 character at `text` (ended by '\0') has; 0: a control character of ASCII
 * or no character at all. */
size_t utf8_bytes(const char *text);

#endif
