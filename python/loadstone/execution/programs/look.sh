# What lies at a path that is to be probed; changes nothing.
is_device() { test -b "$path" || { printf '%s is no block device\n' "$path"; return 1; }; }
is_directory() { test -d "$path" || { printf '%s is no directory\n' "$path"; return 1; }; }

part memory cat /proc/meminfo
part fio fio --version
if [ "$kind" = device ]; then
    part here is_device
    # shellcheck disable=SC2086
    part size lsblk -b -d -n -o SIZE -- "$path"
else
    part here is_directory
    part real readlink -f -- "$path"
    part mounts cat /proc/self/mountinfo
    part room df -P -k -- "$path"
fi
