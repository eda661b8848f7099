# What the lints share.  Sourced by them.
#
# A lint has functions that print one line an offence for the tree they stand in.  report() makes
# `ok` or `not ok` of it; expect() shows that the same function sees an offence that was planted.
set -uo pipefail
export LC_ALL=C

lint=$(basename "$0" .sh)
here=$(cd "$(dirname "$0")" && pwd)
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cd "$here/../.." || exit 1

# The files of the tree that match the git pathspecs: tracked and new ones, or all outside of git.
files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@" | while read -r file; do
            [ -f "$file" ] && echo "$file"
        done
    else
        local pattern
        for pattern in "$@"; do
            find . -path ./build -prune -o -type f -path "./$pattern" -print | sed 's|^\./||'
        done
    fi
}

report() { # NAME FUNCTION
    local offences
    offences=$("$2")
    if [ -z "$offences" ]; then
        echo "ok - $lint: $1"
    else
        echo "not ok - $lint: $1"
        echo "$offences"
    fi
}

plant() { # FILE, with the text of stdin
    mkdir -p "$planted/$(dirname "$1")"
    cat >"$planted/$1"
}

expect() { # NAME FUNCTION COUNT: so many lines about the planted files
    local offences count
    offences=$(cd "$planted" && "$2")
    count=$(grep -c . <<<"$offences")
    if [ "$count" -eq "$3" ]; then
        echo "ok - $lint: $1 (self-check)"
    else
        echo "not ok - $lint: $1 (self-check): $count offences seen, $3 planted"
        echo "$offences"
    fi
    rm -rf "${planted:?}"/*
}

# C without comments and without the insides of strings and characters; lines stay where they are.
stripped() { # FILE
    awk '
        { line = $0; out = ""; n = length(line); string = 0
          for (i = 1; i <= n; i++) {
              c = substr(line, i, 1); two = substr(line, i, 2)
              if (comment) { if (two == "*/") { comment = 0; i++ } }
              else if (string) {
                  if (c == "\\") i++
                  else if (c == quote) { string = 0; out = out c }
              }
              else if (two == "/*") { comment = 1; i++ }
              else if (two == "//") break
              else if (c == "\"" || c == "\047") { string = 1; quote = c; out = out c }
              else out = out c
          }
          print out }' "$1"
}
