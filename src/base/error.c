#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 4, 0))) static void
fill(struct error *err, enum error_code code, const char *param, const char *format, va_list args)
{
    if (err->code != ERR_NONE)
        return;
    err->code = code;
    snprintf(err->param, sizeof err->param, "%s", param);
    vsnprintf(err->message, sizeof err->message, format, args);
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
