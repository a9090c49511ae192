#!/bin/sh
# The NBD server against other people's clients: nbdinfo, nbdcopy, qemu-img, qemu-io, fio.
. "$(dirname "$0")/lib.sh"

socket=$work/socket
uri="nbd+unix:///?socket=$socket"
big="nbd+unix:///big?socket=$socket"
used=0
serve --unix "$socket" --tcp 0 small=16 big=64
tcp=${ready##* }
random "$work/small" 16
random "$work/big" 64

if have nbdinfo; then
    say nbdinfo
    used=1
    nbdinfo "$uri" >"$work/info"
    grep -q 'export-size: 16777216' "$work/info" || die "size"
    for what in can_flush can_fua can_trim can_zero can_df can_multi_conn can_fast_zero; do
        grep -q "$what: true" "$work/info" || die "$what"
    done
    grep -q 'block_size_minimum: 4096' "$work/info" || die "block size"
    [ "$(nbdinfo --list "$uri" 2>/dev/null | grep -c 'export=')" = 2 ] || die "list"
    nbdinfo "$tcp/big" | grep -q 'export-size: 67108864' || die "tcp"
    if nbdinfo "nbd+unix:///none?socket=$socket" 2>/dev/null; then die "unknown export"; fi
fi

if have nbdcopy; then
    say nbdcopy
    used=1
    nbdcopy --flush "$work/big" "$big"
    nbdcopy "$big" "$work/back"
    same "$work/big" "$work/back"
    nbdcopy "$tcp/big" "$work/back"
    same "$work/big" "$work/back"
    nbdcopy --synchronous "$work/small" "$uri"
    nbdcopy "$uri" "$work/back"
    same "$work/small" "$work/back"
fi

if have qemu-img; then
    say qemu-img
    used=1
    qemu-img convert -n -f raw -O raw "$work/big" "$big"
    qemu-img compare -f raw -F raw "$work/big" "$big" >/dev/null
    truncate -s 64M "$work/sparse"
    dd if=/dev/urandom of="$work/sparse" bs=64k seek=100 count=3 conv=notrunc status=none
    qemu-img convert -n -f raw -O raw "$work/sparse" "$big"
    qemu-img compare -f raw -F raw "$work/sparse" "$big" >/dev/null
    qemu-img convert -f raw -O raw "$big" "$work/back"
    same "$work/sparse" "$work/back"
fi

if have qemu-io; then
    say qemu-io
    used=1
    qemu-io -f raw "$big" >"$work/out" 2>&1 \
        -c "aio_write -P 0x11 0 1M" -c "aio_write -P 0x22 1M 1M" -c "aio_write -P 0x33 2M 512" \
        -c "aio_flush" \
        -c "aio_read -P 0x11 0 1M" -c "aio_read -P 0x22 1M 1M" -c "aio_read -P 0x33 2M 512" \
        -c "aio_flush" \
        -c "write -z 512k 1M" -c "read -P 0 512k 1M" -c "read -P 0x11 0 512k" \
        -c "read -P 0x22 1536k 512k" \
        -c "write -f -P 0x44 0 4k" -c "read -P 0x44 0 4k" \
        -c "write -z -u 4M 32M" -c "read -P 0 4M 32M" \
        -c "discard 8M 8M" -c "flush" \
        -c "write -P 0x55 3M 77" -c "read -P 0x55 3M 77" || die "qemu-io"
    if grep -E 'failed|rror' "$work/out"; then die "qemu-io"; fi
fi

if have fio && fio --enghelp 2>/dev/null | grep -q nbd; then
    say fio
    used=1
    fio --name=verify --ioengine=nbd --uri="$big" --rw=randwrite --bsrange=4k-128k --bs_unaligned=0 \
        --blockalign=4k --size=32M --iodepth=32 --verify=crc32c --verify_fatal=1 \
        >"$work/out" 2>&1 || { cat "$work/out"; die "fio"; }
fi

finish
[ ! -e "$socket" ] || die "the socket was left behind"
[ $used = 1 ] || skip "no NBD client is installed"
say ok
