#!/usr/bin/env bats
# What is not plainly one request is refused and the connection closed, or served in exactly one
# way: no byte of a body or header is ever answered as a request of its own.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_post --limits.request_timeout_ms 2000 \
        --server.idle_timeout_ms 1000
}
teardown_file() { daemon_stop; }

teardown() { ok /v1/encode "$body"; }

body='{"input_ids":[[5,6,7,3]],"pooling":"cls"}' # 41 bytes
post='POST /v1/encode HTTP/1.1\r\nHost: localhost\r\n'
chunks="29\r\n$body\r\n0\r\n\r\n"
# What an attacker would have answered: its answer is the only one with this word.
hidden='GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
word=owned_by

# What came back: "200 400", the statuses of all answers in their order; "nothing".
statuses() { # ANSWERS
    local all
    all=$(grep -ao 'HTTP/1\.[01] [0-9][0-9][0-9] ' <<<"$1" | cut -d' ' -f2)
    echo ${all:-nothing}
}

# The text, and then a request that must not be answered: refused by one answer, or dropped.
refuses() { # TEXT
    local got
    got=$(raw "$1$hidden")
    [[ $got != *$word* ]] || fail "smuggled: ${1:0:200}: ${got:0:600}"
    # The library writes the head of some of its own refusals twice.
    [[ "$(statuses "$got" | tr ' ' '\n' | sort -u)" =~ ^(4[0-9][0-9]|5[0-9][0-9]|nothing)$ ]] ||
        fail "${1:0:200}: $(statuses "$got")"
}

# The text is one request that is answered by 200; what follows it is the next one.
serves() { # TEXT
    local got
    got=$(raw "$1$hidden")
    [ "$(statuses "$got")" = '200 200' ] || fail "${1:0:200}: $(statuses "$got") ${got:0:600}"
    [[ $got == *'"embedding"'*$word* ]]
}

@test "two lengths, or two ways to tell it, are refused" {
    local length coding end
    for end in "\r\n\r\n$body" "\r\n\r\n$chunks"; do
        refuses "${post}Content-Length: 41\r\nContent-Length: 41$end"
        refuses "${post}Content-Length: 41\r\nContent-Length: 4$end"
        refuses "${post}Content-Length: 0\r\nContent-Length: 41$end"
        refuses "${post}Content-Length: 41, 41$end"
        refuses "${post}Content-Length: 41\r\nTransfer-Encoding: chunked$end"
        refuses "${post}Transfer-Encoding: chunked\r\nContent-Length: 41$end"
        refuses "${post}Transfer-Encoding: chunked\r\nContent-Length: 0$end"
        refuses "${post}Content-Length: 41\r\ntransfer-encoding: identity$end"
        refuses "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked$end"
        refuses "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: x$end"
    done
}

@test "a length that is not plainly a number is refused" {
    local length
    for length in +41 -41 -0 0x29 41x 41.0 4e1 '4 1' '"41"' '' ' ' ';41' '41;' \
        18446744073709551657 99999999999999999999999999; do
        refuses "${post}Content-Length: $length\r\n\r\n$body"
    done
}

@test "leading zeros and spaces before a length change nothing" {
    serves "${post}Content-Length: 41\r\n\r\n$body"
    serves "${post}Content-Length: 0041\r\n\r\n$body"
    serves "${post}Content-Length:41\r\n\r\n$body"
    serves "${post}cOnTeNt-LeNgTh:   41\r\n\r\n$body"
}

@test "the only coding is chunked, in any case" {
    serves "${post}Transfer-Encoding: chunked\r\n\r\n$chunks"
    serves "${post}Transfer-Encoding: Chunked\r\n\r\n$chunks"
    local coding
    for coding in identity gzip 'gzip, chunked' 'chunked, chunked' 'chunked;q=1' xchunked \
        'chunked x' '"chunked"' '' '\vchunked' ',chunked' 'chunked,'; do
        refuses "${post}Transfer-Encoding: $coding\r\n\r\n$chunks"
    done
}

