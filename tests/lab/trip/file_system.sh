#!/bin/bash
# In the guest: a file system on ubcache's NBD export (made the first time), or on the kernel's bcache.
# usage: file_system.sh network PORT EXPORT TURN | bcache
set -euo pipefail
sums=/mnt/host/sums
mkdir -p /mnt/volume

connect() {  # port, export
    modprobe virtio_net
    modprobe nbd
    /run/busybox ip link set eth0 up
    /run/busybox ip addr add 10.0.2.15/24 dev eth0
    # The block size of the set: the kernel's bcache refuses a file system with smaller blocks.
    nbd-client -b 4096 -N "$2" 10.0.2.2 "$1" /dev/nbd0
}

register() {
    modprobe bcache
    for serial in cache disk; do
        readlink -f /dev/disk/by-id/virtio-$serial >/sys/fs/bcache/register
    done
    for _ in $(seq 200); do
        [ -b /dev/bcache0 ] && return
        sleep 0.05
    done
    return 1
}

check_files() {
    mount "$1" /mnt/volume
    (cd /mnt/volume && sha256sum --quiet -c $sums)
}

write_files() {  # folder
    mkdir "/mnt/volume/$1"
    cp -r /usr/share/perl5/Debconf /usr/bin/bash "/mnt/volume/$1/"
    for number in $(seq 40); do
        head -c $((number * 1777)) /dev/urandom >"/mnt/volume/$1/$number"
    done
    rm "/mnt/volume/$1"/1?
    sync
    fstrim /mnt/volume
    (cd /mnt/volume && find . -type f -print0 | xargs -0 sha256sum) >$sums
}

leave() {  # device
    umount /mnt/volume
    e2fsck -fn "$1"
}

case $1 in
network)
    connect "$2" "$3"
    if [ ! -e $sums ]; then
        mkfs.ext4 -q /dev/nbd0
        mount /dev/nbd0 /mnt/volume
    else
        check_files /dev/nbd0
    fi
    write_files "$4"
    leave /dev/nbd0
    nbd-client -d /dev/nbd0
    ;;
bcache)
    register
    e2fsck -fn /dev/bcache0
    check_files /dev/bcache0
    write_files kernel
    leave /dev/bcache0
    if dmesg | grep -iE 'bcache.*(error|inconsist|bad|corrupt|missing|spotted|stale|invalid)|EXT4-fs.*error'; then
        exit 1
    fi
    ;;
esac
