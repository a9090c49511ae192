#!/bin/bash
# In the guest: systemd, in a namespace of its own, with udev. A set that was given to ubcache is started by
# the events of its devices, a line of /etc/fstab is mounted from it, the machine is shut down.
# usage: systemd_guest.sh UBCACHE            (systemd calls it again, with "inside")
set -Eeuo pipefail
self=$(readlink -f "$0")
PATH=/usr/sbin:/sbin:$PATH
set=11111111-2222-3333-4444-555555555555

inside() {
    set -x
    udevadm trigger --type=devices --subsystem-match=block --action=add
    udevadm settle --timeout=60
    for _ in $(seq 300); do
        systemctl -q is-active "ubcache@$set" && break
        sleep 0.1
    done
    systemctl show -p StatusText "ubcache@$set"
    mkfs.ext4 -q /dev/ubcache/by-label/home
    systemctl start mnt-data.mount
    mountpoint /mnt/data
    echo hello >/mnt/data/file
    systemctl --no-block start poweroff.target
}

if [ "$1" = inside ]; then
    inside
    exit 0
fi

modprobe -a ublk_drv ext4
make -s -C "$(dirname "$self")/../.." install PREFIX=/usr BINARY="$1" MAKEFLAGS= >/dev/null
mkdir -p /etc/ubcache /mnt/data /etc/systemd/system/ubcache@.service.d
echo 'OPTIONS="--export auto"' >/etc/ubcache/$set.conf
ubcache make --cset-uuid $set --writeback -l home -C /dev/vda -B /dev/vdb
echo "/dev/ubcache/by-label/home /mnt/data ext4 noauto 0 0" >/etc/fstab
printf '[Service]\nStandardOutput=append:/mnt/host/daemon.log\n' >/etc/systemd/system/ubcache@.service.d/log.conf
cat >/etc/systemd/system/inside.service <<EOF
[Unit]
DefaultDependencies=no
Wants=systemd-udevd.service
After=systemd-udevd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$self inside
StandardOutput=append:/mnt/host/inside.log
StandardError=append:/mnt/host/inside.log
EOF
rm -f /etc/machine-id
echo aaaaaaaabbbbccccddddeeeeeeeeeeee >/etc/machine-id
# shellcheck disable=SC2016
env -i PATH="$PATH" container=lab timeout 240 unshare -fpmC --mount-proc /bin/bash -c '
    mkdir -p /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    mount -t tmpfs none /run
    exec /lib/systemd/systemd --system --unit=inside.service --log-target=console' \
    </dev/null >/mnt/host/systemd.log 2>&1 || true
modprobe loop
dumpe2fs -h "$(losetup -f --show -o 8192 /dev/vdb)" 2>/dev/null | grep state || true
