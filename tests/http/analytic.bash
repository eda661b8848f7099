# A model whose answers can be worked out by hand: `load analytic` after `load daemon`.
#
# A BART whose tables and matrices are all zero, so that its logits are its output bias, whatever
# source and history are.  With a bias of ln p every token has the same probabilities p everywhere.
# Vocabulary 8, 32 positions, start and end 2, padding 1.

analytic_config='{"model_type": "bart", "d_model": 8, "vocab_size": 8, "encoder_layers": 1,
    "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 32, "pad_token_id": 1,
    "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": null}'

# Every tensor's name and shape.
analytic_shapes='
    def linear: {"\(.).weight": [8, 8], "\(.).bias": [8]};
    def norm: {"\(.).weight": [8], "\(.).bias": [8]};
    def attention($name): ("q", "k", "v", "out" | "\($name).\(.)_proj" | linear),
        ("\($name)_layer_norm" | norm);
    [{"model.shared.weight": [8, 8]},
     ("model.encoder", "model.decoder" | . as $stack | "\(.).layers.0" as $layer |
        {"\(.).embed_positions.weight": [34, 8]}, ("\(.).layernorm_embedding" | norm),
        attention("\($layer).self_attn"), ("\($layer).fc1", "\($layer).fc2" | linear),
        ("\($layer).final_layer_norm" | norm),
        (select(endswith("decoder")) | attention("\($layer).encoder_attn"))),
     {"final_logits_bias": [1, 8]}] | add'

# What the file holds: its header and the bytes of its tensors, the last of which is the bias.
analytic_file='reduce to_entries[] as {$key, $value} ({bytes: 0, header: {}};
    (.bytes + 4 * ($value | reduce .[] as $n (1; . * $n))) as $next |
    .header[$key] = {dtype: "F32", shape: $value, data_offsets: [.bytes, $next]} |
    .bytes = $next)'

# Numbers as float32, little-endian, in escapes of printf.
float32_bytes='def hex: "0123456789abcdef" as $digits | [. / 16, . % 16 | floor] |
        "\\x" + $digits[.[0]:.[0] + 1] + $digits[.[1]:.[1] + 1];
    map((if . < 0 then 2147483648 else 0 end) as $sign | fabs | frexp as [$part, $power] |
        $sign + ($power + 126) * 8388608 + ($part * 16777216 | round) - 8388608 |
        [., . / 256, . / 65536, . / 16777216 | floor % 256 | hex] | join("")) | join("")'

analytic_folder() { # DIR P0 ... P7
    local dir=$1 file header bias
    shift
    mkdir -p "$dir"
    printf '%s\n' "$analytic_config" >"$dir/config.json"
    file=$(jq -nc "$analytic_shapes | $analytic_file")
    header=$(jq -c .header <<<"$file")
    bias=$(jq -nr '[$ARGS.positional[] | tonumber | log] | '"$float32_bytes" --args "$@")
    printf "\\x$(printf %02x $((${#header} % 256)))\\x$(printf %02x $((${#header} / 256)))" \
        >"$dir/model.safetensors"
    printf '\0\0\0\0\0\0%s' "$header" >>"$dir/model.safetensors"
    truncate -s $((8 + ${#header} + $(jq .bytes <<<"$file") - 32)) "$dir/model.safetensors"
    printf "$bias" >>"$dir/model.safetensors"
}
