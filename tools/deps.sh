#!/usr/bin/env bash
# Installs with apt what building and running (run), or also testing (test), needs.
#   usage: tools/deps.sh run|test
# Does nothing, without network and root, when everything is there.  SUDO= names another command
# than sudo.
set -euo pipefail

# "a|b": one of them is enough; the first is installed.
run=(make gcc libc6-dev libmicrohttpd-dev libgnutls28-dev libjansson-dev libopenblas-dev libyaml-dev
    libpcre2-dev libutf8proc-dev libxxhash-dev curl)
test=(libcmocka-dev 'libcurl4-openssl-dev|libcurl4-gnutls-dev' bats jq openssl clang-format
    iproute2 locales)
headers=(microhttpd.h gnutls/gnutls.h jansson.h cblas.h yaml.h pcre2.h utf8proc.h xxhash.h)

case ${1:-} in
run) packages=("${run[@]}") ;;
test) packages=("${run[@]}" "${test[@]}") headers+=(curl/curl.h) ;;
*)
    echo "usage: tools/deps.sh run|test" >&2
    exit 2
    ;;
esac

# Elsewhere the packages have other names: say which headers are missing, and leave it to the user.
without_apt() {
    local missing=() header
    for header in "${headers[@]}"; do
        printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <%s>\n' "$header" |
            "${CC:-cc}" -E -x c - >/dev/null 2>&1 || missing+=("$header")
    done
    [ ${#missing[@]} -eq 0 ] && exit 0
    cat >&2 <<END
This is no Debian or Ubuntu, so install these with the system's package manager, headers included:
  GNU make, gcc or clang, curl, libmicrohttpd (with TLS), GnuTLS, jansson, OpenBLAS (with cblas.h),
  libyaml, PCRE2, utf8proc, xxHash
  and for the tests: cmocka, libcurl, bats, jq, openssl, iproute2
Missing headers: ${missing[*]}
END
    exit 1
}
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || without_apt

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n')
missing=()
for wanted in "${packages[@]}"; do
    grep -Eqx "(${wanted//+/\\+}) installed" <<<"$installed" || missing+=("${wanted%%|*}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=("${SUDO:-sudo}")
    if ! command -v "${as_root[0]}" >/dev/null; then
        echo "Missing: ${missing[*]}. As root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
}
echo "Installing with apt: ${missing[*]}"
apt update || echo "apt-get update failed; trying with the lists that are here" >&2
apt install -y --no-install-recommends "${missing[@]}" >/dev/null
