#!/usr/bin/env bats
# What holds in every family alike, and where families differ: padding, positions, vocabularies.
load daemon

# Where positions are places in the row, where padding is not counted, and where there are none.
by_place='bart mbart plbart marian marian_sepvocab pegasus blenderbot blenderbot_small'
by_count='m2m100 nllb fsmt'
relative='t5 t5_v11 mt5 umt5 byt5'
generating="$by_place $by_count $relative"
encoders='bert roberta mpnet distilbert'

setup_file() {
    local name options=()
    for name in $generating $encoders t5_sharp; do options+=(--model "tests/kit/$name"); done
    daemon_start "${options[@]}"
}
teardown_file() { daemon_stop; }

# Sets pad, eos and both vocabularies of a model.
look_up() { # MODEL
    read -r pad eos source_size target_size < <(jq -r '[.pad_token_id, .eos_token_id // 3,
        .src_vocab_size // .vocab_size, if .share_encoder_decoder_embeddings == false then
        .decoder_vocab_size else .tgt_vocab_size // .vocab_size end] | @tsv' \
        "tests/kit/$1/config.json")
}

@test "a row alone, padded, and beside a longer one gets the same bits" {
    local name alone
    for name in $generating $encoders; do
        look_up $name
        encode $name "[[5,6,7,$eos]]" '[[1,1,1,1]]'
        alone=$(value '.data[0].embedding')
        encode $name "[[5,6,7,$eos,$pad,$pad,$pad],[9,8,7,6,5,4,$eos]]" \
            '[[1,1,1,1,0,0,0],[1,1,1,1,1,1,1]]'
        holds '.data[0].embedding[:4] == $alone' --argjson alone "$alone"
    done
    for name in $generating; do
        look_up $name
        generate $name "[[5,6,7,$eos]]" '[[1,1,1,1]]' '{"num_beams":1,"logprobs":0}'
        alone=$(value '.outputs[0].sequences')
        generate $name "[[9,8,7,6,5,4,$eos],[5,6,7,$eos,$pad,$pad,$pad]]" \
            '[[1,1,1,1,1,1,1],[1,1,1,1,0,0,0]]' '{"num_beams":1,"logprobs":0}'
        holds '.outputs[1].sequences == $alone' --argjson alone "$alone"
    done
}

@test "sixteen equal rows of one request get the same bits" {
    local name
    for name in $generating $encoders; do
        look_up $name
        encode $name "$(jq -nc --argjson e $eos '[range(16) | [5,6,7,$e]]')" \
            '[[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],
              [1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,1,1]]'
        holds '[.data[].embedding] | length == 16 and (unique | length == 1)'
    done
}

@test "padding on the left moves rows where positions are places, and only there" {
    local name alone masked='[[0,0,0,1,1,1,1]]'
    for name in $by_place bert distilbert; do
        look_up $name
        encode $name "[[5,6,7,$eos]]" '[[1,1,1,1]]'
        alone=$(value '.data[0].embedding')
        encode $name "[[$pad,$pad,$pad,5,6,7,$eos]]" "$masked"
        holds 'near(.data[0].embedding[3:]; $alone; 0.02) | not' --argjson alone "$alone"
    done
    for name in $by_count $relative roberta mpnet; do
        look_up $name
        encode $name "[[5,6,7,$eos]]" '[[1,1,1,1]]'
        alone=$(value '.data[0].embedding')
        encode $name "[[$pad,$pad,$pad,5,6,7,$eos]]" "$masked"
        holds '.data[0].embedding[3:] == $alone' --argjson alone "$alone"
    done
}

@test "what is masked cannot matter, however large the scores are" {
    local name first
    for name in $generating t5_sharp; do
        encode $name '[[5,9,6,7,8]]' '[[1,0,1,0,1]]'
        first=$answer
        encode $name '[[5,10,6,11,8]]' '[[1,0,1,0,1]]'
        [ "$answer" = "$first" ] || fail "$name"
    done
}

