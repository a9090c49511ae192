#!/bin/bash
# In the guest: ubcache's own block devices (ublk). usage: block_device.sh UBCACHE
# Sets are on image files in the guest's memory; what ends with "stay" outlives its daemon.
set -euo pipefail
UBCACHE=$1
cd "$(mktemp -d)"
modprobe loop

step() { echo "step: $*"; }

image() { truncate -s "$2" "$1"; }

# serve NAME CACHE BACKING...: in the background; returns when it is ready.
serve() {
    local name=$1 cache=$2
    shift 2
    "$UBCACHE" serve --cache "$cache" --backing "$@" --ublk --control "$name.sock" >"$name.log" 2>&1 &
    echo $! >"$name.pid"
    for _ in $(seq 600); do
        grep -q ^ready "$name.log" && return
        kill -0 "$(cat "$name.pid")" 2>/dev/null || break
        sleep 0.1
    done
    cat "$name.log" >&2
    return 1
}

stop() {
    "$UBCACHE" stop --control "$1.sock" >/dev/null
    wait "$(cat "$1.pid")"
}

die() {
    kill -9 "$(cat "$1.pid")"
    wait "$(cat "$1.pid")" 2>/dev/null || true
}

make_set() {  # NAME LABEL [OPTION...]
    image "$1.ssd" 96M
    image "$1.disk" 400M
    "$UBCACHE" make -C "$1.ssd" -B "$1.disk" --writeback -l "$2" "${@:3}" >/dev/null
}

gone() { [ -z "$(ls /dev | grep -E '^ublk[bc][0-9]')" ]; }

by_label() { readlink -f "/dev/ubcache/by-label/$1"; }

step "limits and names"
make_set a home -w 4k
serve a a.ssd a.disk
device=$(by_label home)
[ "$device" = "$(readlink -f /dev/ubcache/by-uuid/*)" ]
queue=/sys/block/${device##*/}/queue
[ "$(cat $queue/logical_block_size)" = 4096 ]
[ "$(cat $queue/fua) $(cat $queue/write_cache)" = "1 write back" ]
[ "$(cat $queue/discard_granularity)" = 4096 ]
[ "$(cat $queue/write_zeroes_max_bytes)" -gt 0 ]
"$UBCACHE" status --control a.sock | grep -q "block device  $device"

step "fio verify, all sizes, trim"
fio --name=v --filename="$device" --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --size=128M \
    --io_size=24M --bsrange=4k-1m --blockalign=4k --verify=crc32c --do_verify=1 --randseed=1 \
    --verify_fatal=1 --minimal >fio.log || { cat fio.log >&2; exit 1; }
blkdiscard -o 0 -l 64M "$device"
blkdiscard -z -o 16M -l 8M "$device"
cmp -n 8388608 -i 16777216:0 "$device" /dev/zero

step "ext4 under a killed daemon"
mkfs.ext4 -q "$device"
mkdir mnt
mount "$device" mnt
head -c 20000000 /dev/urandom >mnt/before
sync
sha1sum mnt/before >sums
for round in 1 2 3; do
    head -c 6000000 /dev/urandom >"mnt/during$round" &
    writer=$!
    sleep 0.3
    die a
    (cd mnt && touch "held$round" && sync) &
    syncer=$!
    sleep 0.5
    kill -0 $syncer  # it waits
    serve a a.ssd a.disk
    wait $writer $syncer
    sha1sum "mnt/during$round" >>sums
done
grep -q "goes on where a daemon before left it" a.log
echo 3 >/proc/sys/vm/drop_caches
sha1sum --quiet -c sums

step "stop while in use, then go on"
stop a
grep -q "is in use and stays" a.log
[ -b "$device" ]
serve a a.ssd a.disk
[ "$(by_label home)" = "$device" ]
echo 3 >/proc/sys/vm/drop_caches
sha1sum --quiet -c sums
umount mnt
e2fsck -fn "$device" >/dev/null 2>&1
stop a
gone

step "the wrong size is refused, and keeps what waits"
serve a a.ssd a.disk
mount "$device" mnt
die a
cp a.disk a.kept
"$UBCACHE" serve --cache a.ssd --backing a.disk --control b.sock --nbd unix:b.nbd >b.log 2>&1 &
other=$!
until grep -q ^ready b.log; do sleep 0.1; done
[ -b "$device" ]  # served otherwise meanwhile: it still waits
kill $other
wait $other
serve a a.ssd a.disk
sha1sum --quiet -c sums
umount mnt
stop a
gone

step "XFS, and a volume that comes later"
make_set x first -w 512
serve x x.ssd x.disk
mkfs.xfs -q -f "$(by_label first)" >/dev/null
mount "$(by_label first)" mnt
cp -r /usr/share/perl5 mnt/ 2>/dev/null || cp /usr/bin/bash mnt/
fstrim mnt
"$UBCACHE" create-volume 16M --label late --control x.sock >/dev/null
for _ in $(seq 100); do [ -b "$(by_label late)" ] && break; sleep 0.1; done
dd if=/dev/urandom of="$(by_label late)" bs=1M count=8 oflag=direct status=none
umount mnt
xfs_repair -n "$(by_label first)" >/dev/null 2>&1
stop x
gone

step "RAID of block devices, and a block device on a RAID"
modprobe raid1
for name in r1 r2; do
    make_set $name $name -w 4k
    serve $name $name.ssd $name.disk
done
mdadm --create /dev/md0 --run --quiet --level=1 --metadata=1.2 --raid-devices=2 "$(by_label r1)" "$(by_label r2)"
image up.ssd 96M
"$UBCACHE" make -C up.ssd -B /dev/md0 --writeback -l up -w 4k >/dev/null
serve up up.ssd /dev/md0  # a cache on a RAID of caches
mkfs.ext4 -q "$(by_label up)"
mount "$(by_label up)" mnt
head -c 10000000 /dev/urandom >mnt/file
sync
sha1sum mnt/file >sums
die r1
sleep 0.3
serve r1 r1.ssd r1.disk
echo 3 >/proc/sys/vm/drop_caches
sha1sum --quiet -c sums
umount mnt
e2fsck -fn "$(by_label up)" >/dev/null 2>&1
"$UBCACHE" detach up --control up.sock >/dev/null 2>&1
stop up
mdadm --stop --quiet /dev/md0
stop r1
stop r2
gone

if dmesg | grep -E 'EXT4-fs.*error|XFS.*([Cc]orrupt|[Ee]rror)|I/O error|BUG:|WARNING: CPU|blocked for more'; then
    exit 1
fi
echo "all steps passed"
