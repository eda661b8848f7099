#!/usr/bin/env bats
# GET /metrics: the text format 0.0.4, and what the numbers say.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_post --model odd@name/1=tests/kit/vanilla_dot
}
teardown_file() { daemon_stop; }

scrape() { curl -s "$url/metrics"; }

# Prints what is wrong with an exposition: lines, names, families, buckets.
faults() {
    awk '
        BEGIN { label = "[a-z_]+=\"([^\"\\\\]|\\\\[\"\\\\n])*\"" }
        function fault(text) { print "line " NR ": " text ": " $0 }
        / $/ || /\r/ { fault("space or return at the end") }
        /^# HELP / { next }
        /^# TYPE / {
            if ($3 in type) fault("a second TYPE")
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
                last = key; count = value
                if (series ~ /le="\+Inf"/) infinite[key] = value
            }
            if (name ~ /_count$/ && type[family] == "histogram") {
                key = series; sub(/_count/, "_bucket", key); sub(/}$/, "", key)
                if (infinite[key] != value) fault("+Inf is " infinite[key])
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
    local head=$'# TYPE seqd_x histogram\nseqd_x_bucket{a="b",le="1"} 2\n'
    [ -z "$(faults <<<"${head}seqd_x_bucket{a=\"b\",le=\"+Inf\"} 2"$'\nseqd_x_count{a="b"} 2')" ]
    for end in 'seqd_x_bucket{a="b",le="+Inf"} 1' 'seqd_y 1' 'seqd_x_sum{a="b"} 1 ' \
        'seqd_x_count{a="b"} 2' 'seqd_x_sum{a="b} 1' 'seqd_x_sum 1,5' \
        'seqd_x_bucket{a="b",le="1"} 3' 'seqd_x_sum{a="\b"} 1'; do
        [ -n "$(faults <<<"$head$end")" ]
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
    grep -qx "seqd_worker_busy_seconds_total counter" "$BATS_TEST_TMPDIR/types"
    # Only a machine that shows control groups can tell how long it throttled.
    if find /sys/fs/cgroup -maxdepth 3 -name cpu.stat 2>/dev/null | grep -q .; then
        grep -qx "seqd_cpu_throttled_seconds_total counter" "$BATS_TEST_TMPDIR/types"
    fi
    for name in request_duration_seconds queue_wait_seconds encode_duration_seconds \
        decode_step_duration_seconds time_to_first_token_seconds inter_token_latency_seconds \
        batch_sequences batch_tokens sequence_source_tokens sequence_generated_tokens; do
        grep -qx "seqd_$name histogram" "$BATS_TEST_TMPDIR/types"
    done
    for name in queue_sequences queue_limit_sequences active_sequences active_sequences_limit \
        kv_cache_bytes kv_cache_limit_bytes model_mapped_bytes model_info http_connections \
        cpu_budget_cores ready worker_last_step_timestamp_seconds build_info; do
        grep -qx "seqd_$name gauge" "$BATS_TEST_TMPDIR/types"
    done
    grep -qx 'process_cpu_seconds_total counter' "$BATS_TEST_TMPDIR/types"
    grep -qx 'process_resident_memory_bytes gauge' "$BATS_TEST_TMPDIR/types"
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
    [ "$(metric 'seqd_generated_tokens_total{model="odd@name/1"}')" = 0 ]
}

@test "gauges tell limits and what runs" {
    [ "$(metric seqd_ready)" = 1 ]
    [ "$(metric 'seqd_queue_sequences{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_active_sequences{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_kv_cache_bytes{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_queue_limit_sequences{model="vanilla_post"}')" = 4096 ]
    [ "$(metric 'seqd_model_info{model="vanilla_post",family="transformer",dtype="float32"}')" = 1 ]
    [ "$(metric seqd_http_connections)" -ge 1 ]
    local text='"[^"]*"'
    scrape |
        grep -q "^seqd_build_info{version=$text,commit=$text,blas=$text,kernels=$text} 1\$"
}

@test "scrapes under load are whole: cumulative, +Inf the count, counters never fall" {
    local body='{"model":"vanilla_post","input_ids":[[5,6,7,3],[8,9,3]],
        "parameters":{"num_beams":2}}'
    seq 150 | xargs -P 2 -I '{}' curl -s -o /dev/null -H 'Content-Type: application/json' \
        -d "$body" "$url/v1/generate" 3>&- &
    local load=$! last=$BATS_TEST_TMPDIR/last now=$BATS_TEST_TMPDIR/now
    scrape >"$last"
    for i in $(seq 15); do
        scrape >"$now"
        [ "$(faults <"$now")" = '' ]
        awk '/^#/ || $1 !~ /(_total|_bucket|_count|_sum)(\{|$)/ { next }
            NR == FNR { before[$1] = $2; next }
            $1 in before && $2 + 0 < before[$1] + 0 { print; fell = 1 }
            END { exit fell }' "$last" "$now"
        mv "$now" "$last"
    done
    wait $load
}

@test "paths and methods of clients make no new series" {
    local before
    for method in BREW GET; do ask /nowhere '' -X $method; done
    before=$(scrape | grep -vc '^#')
    seq 120 | xargs -P 4 -n 30 bash -c 'for i; do
        curl -s -o /dev/null "$url/random/$i" -X "M$i" --next -s -o /dev/null "$url/v1/models/m$i" \
            --next -s -o /dev/null "$url/x?$i"; done' -
    ask /v1/models/one
    [ "$(scrape | grep -vc '^#')" -le $((before + 1)) ]
    [ "$(metric 'seqd_http_requests_total{route="other",method="other",status="404"}')" -ge 120 ]
}

@test "numbers have points" {
    scrape | grep -q '^process_start_time_seconds [0-9]*\.[0-9]*$'
    [ -z "$(scrape | grep -E ' [0-9]+,[0-9]')" ]
}
