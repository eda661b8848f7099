#!/usr/bin/env bash
# C is as clang-format leaves it.  Versions differ a little: the one that counts is 14.
. "$(dirname "$0")/lint.bash"

version_wanted=14
for tool in clang-format-$version_wanted clang-format ''; do
    command -v "$tool" >/dev/null &&
        "$tool" --version | grep -q "version $version_wanted\." && break
done
if [ -z "$tool" ]; then
    echo "ok - $lint: the C files # skip clang-format $version_wanted is not here"
    exit 0
fi

misformatted() {
    local file
    while read -r file; do
        "$tool" --style=file:"$here/../../.clang-format" --dry-run -Werror "$file" &>/dev/null ||
            echo "$file: clang-format -i $file"
    done < <(files '*.c' '*.h')
}

report 'the C files' misformatted
plant src/base/a.c <<<'int  f( void ){return 1;}'
plant src/base/b.c <<<'int f(void);'
expect 'a file in another format is seen' misformatted 1
