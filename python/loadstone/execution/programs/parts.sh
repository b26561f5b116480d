# Each part of what is asked begins with a line of its own and ends with the exit code; what is not
# there is said by code 127.
LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH

part() {
    name=$1
    shift
    printf '\n%s begin %s\n' "$mark" "$name"
    if command -v "$1" >/dev/null 2>&1; then
        said=$("$@" 2>&1 </dev/null)
        code=$?
        printf '%s\n' "$said" | head -c 131072
    else
        code=127
        printf '%s: not found\n' "$1"
    fi
    printf '\n%s end %s %s\n' "$mark" "$name" "$code"
}