@test "chunks with extensions, zeros and trailers are read as one body" {
    serves "${post}Transfer-Encoding: chunked\r\n\r\n29;a=b\r\n$body\r\n0;c\r\n\r\n"
    serves "${post}Transfer-Encoding: chunked\r\n\r\n00029\r\n$body\r\n000\r\n\r\n"
    serves "${post}Transfer-Encoding: chunked\r\n\r\n29\r\n$body\r\n0\r\nX: y\r\n\r\n"
    serves "${post}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n28\r\n${body:1}\r\n0\r\n\r\n"
}

@test "a chunk whose size is not plain, or is not its size, is refused" {
    local size
    for size in '' -1 +29 0x29 ' 29' '29 x' 2g ffffffffffffffff 10000000000000000 \
        fffffffffffffffffffffffffffffff 1000000000000029; do
        refuses "${post}Transfer-Encoding: chunked\r\n\r\n$size\r\n$body\r\n0\r\n\r\n"
    done
    refuses "${post}Transfer-Encoding: chunked\r\n\r\n20\r\n$body\r\n0\r\n\r\n"
    refuses "${post}Transfer-Encoding: chunked\r\n\r\n29\r\n${body}0\r\n\r\n"
}

@test "a trailer gives a request no length, host or route" {
    local got
    local trailer='Content-Length: 50\r\n'
    got=$(raw "${post}Transfer-Encoding: chunked\r\n\r\n29\r\n$body\r\n0\r\n$trailer\r\n$hidden")
    [[ $(statuses "$got") =~ ^(200 200|200 4..|4..|200|nothing)$ ]]
}

@test "names and values of headers hide nothing" {
    refuses "${post}Content-Length : 41\r\n\r\n$body"
    refuses "${post}Content-Length\t: 41\r\n\r\n$body"
    refuses "${post} Content-Length: 41\r\n\r\n$body"
    refuses "${post}Content-Length: 41 \r\n\r\n$body"
    refuses "${post}Transfer-Encoding : chunked\r\n\r\n$chunks"
    refuses "${post}X Y: z\r\nContent-Length: 41\r\n\r\n$body"
    refuses "${post}X(: y\r\nContent-Length: 41\r\n\r\n$body"
    refuses "${post}X: y\x01\r\nContent-Length: 41\r\n\r\n$body"
    refuses "${post}X\x00: y\r\nContent-Length: 41\r\n\r\n$body"
    refuses "${post}no colon\r\nContent-Length: 41\r\n\r\n$body"
    refuses "${post}: nameless\r\nContent-Length: 41\r\n\r\n$body"
    refuses "${post}X: y\rContent-Length: 41\r\n\r\n$body"
    serves "${post}X:\r\nY: \r\nContent-Length: 41\r\n\r\n$body"
    serves "${post}X-!#\$%%&'*+.^_\`|~: \xc3\xa4\t\"(\r\nContent-Length: 41\r\n\r\n$body"
}

@test "a folded header is refused, also one that is folded into a length" {
    refuses "${post}Content-Length: 41\r\n folded\r\n\r\n$body"
    refuses "${post}Content-Length:\r\n 41\r\n\r\n$body"
    refuses "${post}Content-Length: 4\r\n\t1\r\n\r\n$body"
    refuses "${post}Content-: 41\r\n Length\r\n\r\n$body"
    refuses "${post}Transfer-Encoding:\r\n chunked\r\n\r\n$chunks"
    refuses "${post}Transfer-: chunked\r\n Encoding\r\n\r\n$chunks"
    refuses "${post}X: y\r\n Content-Length: 41\r\n\r\n$body"
    refuses "${post}X: y\r\n z\r\nContent-Length: 41\r\n\r\n$body"
}

