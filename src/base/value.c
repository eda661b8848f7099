#include "base/value.h"

#include "base/mem.h"

void value_clear(struct value *value)
{
    if (value->kind == VALUE_TEXT)
        mem_free(value->text);
    if (value->kind == VALUE_LIST) {
        for (size_t i = 0; i < value->count; i++)
            value_clear(&value->items[i]);
        mem_free(value->items);
    }
    *value = (struct value){ .kind = VALUE_NULL };
}

void settings_free(struct settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        mem_free(settings->items[i].name);
        value_clear(&settings->items[i].value);
    }
    mem_free(settings->items);
    *settings = (struct settings){ 0 };
}
