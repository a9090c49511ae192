#!/bin/bash
# In the guest: an example of examples/, or what must be left of it after the next boot.
# usage: guest.sh begin|crash|again EXAMPLE UBCACHE        (begin ends in order, crash does not end)
#
# The root file system forgets everything at the end of a boot; /etc/ubcache is kept in the shared
# folder, as a real machine would have kept it.
set -Eeuo pipefail
phase=$1 example=$2 program=$3
top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
PATH=/usr/sbin:/sbin:$PATH

trap 'cat /run/ubcache/*/log; ls -l /dev/ubcache/ /run/ubcache/*' ERR >&2

modprobe -a ublk_drv loop raid456 xfs ext4
make -s -C "$top" install PREFIX=/usr BINARY="$program" MAKEFLAGS= >/dev/null
mkdir -p /etc/ubcache /mnt/data
ubcache=/usr/bin/ubcache

udev() {
    /lib/systemd/systemd-udevd --daemon
    udevadm trigger --type=devices --subsystem-match=block --action=add
    udevadm settle --timeout=60
}

# ZFS's labels, two at the end, as far as libblkid looks for them.
put_zfs_labels() {
    python3 - "$@" <<'EOF'
import os, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_WRONLY)
    end = os.lseek(fd, 0, os.SEEK_END) // 262144 * 262144
    for label in (end - 524288, end - 262144):
        for slot in range(128):
            os.pwrite(fd, (0x00bab10c).to_bytes(8, "little") + bytes(1016), label + 131072 + slot * 1024)
    os.fsync(fd)
EOF
}

fill() {
    dd if=/dev/urandom of=/mnt/data/file bs=1M count=8 status=none
    sync
    sha256sum </mnt/data/file >/mnt/host/sum
}

begin() {
    udev
    case $example in
    ssd-and-disk)
        "$top/examples/ssd-and-disk" /dev/vda /dev/vdb /mnt/data
        fill
        ;;
    three-disks-zfs)
        "$top/examples/three-disks-zfs" /dev/vda /dev/vdb /dev/vdc /dev/vdd
        put_zfs_labels /dev/ubcache/by-uuid/*
        sha256sum /dev/ubcache/by-uuid/* >/mnt/host/sum
        $ubcache flush
        ;;
    raid6-xfs)
        "$top/examples/raid6-xfs" /dev/vda /mnt/data /dev/vd[b-h]
        fill
        ;;
    esac
    rm -rf /mnt/host/etc
    cp -r /etc/ubcache /mnt/host/etc
    [ "$phase" = crash ] && echo "cut the power" && sleep 100
    umount /mnt/data 2>/dev/null || true
    /usr/lib/systemd/system-shutdown/ubcache.shutdown
    if ls /run/ubcache/*/control.sock; then
        echo "the daemon still runs" >&2
        exit 1
    fi
}

# What an initramfs does: udev notes the members, the script serves their sets.
again() {
    cp /mnt/host/etc/* /etc/ubcache/
    udev
    for _ in $(seq 200); do
        /usr/share/initramfs-tools/scripts/local-block/ubcache
        grep -qs '^ready' /run/ubcache/*/log && break
        sleep 0.1
    done
    cat /run/ubcache/*/log
    case $example in
    three-disks-zfs)
        { blkid -p /dev/vdb 2>&1 || true; } | grep ambivalent
        sha256sum -c /mnt/host/sum
        [ "$(wc -l </mnt/host/sum)" -eq 3 ]
        ;;
    *)
        mount /dev/ubcache/by-uuid/* /mnt/data
        sha256sum </mnt/data/file | cmp - /mnt/host/sum
        umount /mnt/data
        ;;
    esac
    # The daemon is one that systemd spares at the end.
    [ "$(head -c 1 /proc/"$(pgrep -f 'serve --set')"/cmdline)" = @ ]
    /usr/lib/systemd/system-shutdown/ubcache.shutdown
}

case $phase in
again) again ;;
*) begin ;;
esac
echo "phase $phase of $example: done"
