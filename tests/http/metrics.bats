#!/usr/bin/env bats
# GET /metrics: the text format 0.0.4, and what the numbers say.
load daemon

odd='Az09._-/:@+' # every character that a model's name may have beside the alphabet

setup_file() {
    daemon_start --model tests/kit/vanilla_post --model "$odd=tests/kit/vanilla_dot" \
        --model kit=tests/kit/bart
}
teardown_file() { daemon_stop; }

scrape() { curl -s "$url/metrics"; }

# Prints what is wrong with an exposition: lines, names, families, buckets.
faults() {
    awk '
        BEGIN { label = "[a-z_]+=\"([^\"\\\\]|\\\\[\"\\\\n])*\"" }
        function fault(text) { print "line " NR ": " text ": " $0 }
        / $/ || /\r/ { fault("space or return at the end") }
        /^# HELP / { if ($3 in help) fault("a second HELP"); help[$3] = 1; next }
        /^# TYPE / {
            if ($3 in type) fault("a second TYPE")
            if (!($3 in help)) fault("no HELP before")
            if (($4 == "counter") != ($3 ~ /_total$/)) fault("name and type differ")
            if ($4 !~ /^(counter|gauge|histogram)$/) fault("no type")
            family = $3; type[family] = $4; next
        }
        /^#/ || /^$/ { fault("neither comment nor sample"); next }
        {
            if (!match($0, "^[a-z_]+(\\{" label "(," label ")*\\})? ")) { fault("no sample"); next }
            series = substr($0, 1, RLENGTH - 1); value = substr($0, RLENGTH + 1)
            if (value !~ /^[+-]?([0-9.]+(e[+-]?[0-9]+)?|Inf|NaN)$/) fault("no number")
            if (series in seen) fault("a second sample")
            seen[series] = 1
            name = series; sub(/\{.*/, "", name)
            base = name
            if (type[family] == "histogram") sub(/_(bucket|sum|count)$/, "", base)
            if (base != family) fault("outside its family")
            if (type[family] == "counter" && (name !~ /_total$/ || value < 0)) fault("no counter")
            if (name !~ /^(seqd|process)_/) fault("a foreign name")
            if (name ~ /_bucket$/) {
                if (!match(series, /,?le="[^"]*"/)) fault("no le")
                key = substr(series, 1, RSTART - 1)
                if (key == last && value + 0 < count + 0) fault("not cumulative")
                bound = substr(series, RSTART, RLENGTH); sub(/^,?le=/, "", bound)
                list[key] = list[key] " " bound
                last = key; count = value
                if (series ~ /le="\+Inf"/) infinite[key] = value
            }
            if (name ~ /_count$/ && type[family] == "histogram") {
                key = series; sub(/_count/, "_bucket", key); sub(/}$/, "", key)
                if (infinite[key] != value) fault("+Inf is " infinite[key])
                if (!(base in bounds)) bounds[base] = list[key]
                if (list[key] != bounds[base]) fault("buckets" list[key] ", not" bounds[base])
            }
        }
        END { if (NR == 0) print "nothing" }'
}

@test "the exposition is well-formed and says its version" {
    ask /metrics
    [ "$status" = 200 ]
    [ "$(header content-type)" = 'text/plain; version=0.0.4; charset=utf-8' ]
    scrape >"$BATS_TEST_TMPDIR/text"
    [ -z "$(tail -c 1 "$BATS_TEST_TMPDIR/text")" ]
    [ "$(faults <"$BATS_TEST_TMPDIR/text")" = '' ]
    ! command -v promtool >/dev/null || promtool check metrics <"$BATS_TEST_TMPDIR/text"
}

