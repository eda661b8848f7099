#!/usr/bin/env bash
# Functions of at most 70 lines, files of at most 500, lines of at most 100 characters.
. "$(dirname "$0")/lint.bash"

function_lines_max=70
file_lines_max=500
makefile_lines_max=110
columns_max=100

# The style puts the braces of a function, and of nothing else, into the first column.  A function
# is counted from the line where its declaration begins.
long_functions() {
    local file
    while read -r file; do
        stripped "$file" | awk -v file="$file" -v max=$function_lines_max '
            /^[A-Za-z_]/ { if (!inside) begin = NR }
            /^{/ { inside = 1 }
            /^}/ { if (inside && NR - begin + 1 > max)
                       print file ":" begin ": a function of " NR - begin + 1 " lines"
                   inside = 0 }
            END { if (inside) print file ": the function at line " begin " does not end" }'
    done < <(files '*.c' '*.h')
}

long_files() {
    local file lines
    while read -r file; do
        lines=$(wc -l <"$file")
        [ "$lines" -le $file_lines_max ] || echo "$file: $lines lines"
    done < <(files '*.c' '*.h' '*.sh' '*.bash' '*.bats' '*.py')
    for file in Makefile; do
        [ -e "$file" ] || continue
        lines=$(wc -l <"$file")
        [ "$lines" -le $makefile_lines_max ] || echo "$file: $lines lines"
    done
}

# Bytes that continue a UTF-8 character do not count.
long_lines() {
    local file
    while read -r file; do
        sed 's/[\x80-\xbf]//g' "$file" | awk -v file="$file" -v max=$columns_max '
            length($0) > max { print file ":" NR ": " length($0) " columns" }'
    done < <(files '*.c' '*.h' '*.sh' '*.bash' '*.bats' 'Makefile' 'Dockerfile' '*.yaml')
}

report "functions have at most $function_lines_max lines" long_functions
report "files have at most $file_lines_max lines" long_files
report "lines have at most $columns_max columns" long_lines

{
    printf 'static int f(int a,\n             int b)\n{\n'
    printf '    puts("}");\n%.0s' $(seq 67)
    printf '}\n\nint g(void)\n{\n'
    printf '    /* }\n} */\n%.0s' $(seq 33)
    printf '}\n'
} | plant src/base/a.c
expect 'a long function is seen' long_functions 1
seq 501 | plant tests/a.sh
seq 500 | plant tests/b.sh
seq 111 | plant Makefile
expect 'a long file is seen' long_files 2
printf '%0101d\n%0100d\n' 0 0 | plant a.c
printf '%098d\xe2\x86\x92\xe2\x86\x92\n' 0 | plant b.c
expect 'a long line is seen' long_lines 1
