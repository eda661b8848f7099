# What the tests of the running daemon share; `load daemon` in every file.
#
# daemon_start starts a daemon on a port of its own, daemon_stop ends it by its own pid and requires
# that it ended well.  ask sends a request; holds, refused and the others look at what came back.
# Environment: SEQD, the program (build/release/seqd).

cd "$BATS_TEST_DIRNAME/../.." || exit 1
SEQD=${SEQD:-$PWD/build/release/seqd}

# What every jq expression here can use.
jq_library='
    def near($a; $b; $tolerance):
        [$a | .. | numbers] as $x | [$b | .. | numbers] as $y |
        ($x | length) > 0 and ($x | length) == ($y | length) and
        all(range($x | length); ($x[.] - $y[.] | fabs) <= $tolerance);
    def shape: if type == "array" then [length] + (.[0] | shape) else [] end;
    def total: add // 0;
    def tokens: [.outputs[].sequences[].token_ids];
'

fail() { # MESSAGE
    echo "$1" >&2
    return 1
}

# Runs COMMAND until it succeeds; fails after SECONDS.
await() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "waited in vain for: $*" || return 1
        sleep 0.02
    done
}

# Writes the requests of stdin, one a line, a file each: ROUTE.NN; one with a pooling is to encode.
split_requests() { # DIRECTORY
    local request route i=0
    while read -r request; do
        route=generate
        [[ $request != *pooling* ]] || route=encode
        echo "$request" >"$1/$route.$(printf %02d $i)"
        i=$((i + 1))
    done
}

