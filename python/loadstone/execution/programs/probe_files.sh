# A directory for the files of a probe. It is made here and now, and what is removed again is what
# fio was told to make and the directory's mark: a foreign file keeps the directory.
make() {
    mkdir -- "$folder" && printf '%s\n' "$owner" >"$folder/.loadstone-probe"
}

remove() {
    [ -e "$folder" ] || return 0
    grep -qxF -- "$owner" "$folder/.loadstone-probe" || {
        printf '%s does not bear the mark of this probe\n' "$folder"
        return 1
    }
    number=0
    while [ "$number" -lt "$jobs" ]; do
        rm -f -- "$folder/probe.$number"
        number=$((number + 1))
    done
    rm -f -- "$folder/.loadstone-probe"
    rmdir -- "$folder"
}

measure() {
    # After a failure nothing more is measured.
    [ "$code" = 0 ] && part "$@"
}

# The caller may be gone in the middle: what was made is removed all the same.
trap '' HUP PIPE
trap 'part remove remove; exit 1' INT TERM
