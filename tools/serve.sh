#!/usr/bin/env bash
# Serves a model in the foreground and prints a request to try as soon as it answers.
#   usage: tools/serve.sh PROGRAM MODEL_DIR ADDRESS:PORT
set -euo pipefail
program=$1 model=$2 listen=$3

# exec below makes the daemon this very process, so that Ctrl-C and SIGTERM reach it and its exit
# code is ours.
(
    while kill -0 $$ 2>/dev/null; do
        if curl -fsS -o /dev/null "http://$listen/readyz" 2>/dev/null; then
            cat <<END

Try:  curl http://$listen/v1/generate -H 'Content-Type: application/json' -d '{"inputs": "hello"}'
Stop: Ctrl-C

END
            break
        fi
        sleep 0.1
    done
) &
exec "$program" --model "$model" --listen "$listen"
