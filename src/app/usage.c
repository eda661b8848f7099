#include <stdio.h>

#include "app/commands.h"
#include "app/config_table.h"
#include "app/version.h"

void command_version(void)
{
    printf("seqd %s (%s)\n", version_number(), version_commit());
}

void command_help(void)
{
    fputs(
        "seqd: serves encoder-decoder Transformers over HTTP\n"
        "\n"
        "  seqd [OPTIONS]          serves until SIGTERM\n"
        "  seqd check [OPTIONS]    checks configuration and models, says what it found\n"
        "  seqd inspect DIR [--json] [OPTIONS]\n"
        "                          describes a model folder: sizes, shapes, memory, what is wrong\n"
        "  seqd quantize IN OUT --dtype float32|bfloat16|int8\n"
        "                          makes of a model folder one whose weights are packed\n"
        "  seqd bench [--pipe] --model DIR [OPTIONS]\n"
        "                          measures the engine; --pipe: jobs as JSON lines on stdin\n"
        "  seqd health [OPTIONS]   asks the running daemon whether it is ready\n"
        "\n"
        "  --model [NAME=]DIR      a model folder; may be repeated         SEQD_MODEL\n"
        "  --listen HOST:PORT      default 127.0.0.1:8080                  SEQD_LISTEN\n"
        "  --config FILE           YAML                                    SEQD_CONFIG\n"
        "  --SECTION.KEY VALUE     any key of the configuration            SEQD_SECTION_KEY\n"
        "  --help, --help-config, --version\n"
        "\n"
        "The command line wins over the environment, that over the file, that over the defaults.\n"
        "Exit codes: 0, 1 failed (inspect: the folder cannot be served), 2 usage or configuration\n"
        "(health: 1).\n",
        stdout);
}

void command_help_config(void)
{
    struct buffer text;
    buffer_init(&text, 1 << 16);
    config_help_print(&text);
    if (text.state == BUFFER_OK)
        fputs(text.data, stdout);
    buffer_free(&text);
}
