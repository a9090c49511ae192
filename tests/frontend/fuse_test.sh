#!/bin/sh
# The FUSE export with plain file access, loop devices and file systems.
. "$(dirname "$0")/lib.sh"

[ -c /dev/fuse ] || skip "no /dev/fuse"
[ "$(id -u)" = 0 ] || skip "mounting needs root here"
mnt=$work/mnt
mkdir "$mnt" "$work/fs"
serve --fuse "$mnt" disk=512 small=8

say "names, sizes, modes"
[ "$(ls "$mnt" | tr '\n' ' ')" = "disk small " ] || die "readdir"
[ "$(stat -c '%s %a %F' "$mnt/small")" = "8388608 600 regular file" ] || die "stat"
[ "$(findmnt -n -o SOURCE,FSTYPE "$mnt" | tr -s ' ')" = "ubcache fuse.ubcache" ] || die "fsname"
if truncate -s 1M "$mnt/small" 2>/dev/null; then die "truncate"; fi
truncate -s 8M "$mnt/small" && touch "$mnt/small" || die "no change"
[ ! -e "$mnt/none" ] || die "lookup"

say "aligned and unaligned writes"
random "$work/r" 8
dd if="$work/r" of="$mnt/small" bs=1M conv=notrunc,fsync status=none
same "$work/r" "$mnt/small"
for where in "1 1" "511 2" "777 10" "513 1023" "4095 3" "1000000 3"; do
    set -- $where
    dd if=/dev/urandom of="$work/piece" bs="$1" count=3 status=none
    for to in "$work/r" "$mnt/small"; do
        dd if="$work/piece" of="$to" bs="$1" seek="$2" conv=notrunc status=none
    done
done
same "$work/r" "$mnt/small"
dd if="$work/piece" of="$mnt/small" bs=4k count=1 oflag=direct,dsync conv=notrunc status=none
dd if="$work/piece" of="$work/r" bs=4k count=1 conv=notrunc status=none
same "$work/r" "$mnt/small"
tail -c 1000 "$mnt/small" >"$work/tail"
tail -c 1000 "$work/r" | cmp - "$work/tail" || die "end of file"
if printf x | dd of="$mnt/small" bs=1 seek=8388608 conv=notrunc status=none 2>/dev/null; then
    die "written beyond the end"
fi

say "concurrent unaligned writes lose nothing"
# Writer n owns the bytes of 100 at n * 100, so that most sectors have several writers.
pids=
for n in 0 1 2 3 4 5 6 7 8 9; do
    (
        i=$n
        while [ $i -lt 300 ]; do
            head -c 100 /dev/zero | tr '\0' "$n" |
                dd of="$mnt/small" bs=100 seek=$i count=1 conv=notrunc status=none
            i=$((i + 10))
        done
    ) &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || die "writer"; done
i=0
while [ $i -lt 300 ]; do
    head -c 100 /dev/zero | tr '\0' "$((i % 10))"
    i=$((i + 1))
done >"$work/expected"
head -c 30000 "$mnt/small" | cmp - "$work/expected" || die "lost update"

say "holes read as zeroes, neighbours stay"
dd if="$work/r" of="$mnt/small" bs=1M conv=notrunc status=none
for how in -p -z; do
    fallocate $how -o 1000 -l 100000 "$mnt/small"
    dd if=/dev/zero of="$work/r" bs=1000 seek=1 count=100 conv=notrunc status=none
    same "$work/r" "$mnt/small"
    fallocate $how -o 4194304 -l 65536 "$mnt/small"
    dd if=/dev/zero of="$work/r" bs=64k seek=64 count=1 conv=notrunc status=none
    same "$work/r" "$mnt/small"
    fallocate $how -o 200 -l 100 "$mnt/small"
    dd if=/dev/zero of="$work/r" bs=100 seek=2 count=1 conv=notrunc status=none
    same "$work/r" "$mnt/small"
done

if have fio; then
    say fio
    for engine in psync libaio; do
        fio --name=v --filename="$mnt/disk" --ioengine=$engine --direct=1 --rw=randwrite \
            --bs=4k --size=16M --iodepth=32 --verify=crc32c --verify_fatal=1 \
            >"$work/out" 2>&1 || { cat "$work/out"; die "fio $engine"; }
    done
fi

# file_system MKFS CHECK... : makes one on $target, fills, trims and checks it.
file_system() {
    "$@" "$target" >"$work/out" 2>&1 || { cat "$work/out"; die "$1"; }
    mount "$target" "$work/fs"
    cp -r /usr/include "$work/fs/"
    sync -f "$work/fs"
    fstrim "$work/fs" || die "fstrim"
    umount "$work/fs"
    mount "$target" "$work/fs"
    diff -r --no-dereference /usr/include "$work/fs/include" || die "contents"
    umount "$work/fs"
}
check_ext4() { e2fsck -fn "$1" >"$work/out" 2>&1 || { cat "$work/out"; die e2fsck; }; }
check_xfs() { xfs_repair -n "$1" >"$work/out" 2>&1 || { cat "$work/out"; die xfs_repair; }; }

say "file systems on the file"
mkfs.ext4 -q -F "$mnt/disk"
check_ext4 "$mnt/disk"
if have mkfs.xfs; then
    mkfs.xfs -q -f "$mnt/disk"
    check_xfs "$mnt/disk"
fi

for direct in on off; do
    loop=$(losetup -f --show --direct-io=$direct "$mnt/disk" 2>/dev/null) || {
        echo "skipped: no loop device"
        break
    }
    loops="$loops $loop"
    target=$loop
    say "ext4 on a loop device, direct-io=$direct"
    file_system mkfs.ext4 -q -F
    check_ext4 "$loop"
    if have mkfs.xfs; then
        say "xfs on a loop device, direct-io=$direct"
        file_system mkfs.xfs -q -f
        check_xfs "$loop"
    fi
    losetup -d "$loop"
done

say "a mount whose server was killed is taken over"
kill -9 "$server"
wait "$server" 2>/dev/null || true
server=
if ls "$mnt" 2>/dev/null; then die "the mount should be dead"; fi
serve --fuse "$mnt" disk=8
[ -f "$mnt/disk" ] || die "not taken over"
if "$SERVE" --fuse "$mnt" x=1 2>"$work/err"; then die "mounted twice"; fi
grep -q 'mounted there already' "$work/err" || die "message"

say "stop unmounts"
finish
if mountpoint -q "$mnt"; then die "still mounted"; fi
say ok
