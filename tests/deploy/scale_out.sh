#!/usr/bin/env bash
# Three replicas behind a real HAProxy: see scale_out.py.
#   usage: tests/deploy/scale_out.sh PROGRAM
# As root, on Debian; installs haproxy.
cd "$(dirname "$0")/../.."
. tests/deploy/common.bash

seqd=$(realpath "$1")
need haproxy
"$seqd" quantize models/g2p "$scratch/g2p" --dtype float32 >"$scratch/log" 2>&1 ||
    fail "a packed model: $(cat "$scratch/log")"
python3 tests/deploy/scale_out.py "$seqd" "$scratch/g2p"
