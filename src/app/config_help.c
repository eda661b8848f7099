/* The table as a YAML file: what --help-config prints, and config/seqd.yaml. */
#include <string.h>

#include "app/config_table.h"

enum { COMMENT_COLUMNS = 96 };

static const char head[] =
    "# Configuration of seqd: every key with its default, its reason and what is allowed.\n"
    "#\n"
    "# section.key is also SEQD_SECTION_KEY (environment) and --section.key (command line).\n"
    "# The command line wins over the environment, that over the file, that over the defaults.\n"
    "# Booleans are true and false only.  Anchors, aliases, tags and unknown keys are refused.\n"
    "\n"
    "# The models to serve; the name is the folder's own when it is left out.  A relative path\n"
    "# starts in the working directory.\n"
    "# Also --model [NAME=]DIR, which may be repeated, and SEQD_MODEL=[NAME=]DIR,[NAME=]DIR\n"
    "# In this file a model may have aliases, which requests may name instead.\n"
    "# models:\n"
    "#   - name: g2p\n"
    "#     path: models/g2p\n"
    "#     aliases: [pronounce]\n";

/* `text` as comment lines that end at a blank before COMMENT_COLUMNS. */
static void print_comment(const char *text, struct buffer *out)
{
    while (*text) {
        size_t length = strlen(text);
        if (length > COMMENT_COLUMNS) {
            length = COMMENT_COLUMNS;
            while (text[length] != ' ')
                length--;
        }
        buffer_printf(out, "  # %.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_key(const struct config_key *key, const char *name, struct buffer *out)
{
    print_comment(key->reason, out);
    buffer_text(out, "  # Allowed: ");
    config_key_print_range(key, out);
    if (key->short_name)
        buffer_printf(out, "; also --%s", key->short_name);
    const char *empty = config_key_is_list(key) ? "[]" : "\"\"";
    buffer_printf(out, "\n  %s: %s\n", name, *key->initial ? key->initial : empty);
}

void config_help_print(struct buffer *out)
{
    buffer_text(out, head);
    const char *section = "";
    size_t length = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        const char *name = config_keys[i].name;
        buffer_text(out, "\n");
        if (strncmp(section, name, length + 1) != 0 || length == 0) {
            section = name;
            length = strcspn(name, ".");
            buffer_printf(out, "%.*s:\n", (int)length, name);
        }
        print_key(&config_keys[i], name + length + 1, out);
    }
}
