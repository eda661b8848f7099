# What the scripts of tests/deploy and tests/docker share.  Sourced by them, from the top of the
# tree.  They run as root, on Debian, and install what they need.
#
# Each prints `ok - ` and `not ok - ` lines and ends with 1 at the first fault.  STATE= names the
# folder that keeps what is slow to make (a base image, layers, checkers) between runs.
set -euo pipefail
export LC_ALL=C.UTF-8

part=$(basename "$0" .sh)
state=${STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/seqd-deploy-check}
here=$PWD/tests/deploy
mkdir -p "$state"
scratch=$(mktemp -d)

step() { printf 'ok - %s: %s\n' "$part" "$*"; }
fail() {
    printf 'not ok - %s: %s\n' "$part" "$*"
    exit 1
}

# Installs the Debian packages that are not there; nothing that apt installs is started by it.
need() { # PACKAGE...
    local missing=() package
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    { apt-get update -qq && env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
        -o DPkg::Lock::Timeout=300 --no-install-recommends "${missing[@]}"; } \
        >"$state/apt.log" 2>&1 || fail "apt installs ${missing[*]}: $(tail -n 3 "$state/apt.log")"
}

# The checkers that come as Python packages, in an environment of their own.
need_python_tools() {
    export PATH=$state/venv/bin:$PATH
    cmp -s "$here/requirements.txt" "$state/venv/requirements.txt" && return
    python3 -m venv "$state/venv" &&
        "$state/venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" \
            >"$state/pip.log" 2>&1 || fail "pip installs: $(tail -n 3 "$state/pip.log")"
    cp "$here/requirements.txt" "$state/venv/"
}

await() { # SECONDS COMMAND...: until it succeeds
    local tries=$(($1 * 10))
    shift
    while ! "$@" >/dev/null 2>&1; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 0.1
    done
}

free_port() {
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# What a script started is ended by its pid, the last one first; before that it runs what it has
# added to at_exit.
started=()
at_exit=()
finish() {
    local i
    for ((i = ${#at_exit[@]} - 1; i >= 0; i--)); do
        eval "${at_exit[i]}" >/dev/null 2>&1 || true
    done
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do
        kill "${started[i]}" 2>/dev/null || true
        wait "${started[i]}" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap finish EXIT
