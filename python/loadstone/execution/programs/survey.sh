# Describes the machine that it runs on, and changes nothing.
line() { cat "$1" 2>/dev/null | tr -d '\n'; }

firmware_of_chassis() {
    for file in sys_vendor product_name bios_version; do
        printf '%s=%s\n' "$file" "$(line "/sys/class/dmi/id/$file")"
    done
}

cards() {
    for card in /sys/class/net/*; do
        [ -e "$card/device" ] || continue
        name=${card##*/}
        slot=$(basename "$(readlink -f "$card/device")")
        printf 'name=%s\n' "$name"
        printf 'speed=%s\nmtu=%s\nstate=%s\n' \
            "$(line "$card/speed")" "$(line "$card/mtu")" "$(line "$card/operstate")"
        printf 'driver=%s\n' "$(basename "$(readlink -f "$card/device/driver")")"
        printf 'firmware=%s\n' "$(ethtool -i "$name" 2>/dev/null | sed -n 's/^firmware-version: //p')"
        printf 'model=%s\n\n' "$(lspci -s "$slot" 2>/dev/null | sed 's/^[^ ]* //; s/^[^:]*: //')"
    done
}

firmware_of_disks() {
    for disk in /sys/block/*; do
        printf '%s=%s\n' "${disk##*/}" "$(line "$disk/device/firmware_rev")$(line "$disk/device/rev")"
    done
}

raid() {
    cat /proc/mdstat 2>/dev/null | grep '^md'
    lspci 2>/dev/null | grep -i 'raid' | sed 's/^[^ ]* //'
    true
}

packages() {
    if command -v dpkg-query >/dev/null 2>&1; then
        dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' 2>/dev/null | sed -n 's/ installed$//p'
    else
        rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\n'
    fi
}

part kernel uname -s -r -m
part name uname -n
part system cat /etc/os-release
part chassis firmware_of_chassis
part cpu lscpu
part memory cat /proc/meminfo
# shellcheck disable=SC2086
part modules $sudo dmidecode -t 17
part cards cards
part disks lsblk -b -P -o NAME,TYPE,SIZE,ROTA,TRAN,MODEL,MOUNTPOINT,PKNAME
part firmware firmware_of_disks
part raid raid
part mounts cat /proc/mounts
part packages packages
[ -z "$pools" ] || part pools timeout 15 ceph osd pool ls detail -f json