@test "a row without a real token is refused by its number and poisons nobody" {
    local name alone
    for name in $generating $encoders; do
        look_up $name
        encode $name "[[5,6,7,$eos]]" '[[1,1,1,1]]'
        alone=$(value '.data[0].embedding')
        refused 400 empty_row 'input_ids[1]' /v1/encode "{\"model\":\"$name\",
            \"input_ids\":[[5,6,7,$eos],[$pad,$pad,$pad,$pad],[5,6,7,$eos]],
            \"attention_mask\":[[1,1,1,1],[0,0,0,0],[1,1,1,1]]}"
        encode $name "[[5,6,7,$eos]]" '[[1,1,1,1]]'
        holds '.data[0].embedding == $alone' --argjson alone "$alone"
    done
    for name in $generating; do
        refused 400 empty_row 'input_ids[0]' /v1/generate \
            "{\"model\":\"$name\",\"input_ids\":[[5,6,7]],\"attention_mask\":[[0,0,0]]}"
    done
}

@test "the decoder sees the source's mask at every step and beam" {
    local name beams padding answers row mask
    for name in $generating; do
        for beams in 1 4; do
            answers=()
            for padding in 0 1 12 60; do
                row=$(jq -nc "[5,6,7,3] + [range($padding) | 9]")
                mask=$(jq -nc "[1,1,1,1] + [range($padding) | 0]")
                generate $name "[$row]" "[$mask]" "{\"num_beams\":$beams,
                    \"encoder_no_repeat_ngram_size\":0,\"max_new_tokens\":9,\"logprobs\":0}"
                answers+=("$(value .outputs)")
            done
            [ "${answers[0]}" = "${answers[1]}" ] && [ "${answers[0]}" = "${answers[2]}" ] &&
                [ "${answers[0]}" = "${answers[3]}" ] || fail "$name, $beams beams"
        done
    done
}

@test "without a mask the pads at the end are padding, others are tokens" {
    local name inferred
    for name in $generating $encoders; do
        look_up $name
        encode $name "[[5,$pad,6,7,$pad,$pad]]" '[[1,1,1,1,0,0]]'
        inferred=$(value .data)
        ok /v1/encode "{\"model\":\"$name\",\"input_ids\":[[5,$pad,6,7,$pad,$pad]]}"
        [ "$(value .data)" = "$inferred" ] || fail "$name"
    done
    for name in $generating; do
        look_up $name
        generate $name "[[5,6,7,$eos,$pad,$pad]]" '[[1,1,1,1,0,0]]' '{}'
        inferred=$(value .outputs)
        ok /v1/generate "{\"model\":\"$name\",\"input_ids\":[[5,6,7,$eos,$pad,$pad]]}"
        [ "$(value .outputs)" = "$inferred" ] || fail "$name"
    done
}

@test "rows beyond the positions are refused, source and target, where there is a table" {
    local name row
    row=$(jq -nc '[range(65) | 5 + . % 20]')
    for name in $by_place; do
        refused 400 too_long input_ids /v1/encode "{\"model\":\"$name\",\"input_ids\":$row}"
        encode $name "$(jq -c '[.[:64]]' <<<"$row")" "$(jq -c '[.[:64] | map(1)]' <<<"$row")"
        refused 400 out_of_range parameters.max_new_tokens /v1/generate \
            "{\"model\":\"$name\",\"input_ids\":[[5,6]],\"parameters\":{\"max_new_tokens\":64}}"
        generate $name '[[5,6]]' '[[1,1]]' '{"max_new_tokens":63,"min_new_tokens":63,"num_beams":2}'
        holds 'tokens[0] | length == 63'
    done
    for name in roberta mpnet; do
        encode $name "[$(jq -c '.[:22]' <<<"$row")]" "$(jq -nc '[[range(22) | 1]]')"
        refused 400 too_long input_ids /v1/encode \
            "{\"model\":\"$name\",\"input_ids\":$(jq -c '.[:23]' <<<"$row")}"
    done
    for name in $by_count $relative; do
        ok /v1/encode "{\"model\":\"$name\",\"input_ids\":$(jq -c '. + . + .' <<<"$row")}"
        generate $name '[[5,6]]' '[[1,1]]' '{"max_new_tokens":90,"min_new_tokens":90,"num_beams":2,
            "no_repeat_ngram_size":0}'
        holds 'tokens[0] | length == 90'
    done
}