@test "a request line that is not plain is refused" {
    local line
    for line in 'GET /livez' 'GET /livez ' 'GET /livez  HTTP/1.1' 'GET /livez HTTP/1.1 ' \
        'GET /livez HTTP/1.1 x' 'GET /livez HTTP/2.0' 'GET /livez HTTP/0.9' 'GET /livez http/1.1' \
        'GET /livez HTTP/1.11' 'GET\t/livez HTTP/1.1' ' GET /livez HTTP/1.1' 'GET HTTP/1.1' \
        'GET /livez /readyz HTTP/1.1'; do
        refuses "$line\r\nHost: localhost\r\n\r\n"
    done
    refuses 'GET /livez HTTP/1.1\r\n\r\n'
}

@test "a request line that is nobody's is answered once, and the next request is the next" {
    local line got
    for line in 'G@T /livez HTTP/1.1' 'GET livez HTTP/1.1' 'GET /li\x00vez HTTP/1.1' \
        'GET http://evil.example/v1/models HTTP/1.1' 'CONNECT a:1 HTTP/1.1' \
        'GET /livez\rX HTTP/1.1' 'GET /../v1/models HTTP/1.1' 'GET //v1/models HTTP/1.1'; do
        got=$(raw "$line\r\nHost: localhost\r\n\r\n$hidden")
        [[ $(statuses "$got") =~ ^40[045]' 200'$ ]] || fail "$line: $(statuses "$got")"
    done
}

@test "two hosts, or one that is foreign, are refused" {
    refuses 'GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n'
    refuses 'GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n'
    refuses 'GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n'
    local got
    got=$(raw 'GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n')
    [ "$(statuses "$got")" = 403 ]
}

@test "headers without end, one too long and too many are refused" {
    local long many
    long=$(printf '%70000s' '' | tr ' ' a)
    many=$(printf 'X-%s: y\\r\\n' $(seq 5000))
    refuses "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: $long\r\n\r\n"
    refuses "GET /livez HTTP/1.1\r\nHost: localhost\r\n$long: x\r\n\r\n"
    refuses "GET /livez?$long HTTP/1.1\r\nHost: localhost\r\n\r\n"
    refuses "GET /livez HTTP/1.1\r\nHost: localhost\r\n$many\r\n"
    local got
    got=$(raw "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ${long:0:5000}")
    [[ $(statuses "$got") =~ ^(nothing|4..)$ ]]
}

@test "what comes behind a refusal, or behind a body, is never a part of it" {
    # A refused request closes: its body may look like a request.
    refuses "POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    # A refusal that reads the body first: the body is not a request.
    local inner="GET /v1/models/vanilla_post HTTP/1.1\r\nHost: localhost\r\n\r\n" got
    local get='GET /livez HTTP/1.1\r\nHost: localhost\r\n'
    got=$(raw "${post/encode/nothing}Content-Length: 57\r\n\r\n$inner$hidden")
    [ "$(printf "$inner" | wc -c)" -eq 57 ]
    [ "$(statuses "$got")" = '404 200' ]
    # The same in a GET, whose body means nothing.
    got=$(raw "${get}Content-Length: 57\r\n\r\n$inner$hidden")
    [ "$(statuses "$got")" = '200 200' ]
    got=$(raw "${get}Transfer-Encoding: chunked\r\n\r\n39\r\n$inner\r\n0\r\n\r\n$hidden")
    [ "$(statuses "$got")" = '200 200' ]
}

@test "an answer carries no line of the request's" {
    local got
    local get='GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n'
    got=$(raw "${get/livez/livez%%0d%%0aX-Evil:%%20y}\r\n")
    [[ $got != *$'\n'X-Evil* ]]
    got=$(raw "${get}X-Request-Id: a%%0d%%0aX-Evil: y\r\n\r\n")
    [[ $got != *$'\n'X-Evil* ]]
    got=$(raw "${get}X-Request-Id: a\\\\nX-Evil: y\r\n\r\n")
    [[ $got != *$'\n'X-Evil* ]]
}
