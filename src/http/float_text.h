/* float_text.h — the shortest decimal text that reads back as an equal float32.  Any thread. */
#ifndef HTTP_FLOAT_TEXT_H
#define HTTP_FLOAT_TEXT_H

#include <stddef.h>

enum { FLOAT_TEXT_MAX = 24 };

/* Writes a JSON number and a NUL; `value` is finite.  Returns the length without the NUL. */
size_t float_text(char out[FLOAT_TEXT_MAX], float value);

#endif