# Sets daemon_dir (log, pid and exit: the exit code), daemon_pid and url.  Who starts one in a test
# calls daemon_stop in teardown.
daemon_start() { # OPTION...
    daemon_dir=$(mktemp -d "$BATS_FILE_TMPDIR/daemon.XXXXXX")
    (
        "$SEQD" --listen 127.0.0.1:0 "$@" >"$daemon_dir/log" 2>&1 3>&- </dev/null &
        echo $! >"$daemon_dir/pid"
        code=0
        wait $! || code=$?
        echo $code >"$daemon_dir/exit"
    ) >/dev/null 2>&1 3>&- &
    await 5 test -s "$daemon_dir/pid"
    daemon_pid=$(<"$daemon_dir/pid")
    await 30 daemon_is_ready_or_gone
    if [ -e "$daemon_dir/exit" ]; then
        daemon_pid=
        fail "the daemon ended: $(tail -n 5 "$daemon_dir/log")"
    fi
    url=$(log_lines 'select(.message == "ready") |
        .scheme + "://" + (.address | if test(":") then "[\(.)]" else . end) + ":\(.port)"')
    export daemon_dir daemon_pid url
    [ "$(status /readyz)" = 200 ]
}

daemon_is_ready_or_gone() {
    [ -e "$daemon_dir/exit" ] || grep -q '"message": "ready"' "$daemon_dir/log"
}

# Waits for the end of a daemon that was told to end.
daemon_ends() { # CODE
    local pid=$daemon_pid code
    daemon_pid=
    if ! await 30 test -s "$daemon_dir/exit"; then
        kill -KILL "$pid"
        return 1
    fi
    code=$(<"$daemon_dir/exit")
    [ "$code" -eq "$1" ] || fail "exit code $code: $(tail -n 40 "$daemon_dir/log")"
}

# Nothing when none runs.
daemon_stop() {
    [ -n "${daemon_pid-}" ] || return 0
    [ -e "$daemon_dir/exit" ] || kill -TERM "$daemon_pid"
    daemon_ends 0
}

log_lines() { # JQ_EXPRESSION: of every line that is JSON
    jq -Rrc "fromjson? | $1" "$daemon_dir/log"
}

# How many lines of the log begin so.
reload_count() { log_lines "select(.message | startswith(\"$1\"))" | wc -l; }

# SIGHUP, until the log says what came of it.
reload() { # good|bad
    local message=reloaded before
    [ "$1" = good ] || message='SIGHUP: what was served is served on'
    before=$(reload_count "$message")
    kill -HUP "$daemon_pid"
    await 10 eval "[ \$(reload_count '$message') -gt $before ]"
}

# Sets status and answer; header finds the headers.  With an empty JSON nothing but the curl options
# says what is sent.
ask() { # ROUTE [JSON|@FILE [CURL_OPTION...]]
    local route=$1 json=${2-} folder=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}
    local body=$folder/answer head=$folder/headers
    shift
    [ $# -eq 0 ] || shift
    [ -z "$json" ] || set -- --data-binary "$json" -H 'Content-Type: application/json' "$@"
    : >"$body"
    status=$(curl -s -m 60 -o "$body" -D "$head" -w '%{http_code}' "$@" "$url$route") || true
    answer=$(<"$body")
}

# The status alone.
status() { # ROUTE [CURL_OPTION...]
    local route=$1
    shift
    curl -s -m 60 -o /dev/null -w '%{http_code}' "$@" "$url$route"
}

header() { # NAME: its value in the last answer
    sed -n "s/^$1: \(.*\)\r$/\1/Ip" "$BATS_TEST_TMPDIR/headers"
}

# Asks and requires 200.
ok() { # ROUTE JSON [CURL_OPTION...]
    ask "$@"
    [ "$status" = 200 ] || fail "$1 ${2:0:300}: $status ${answer:0:500}"
}

# jq's answer about the last answer.
value() { # JQ_EXPRESSION [JQ_OPTION...]
    local expression=$1
    shift
    jq -c "$@" "$jq_library $expression" <<<"$answer"
}

# The last answer is JSON for which the expression is true.
holds() { # JQ_EXPRESSION [JQ_OPTION...]
    local result
    result=$(value "$@") && [ "$result" = true ] ||
        fail "$1: $result: ${answer:0:1000}"
}

# Asks and requires an error of the interface's form.
refused() { # STATUS CODE PARAM(- none) ROUTE [JSON [CURL_OPTION...]]
    local wanted=$1 code=$2 param=$3
    shift 3
    ask "$@"
    [ "$status" = "$wanted" ] || fail "$1 ${2:0:300}: $status ${answer:0:500}; wanted $wanted"
    # Without jq, whose start takes longer than the whole answer; the daemon writes compact JSON.
    [ "$param" = - ] && param=null || param="\"$param\""
    local end='","code":"'$code'","param":'$param',"message":"'
    [[ $answer == '{"error":{"type":"'[a-z]*"$end"?*'"}}' ]] ||
        fail "$1 ${2:0:300}: $answer; wanted $code at $param"
}

# Sends raw bytes and prints what comes back until the daemon closes.
raw() { # TEXT, with printf's escapes
    local text=$1 port=${url##*:} fd
    exec {fd}<>"/dev/tcp/127.0.0.1/$port"
    (trap '' PIPE && printf "$text" >&"$fd") 2>/dev/null || true # it may have closed already
    timeout 10 cat <&"$fd" | tr -d '\r\0'
    exec {fd}>&-
}

metric() { # SERIES: its value
    curl -s "$url/metrics" | awk -v series="$1 " \
        'index($0, series) == 1 { print substr($0, length(series) + 1) }'
}

# A request of vanilla_nopos, which has no longest row: ROWS rows of 16 beams and TOKENS tokens.
# With the usual 4000 a row takes seconds on any machine: such a request is there to be given up.
slow_request() { # ROWS [TOKENS]
    jq -nc --argjson rows "$1" --argjson tokens "${2:-4000}" '{model: "vanilla_nopos",
        input_ids: [range($rows) | [. % 40 + 5, 6, 7, 8, 9, 3]],
        parameters: {num_beams: 16, max_new_tokens: $tokens, min_new_tokens: $tokens}}'
}

encode() { # MODEL ROWS [MASKS]
    ok /v1/encode "{\"model\":\"$1\",\"input_ids\":$2${3:+,\"attention_mask\":$3}}"
}

generate() { # MODEL ROWS MASKS_OR_NOTHING PARAMETERS
    ok /v1/generate \
        "{\"model\":\"$1\",\"input_ids\":$2${3:+,\"attention_mask\":$3},\"parameters\":$4}"
}