@test "the check of the exposition sees faults" {
    local head=$'# HELP seqd_x X.\n# TYPE seqd_x histogram\nseqd_x_bucket{a="b",le="1"} 2\n'
    [ -z "$(faults <<<"${head}seqd_x_bucket{a=\"b\",le=\"+Inf\"} 2"$'\nseqd_x_count{a="b"} 2')" ]
    for end in 'seqd_x_bucket{a="b",le="+Inf"} 1' 'seqd_y 1' 'seqd_x_sum{a="b"} 1 ' \
        'seqd_x_count{a="b"} 2' 'seqd_x_sum{a="b} 1' 'seqd_x_sum 1,5' \
        'seqd_x_bucket{a="b",le="1"} 3' 'seqd_x_sum{a="\b"} 1' '# TYPE seqd_y gauge' \
        $'# HELP seqd_y_total Y.\n# TYPE seqd_y_total gauge' '# HELP seqd_x X.' \
        $'# HELP seqd_y Y.\n# TYPE seqd_y counter' \
        $'seqd_x_bucket{a="b",le="+Inf"} 2\nseqd_x_count{a="b"} 2
seqd_x_bucket{a="c",le="1.0"} 2\nseqd_x_bucket{a="c",le="+Inf"} 2\nseqd_x_count{a="c"} 2'; do
        [ -n "$(faults <<<"$head$end")" ] || fail "$end"
    done
}

@test "every metric of the interface is there" {
    ok /v1/generate '{"model":"vanilla_post","input_ids":[[5,6,3]]}'
    ask /v1/encode '{"model":"vanilla_post","input_ids":[[500]]}'
    scrape | sed -n 's/^# TYPE //p' >"$BATS_TEST_TMPDIR/types"
    for name in http_requests requests_rejected requests_cancelled sequences_finished \
        prompt_tokens generated_tokens padding_tokens nonfinite_outputs; do
        grep -qx "seqd_${name}_total counter" "$BATS_TEST_TMPDIR/types"
    done
    for name in worker_busy_seconds http_bodies_refused; do
        grep -qx "seqd_${name}_total counter" "$BATS_TEST_TMPDIR/types"
    done
    for name in request_duration_seconds queue_wait_seconds encode_duration_seconds \
        decode_step_duration_seconds time_to_first_token_seconds inter_token_latency_seconds \
        batch_sequences batch_tokens sequence_source_tokens sequence_generated_tokens; do
        grep -qx "seqd_$name histogram" "$BATS_TEST_TMPDIR/types"
    done
    for name in queue_sequences queue_limit_sequences expected_wait_seconds active_sequences \
        active_sequences_limit kv_cache_bytes kv_cache_limit_bytes model_mapped_bytes model_info \
        http_connections http_connections_limit cpu_budget_cores ready build_info \
        worker_last_step_timestamp_seconds config_last_reload_successful \
        config_last_reload_success_timestamp_seconds; do
        grep -qx "seqd_$name gauge" "$BATS_TEST_TMPDIR/types"
    done
    grep -qx 'process_cpu_seconds_total counter' "$BATS_TEST_TMPDIR/types"
    grep -qx 'process_resident_memory_bytes gauge' "$BATS_TEST_TMPDIR/types"
}

# Names and types, as `name type` lines.
documented() {
    sed -n '/^## Metrics/,$p' docs/api.md | awk '/^\| (counter|histogram|gauge) / { type = $2 }
        match($0, /^\| `[^|]*\|/) {
            n = split(substr($0, 3, RLENGTH - 3), names, /[^a-z_]+/)
            for (i = 1; i <= n; i++) if (names[i] != "") print names[i], type
        }' | sort
}

@test "docs/api.md has every metric that there is, and no other" {
    [ "$(documented | wc -l)" -gt 40 ]
    [ -z "$(comm -13 <(documented) <(scrape | sed -n 's/^# TYPE //p' | sort))" ]
    local missing
    missing=$(comm -23 <(documented) <(scrape | sed -n 's/^# TYPE //p' | sort))
    # Only a machine that shows control groups can tell how long it throttled.
    [ -z "${missing#seqd_cpu_throttled_seconds_total counter}" ] || fail "$missing"
}

@test "counters count" {
    local names=('seqd_http_requests_total{route="/v1/generate",method="POST",status="200"}'
        'seqd_http_requests_total{route="/v1/generate",method="POST",status="400"}'
        'seqd_requests_rejected_total{model="vanilla_post",reason="token_out_of_range"}'
        'seqd_prompt_tokens_total{model="vanilla_post"}'
        'seqd_generated_tokens_total{model="vanilla_post"}'
        'seqd_sequences_finished_total{model="vanilla_post",reason="length"}'
        'seqd_sequence_source_tokens_count{model="vanilla_post"}'
        'seqd_request_duration_seconds_count{route="/v1/generate",model="vanilla_post"}')
    local grown=(1 1 1 5 14 2 2 1) before=()
    for name in "${names[@]}"; do before+=("$(metric "$name")"); done
    ok /v1/generate '{"model":"vanilla_post","input_ids":[[5,6,3],[7,3]],
        "parameters":{"max_new_tokens":7,"min_new_tokens":7}}'
    ask /v1/generate '{"model":"vanilla_post","input_ids":[[5,600]]}'
    for i in "${!names[@]}"; do
        [ "$(metric "${names[i]}")" -eq $((${before[i]:-0} + grown[i])) ] ||
            fail "${names[i]}: ${before[i]:-0} before, $(metric "${names[i]}")"
    done
    [ "$(metric 'seqd_padding_tokens_total{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_nonfinite_outputs_total{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_generated_tokens_total{model="'"$odd"'"}')" = 0 ]
}

@test "gauges tell limits and what runs" {
    [ "$(metric seqd_ready)" = 1 ]
    [ "$(metric 'seqd_queue_sequences{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_active_sequences{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_kv_cache_bytes{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_queue_limit_sequences{model="vanilla_post"}')" = 4096 ]
    [ "$(metric 'seqd_model_info{model="vanilla_post",family="transformer",dtype="float32"}')" = 1 ]
    [ "$(metric seqd_http_connections)" -ge 1 ]
    [ "$(metric seqd_http_connections_limit)" = 4096 ]
    local text='"[^"]*"'
    scrape |
        grep -q "^seqd_build_info{version=$text,commit=$text,blas=$text,kernels=$text} 1\$"
}

# Prints the counters of the second exposition that are less than in the first.
fallen() { # FILE FILE
    awk '/^#/ || $1 !~ /(_total|_bucket|_count|_sum)(\{|$)/ { next }
        NR == FNR { before[$1] = $2; next }
        $1 in before && $2 + 0 < before[$1] + 0' "$1" "$2"
}

@test "250 scrapes under load are whole: cumulative, +Inf the count, counters never fall" {
    local body='{"model":"vanilla_post","input_ids":[[5,6,7,3],[8,9,3]],
        "parameters":{"num_beams":2}}' work=$BATS_TEST_TMPDIR i before after
    local name='seqd_request_duration_seconds_count{route="/v1/generate",model="vanilla_post"}'
    before=$(metric "$name")
    for i in 1 2; do
        (until [ -e "$work/enough" ]; do
            curl -s -o /dev/null -H 'Content-Type: application/json' -d "$body" \
                "$url/v1/generate?[1-20]"
        done) 3>&- &
    done
    curl -s -m 120 "$url/metrics?[1-250]" -o "$work/#1"
    touch "$work/enough"
    wait
    after=$(metric "$name")
    [ "$after" -gt $((before + 20)) ] || fail "there was no load: $before, $after"
    for i in $(seq 250); do
        [ "$(faults <"$work/$i")" = '' ]
        [ "$i" = 1 ] || [ -z "$(fallen "$work/$((i - 1))" "$work/$i")" ]
    done
    printf 'a_total 5\n' >"$work/a"
    printf 'a_total 4\n' >"$work/b"
    [ -n "$(fallen "$work/a" "$work/b")" ]
}

names() { scrape | sed '/^#/d; s/ [^ ]*$//' | sort; }

# One curl, its requests from a list.
flood() { # STATUSES
    curl -K "$BATS_TEST_TMPDIR/list" >"$BATS_TEST_TMPDIR/codes"
    [ "$(sort -u "$BATS_TEST_TMPDIR/codes" | tr '\n' ' ')" = "$1 " ] ||
        fail "$(sort "$BATS_TEST_TMPDIR/codes" | uniq -c)"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/codes")" = 1001 ] || fail "$(wc -l "$BATS_TEST_TMPDIR/codes")"
}

@test "1000 random paths, methods and model names make no new series" {
    local list=$BATS_TEST_TMPDIR/list before i
    one() { printf '%s\n' next "url = \"$url$1\"" 'output = /dev/null' silent \
        'write-out = "%{http_code}\n"' "${@:2}"; }
    json() { one "$1" "data = \"{\\\"model\\\":\\\"$2\\\",\\\"input_ids\\\":[[5]]}\"" \
        'header = "Content-Type: application/json"'; }
    for kind in path method name model; do
        for i in first $(seq 1000); do
            case $kind in
            path) one "/$RANDOM/m$i?x=$i" ;;
            method) one /nowhere "request = M$RANDOM$i" ;;
            name) one "/v1/models/$RANDOM%22%0a$i" ;;
            model) json /v1/encode "m$RANDOM-$i" ;;
            esac
        done | sed 1d >"$list.$kind"
    done
    for kind in path method name model; do # one of each kind may be the first
        sed -n '1,/^next/p' "$list.$kind" | sed '$d' >"$list"
        curl -K "$list" >/dev/null
    done
    scrape >/dev/null
    before=$(names)
    for kind in path method name model; do
        cp "$list.$kind" "$list"
        flood 404
        [ "$(names)" = "$before" ] || fail "$kind: $(diff <(echo "$before") <(names))"
    done
    [ "$(metric 'seqd_http_requests_total{route="other",method="other",status="404"}')" -ge 1000 ]
}

@test "what alerts and autoscalers look at is 0 in the first scrape, for each model" {
    daemon_start_other --model tests/kit/vanilla_post --model kit=tests/kit/bart \
        --model bert=tests/kit/bert
    local model name route
    scrape >"$BATS_TEST_TMPDIR/first"
    there() { grep -qxF "$1" "$BATS_TEST_TMPDIR/first" || fail "no $1"; }
    for model in vanilla_post kit bert; do
        for name in queue_sequences expected_wait_seconds active_sequences kv_cache_bytes \
            nonfinite_outputs_total generated_tokens_total queue_wait_seconds_count; do
            there "seqd_$name{model=\"$model\"} 0"
        done
        for name in queue_full over_limit no_memory shutting_down; do
            there "seqd_requests_rejected_total{model=\"$model\",reason=\"$name\"} 0"
        done
        for name in deadline client_gone shutdown; do
            there "seqd_requests_cancelled_total{model=\"$model\",reason=\"$name\"} 0"
        done
        there "seqd_queue_limit_sequences{model=\"$model\"} 4096"
        there "seqd_request_duration_seconds_count{route=\"/v1/encode\",model=\"$model\"} 0"
    done
    for route in encode generate score; do
        there "seqd_request_duration_seconds_count{route=\"/v1/$route\",model=\"kit\"} 0"
        for name in 200 400 413 429 499 500 503 504; do
            there "seqd_http_requests_total{route=\"/v1/$route\",method=\"POST\",\
status=\"$name\"} 0"
        done
    done
    ! grep '/v1/generate",model="bert"' "$BATS_TEST_TMPDIR/first"
}

# A second daemon beside that of the file.
daemon_start_other() {
    first=("$daemon_dir" "$daemon_pid" "$url")
    daemon_start "$@"
}

teardown() {
    [ -n "${first-}" ] || return 0
    daemon_stop
    daemon_dir=${first[0]} daemon_pid=${first[1]} url=${first[2]}
}

reloaded() { # MESSAGE: waits until the log has it once more
    local before
    before=$(log_lines "select(.message | startswith(\"$1\"))" | wc -l)
    kill -HUP "$daemon_pid"
    await 10 eval "[ \$(log_lines 'select(.message | startswith(\"$1\"))' | wc -l) -gt $before ]"
}

configure() { # FOLDER WORKERS QUEUE [MORE_MODELS]
    printf 'models: [{name: m, path: %s}%s]\nengine: {workers: %s, threads: 1}
limits: {queue_sequences: %s}\n' "$1" "${4-}" "$2" "$3" >"$BATS_TEST_TMPDIR/seqd.yaml"
}

@test "a refused reload changes no series, a good one leaves none of what is gone" {
    configure tests/kit/marian 3 5000
    daemon_start_other --config "$BATS_TEST_TMPDIR/seqd.yaml"
    local before limit='seqd_queue_limit_sequences{model="m"}'
    ok /v1/encode '{"input_ids":[[5]],"pooling":"mean"}'
    scrape >/dev/null
    before=$(names)
    grep -qF 'seqd_model_info{model="m",family="marian",dtype="float32"}' <<<"$before"
    configure tests/kit/marian_f16 4 6000 ', {name: new, path: tests/kit/bart}, {name: x, path: /x}'
    reloaded 'SIGHUP: what was served is served on'
    [ "$(names)" = "$before" ] || fail "$(diff <(echo "$before") <(names))"
    [ "$(metric "$limit")" = 5000 ]
    configure tests/kit/marian_f16 1 6000
    reloaded reloaded
    await 5 eval 'log_lines .message | grep -q "the former models are closed"'
    [ "$(metric "$limit")" = 6000 ]
    [ "$(diff <(echo "$before") <(names) | sed -n '/^[<>]/p' | sort)" = \
        '< seqd_model_info{model="m",family="marian",dtype="float32"}
< seqd_worker_busy_seconds_total{worker="1"}
< seqd_worker_busy_seconds_total{worker="2"}
< seqd_worker_last_step_timestamp_seconds{worker="1"}
< seqd_worker_last_step_timestamp_seconds{worker="2"}
> seqd_model_info{model="m",family="marian",dtype="float16"}' ] ||
        fail "$(diff <(echo "$before") <(names))"
    [ "$(metric 'seqd_http_requests_total{route="/v1/encode",method="POST",status="200"}')" = 1 ]
}

# The lists of bounds of all histograms, each with how it is written.
bounds() {
    scrape | awk 'match($1, /_bucket/) { key = $1; sub(/,?le=.*/, "", key)
            bound = $1; sub(/.*le="/, "", bound); sub(/".*/, "", bound)
            list[key] = list[key] bound " " }
        END { for (key in list) print key ~ /_seconds_/ ? "seconds" : "counts", list[key] }' |
        sort -u
}

@test "durations have one list of buckets, counts another, in any locale" {
    local expected='counts 1 2 4 8 16 32 64 128 256 512 1024 +Inf 
seconds 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 +Inf '
    [ "$(bounds)" = "$expected" ] || fail "$(bounds)"
    command -v localedef >/dev/null && [ -e /usr/share/i18n/locales/de_DE ] ||
        skip 'no locale with commas can be made here'
    mkdir "$BATS_TEST_TMPDIR/locales"
    localedef -i de_DE -f UTF-8 "$BATS_TEST_TMPDIR/locales/de_DE.UTF-8"
    local german="env LOCPATH=$BATS_TEST_TMPDIR/locales LC_ALL=de_DE.UTF-8"
    [ "$($german locale decimal_point)" = , ]
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$german" "$SEQD" >"$BATS_TEST_TMPDIR/german"
    chmod +x "$BATS_TEST_TMPDIR/german"
    SEQD=$BATS_TEST_TMPDIR/german daemon_start_other --model tests/kit/vanilla_post
    [ "$(bounds)" = "$expected" ]
    ok /v1/encode '{"input_ids":[[5,6]],"pooling":"mean","normalize":true}'
    holds '.data[0].embedding | length == 32 and all(. >= -1 and . <= 1)'
    scrape >"$BATS_TEST_TMPDIR/text"
    [ "$(faults <"$BATS_TEST_TMPDIR/text")" = '' ]
    grep -q '^process_start_time_seconds [0-9]*\.[0-9]*$' "$BATS_TEST_TMPDIR/text"
}

# Runs the daemon where /sys/fs/cgroup and /proc/self/cgroup are what the test says.
in_cgroups() { # FOLDER SELF OPTION...
    local folder=$1 self=$2
    shift 2
    printf '#!/bin/sh\nmount --bind "%s" /sys/fs/cgroup && mount --bind "%s" /proc/$$/cgroup &&
        exec "%s" "$@"\n' "$folder" "$self" "$SEQD" >"$BATS_TEST_TMPDIR/inner"
    printf '#!/bin/sh\nexec unshare -m "%s" "$@"\n' "$BATS_TEST_TMPDIR/inner" \
        >"$BATS_TEST_TMPDIR/outer"
    chmod +x "$BATS_TEST_TMPDIR/inner" "$BATS_TEST_TMPDIR/outer"
    SEQD=$BATS_TEST_TMPDIR/outer daemon_start_other --model tests/kit/vanilla_post "$@"
}

@test "process metrics are there and the budget is right with cgroup v1, v2 or none" {
    local work=$BATS_TEST_TMPDIR kind
    mkdir -p "$work/none" "$work/v1/cpu/a" "$work/v2/a/b"
    unshare -m mount --bind "$work/none" /sys/fs/cgroup 2>/dev/null ||
        skip 'nothing can be mounted here'
    echo '4:cpu,cpuacct:/a' >"$work/v1.self"
    echo 50000 >"$work/v1/cpu/cpu.cfs_quota_us"
    echo 100000 >"$work/v1/cpu/cpu.cfs_period_us"
    printf 'nr_throttled 1\nthrottled_time 3000000000\n' >"$work/v1/cpu/a/cpu.stat"
    echo '0::/a/b' >"$work/v2.self"
    echo '25000 100000' >"$work/v2/a/cpu.max"
    printf 'usage_usec 1\nthrottled_usec 2500000\n' >"$work/v2/a/b/cpu.stat"
    echo '0::/elsewhere' >"$work/none.self"
    for kind in v1 v2 none; do
        in_cgroups "$work/$kind" "$work/$kind.self"
        scrape >"$work/text"
        [ "$(faults <"$work/text")" = '' ]
        case $kind in
        v1) grep -qx 'seqd_cpu_budget_cores 0.5' "$work/text"
            grep -qx 'seqd_cpu_throttled_seconds_total 3' "$work/text" ;;
        v2) grep -qx 'seqd_cpu_budget_cores 0.25' "$work/text"
            grep -qx 'seqd_cpu_throttled_seconds_total 2.5' "$work/text" ;;
        none) grep -qx "seqd_cpu_budget_cores $(nproc)" "$work/text"
            [ -z "$(grep throttled "$work/text")" ] ;;
        esac
        for name in cpu_seconds_total resident_memory_bytes virtual_memory_bytes open_fds max_fds \
            start_time_seconds; do
            awk -v name="process_$name" '$1 == name && $2 > 0 { found = 1 } END { exit !found }' \
                "$work/text" || fail "$kind: $(grep "^process_$name" "$work/text")"
        done
        teardown
        first=
    done
}

@test "numbers have points" {
    scrape | grep -q '^process_start_time_seconds [0-9]*\.[0-9]*$'
    [ -z "$(scrape | grep -E ' [0-9]+,[0-9]')" ]
}
