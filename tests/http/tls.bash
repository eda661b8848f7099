# Certificates of the tests; `load tls` comes after `load daemon`.
# Environment: CURL_CA_BUNDLE, the issuer that curl believes.

# NAME.crt and NAME.key in $BATS_TEST_TMPDIR, for loopback.  The first one issues the others.
certificate() { # NAME [DAYS]
    local at=$BATS_TEST_TMPDIR issue=()
    export CURL_CA_BUNDLE=$at/issuer.crt
    if [ ! -e "$CURL_CA_BUNDLE" ]; then
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj /CN=issuer -keyout "$at/issuer.key" -out "$at/issuer.crt" 2>/dev/null
    fi
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$at/$1.key" -out "$at/$1.csr" 2>/dev/null
    openssl x509 -req -in "$at/$1.csr" -CA "$at/issuer.crt" -CAkey "$at/issuer.key" \
        -CAcreateserial -days "${2:-2}" -out "$at/$1.crt" \
        -extfile <(echo 'subjectAltName=IP:127.0.0.1,IP:::1,IP:0.0.0.0,IP:::') 2>/dev/null
}

# The common name of the certificate that a new connection is shown.
shown() {
    openssl s_client -connect "${url#https://}" </dev/null 2>/dev/null |
        openssl x509 -noout -subject | sed 's/.*CN *= *//'
}
