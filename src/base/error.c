#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message that was cut must not end in half a character: it goes into JSON. */
static void trim(char *text)
{
    size_t end = strlen(text);
    while (end > 0 && ((unsigned char)text[end - 1] & 0xC0) == 0x80)
        end--;
    if (end > 0 && (unsigned char)text[end - 1] >= 0xC0)
        end--;
    text[end] = '\0';
}

__attribute__((format(printf, 4, 0))) static void
fill(struct error *err, enum error_code code, const char *param, const char *format, va_list args)
{
    if (err->code != ERR_NONE)
        return;
    err->code = code;
    snprintf(err->param, sizeof err->param, "%s", param);
    if (vsnprintf(err->message, sizeof err->message, format, args) >= (int)sizeof err->message)
        trim(err->message);
}

int error_set(struct error *err, enum error_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, "", format, args);
    va_end(args);
    return -1;
}

int error_at(struct error *err, enum error_code code, const char *param, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, param, format, args);
    va_end(args);
    return -1;
}
