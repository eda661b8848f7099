#!/usr/bin/env bash
# The tree names nothing that is only on somebody's machine, and no package registry.
. "$(dirname "$0")/lint.bash"

# In pieces, so that this file does not name them either.
names=(
    '(^|[^A-Za-z0-9_.}/-])/(w''ork|ho''me|ro''ot|tm''p/w)(/|[^a-z_]|$)'
    'sha''red/(design|kit|tools|bench|hooks)'
    'py''pi\.(org|python)|python''hosted|npm''js\.(org|com)|proxy\.gol''ang|crates\.''io'
    'deb\.deb''ian\.org|registry-1\.doc''ker|doc''ker\.io'
)

outside_names() {
    local file name
    while read -r file; do
        for name in "${names[@]}"; do
            grep -EIn "$name" "$file" | sed "s|^|$file:|" | cut -c1-160
        done
    done < <(files '*')
}

report 'no machine paths and no registries' outside_names
plant a.c <<<'open("/w''ork/main/model")'
plant docs/b.md <<<'see /tm''p/w/BRIEF.md and `sha''red/kit`'
plant c.md <<<'index-url = https://py''pi.org/simple'
plant ok.c <<<'"/tmp/test.XXXXXX", workers/work, network/workload, shared.weight'
expect 'a foreign name is seen' outside_names 4