@test "tokens that were decoded step by step score what one pass gives them" {
    local name beams scores off
    off='"forced_bos_token_id":null,"forced_eos_token_id":null,"no_repeat_ngram_size":0,
        "encoder_no_repeat_ngram_size":0,"min_length":0,"bad_words_ids":null'
    for name in $generating; do
        look_up $name
        for beams in 1 2 3 4 5; do
            generate $name "[[8,$eos],[5,6,7,8,9,10,11,12,$eos],[9,5,9,6,$eos]]" \
                '[[1,1],[1,1,1,1,1,1,1,1,1],[1,1,1,1,1]]' "{\"num_beams\":$beams,
                \"num_return_sequences\":$beams,\"max_new_tokens\":12,\"logprobs\":0,$off}"
            scores=$(value '[.outputs[].sequences[].token_logprobs]')
            ok /v1/score "$(jq -c --arg name $name --arg eos $eos --argjson beams $beams '{
                model: $name, target_ids: [.outputs[].sequences[].token_ids],
                input_ids: [[8,-1],[5,6,7,8,9,10,11,12,-1],[9,5,9,6,-1] | . as $row |
                    range($beams) | $row | map(if . < 0 then $eos | tonumber else . end)]}' \
                <<<"$answer")"
            holds 'near([.outputs[].token_logprobs]; $scores; 2e-4)' --argjson scores "$scores"
        done
    done
}

@test "a language may be the decoder's start, or its first token behind the start" {
    generate mbart '[[5,6,7,2]]' '[[1,1,1,1]]' \
        '{"decoder_start_token_id":80,"forced_bos_token_id":null,"logprobs":0}'
    local start=$(value '.outputs[0].sequences')
    ok /v1/generate '{"model":"mbart","input_ids":[[5,6,7,2]],"decoder_input_ids":[[80]],
        "parameters":{"decoder_start_token_id":80,"forced_bos_token_id":null,"logprobs":0}}'
    [ "$(value '.outputs[0].sequences')" = "$start" ]
    generate mbart '[[5,6,7,2]]' '[[1,1,1,1]]' \
        '{"decoder_start_token_id":2,"forced_bos_token_id":80,"num_beams":3}'
    holds 'tokens[0][0] == 80'
    generate mbart '[[5,6,7,2]]' '[[1,1,1,1]]' \
        '{"decoder_start_token_id":2,"forced_bos_token_id":null,"logprobs":0}'
    [ "$(value '.outputs[0].sequences')" != "$start" ]
}

@test "the last id of the table is a token and the next is none" {
    local name id
    for name in $generating $encoders; do
        look_up $name
        ok /v1/encode "{\"model\":\"$name\",\"input_ids\":[[5,$((source_size - 1)),6]],
            \"attention_mask\":[[1,1,1]]}"
        for id in $source_size -1 2147483648 9223372036854775807; do
            refused 400 token_out_of_range 'input_ids[1][1]' /v1/encode \
                "{\"model\":\"$name\",\"input_ids\":[[5,6],[5,$id]]}"
        done
    done
    for name in $generating; do
        look_up $name
        ok /v1/score "{\"model\":\"$name\",\"input_ids\":[[5,6]],
            \"target_ids\":[[5,$((target_size - 1))]]}"
        refused 400 token_out_of_range 'target_ids[0][1]' /v1/score \
            "{\"model\":\"$name\",\"input_ids\":[[5,6]],\"target_ids\":[[5,$target_size]]}"
    done
}

@test "separate vocabularies: sources from one, starts and answers from the other" {
    local name
    for name in marian_sepvocab fsmt; do
        look_up $name
        [ "$source_size" -lt "$target_size" ]
        refused 400 token_out_of_range 'input_ids[0][0]' /v1/generate \
            "{\"model\":\"$name\",\"input_ids\":[[$source_size]]}"
        ok /v1/generate "{\"model\":\"$name\",\"input_ids\":[[$((source_size - 1)),5]],
            \"attention_mask\":[[1,1]],\"parameters\":{\"num_beams\":1,\"do_sample\":true,
            \"seed\":1,\"top_k\":0,\"num_return_sequences\":50,\"max_new_tokens\":20,
            \"temperature\":9.0}}"
        holds 'tokens | add | max < $target and max >= $source' \
            --argjson target $target_size --argjson source $source_size
        ok /v1/generate "{\"model\":\"$name\",\"input_ids\":[[5,6]],
            \"parameters\":{\"decoder_start_token_id\":$((target_size - 1))}}"
        refused 400 token_out_of_range parameters.decoder_start_token_id /v1/generate \
            "{\"model\":\"$name\",\"input_ids\":[[5,6]],
            \"parameters\":{\"decoder_start_token_id\":$target_size}}"
    done
}
