#!/usr/bin/env bash
# A layer includes only itself and those before it, and every library has one home.
. "$(dirname "$0")/lint.bash"

layers=(base kernels model search text serve http app)

# What may be written where: an extended regular expression (of code, comments left out), the
# layers that are its home, and what it is.
homes=(
    '#include <cblas|#include <openblas|cblas_|openblas_' 'kernels' 'OpenBLAS'
    '#include <[a-z0-9_]*intrin\.h>' 'kernels' 'intrinsics'
    '#include <jansson\.h>|#include "model/json\.h"' 'model text http' 'JSON'
    '#include <microhttpd\.h>|MHD_' 'http' 'libmicrohttpd'
    '#include <gnutls|gnutls_' 'http' 'GnuTLS'
    '#include <yaml\.h>' 'app' 'libyaml'
    '#include <pcre2|#include <utf8proc' 'text' 'PCRE2 and utf8proc'
    '(pthread|thrd)_create' 'base serve http' 'threads'
    'pthread_(mutex|cond|rwlock|spin|barrier)_|(mtx|cnd)_[a-z]' 'base serve http' 'locks'
    '(sigwait|sigaction|pthread_sigmask)[a-z]* *\(' 'app' 'signals'
    '(^|[^a-z_])(malloc|calloc|realloc|strdup|strndup|asprintf|free) *\(' 'base' 'the heap (mem.h)'
    '(^|[^a-z_])setlocale *\(' '' 'the locale'
)

rank() { # LAYER: its place, nothing if it is none
    local i
    for i in "${!layers[@]}"; do [ "${layers[i]}" = "$1" ] && echo "$i"; done
}

upward_includes() {
    local file layer line target
    while read -r file; do
        layer=$(cut -d/ -f2 <<<"$file")
        [ -n "$(rank "$layer")" ] || { echo "$file: $layer is no layer" && continue; }
        while IFS= read -r line; do
            target=$(sed 's/.*"\(.*\)".*/\1/' <<<"$line")
            if [[ $target != */* ]]; then
                [ -e "$(dirname "$file")/$target" ] || echo "$file: $target is not beside it"
            elif [ -z "$(rank "${target%%/*}")" ]; then
                echo "$file: $target belongs to no layer"
            elif [ "$(rank "${target%%/*}")" -gt "$(rank "$layer")" ]; then
                echo "$file: $layer includes $target, which is above it"
            fi
        done < <(grep '^ *# *include "' "$file")
    done < <(files 'src/*/*.[ch]' 'include/*/*.h')
}

# An include keeps its file name, which stripped() would leave out.
code() {
    stripped "$1" | grep -v '^ *# *include'
    grep '^ *# *include' "$1" | sed 's/^ *# */#/'
}

strangers() {
    local file layer text i
    while read -r file; do
        layer=$(cut -d/ -f2 <<<"$file")
        text=$(code "$file")
        for ((i = 0; i < ${#homes[@]}; i += 3)); do
            case " ${homes[i + 1]} " in *" $layer "*) continue ;; esac
            grep -Eq "${homes[i]}" <<<"$text" &&
                echo "$file: ${homes[i + 2]} in $layer (home: ${homes[i + 1]:-nowhere})"
        done
    done < <(files 'src/*/*.[ch]' 'include/*/*.h')
}

report 'includes go downwards only' upward_includes
report 'every library stays at home' strangers

plant src/model/a.c <<<'#include "serve/queue.h"'
plant include/base/b.h <<<'#include "model/model.h"'
plant src/http/c.c <<<'#include "nowhere.h"'
plant src/http/d.c <<<'#include "base/mem.h"'
expect 'an upward include is seen' upward_includes 3
plant src/serve/a.c <<<'#include <jansson.h>'
plant src/search/b.c <<<'#include <cblas.h>'
plant src/model/c.c <<<'    pthread_create(&thread, NULL, run, NULL);'
plant src/text/d.c <<<'    char *p = malloc(5); /* */'
plant src/text/e.c <<<'    int x = 1; /* malloc(5) */ char *y = "free(x)"; mem_free(y);'
expect 'a library outside its home is seen' strangers 4
