# Shared by the scripts of this folder: a scratch directory, the server, skipping, comparing.
# Usage: . lib.sh   with SERVE = path of serve_memory
set -eu

work=$(mktemp -d /tmp/ubcache-frontend.XXXXXX)
server=
loops=

end() {
    status=$?
    trap - EXIT
    if mountpoint -q "$work/fs" 2>/dev/null; then umount -l "$work/fs"; fi
    for loop in $loops; do losetup -d "$loop" 2>/dev/null || true; done
    if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server" 2>/dev/null || true; fi
    if mountpoint -q "$work/mnt" 2>/dev/null; then umount -l "$work/mnt"; fi
    rm -rf "$work"
    exit $status
}
trap end EXIT
trap 'exit 1' INT TERM HUP

skip() {
    echo "skipped: $*"
    exit 77
}
have() { command -v "$1" >/dev/null 2>&1; }
say() { echo "== $*"; }
die() {
    echo "FAILED: $*" >&2
    exit 1
}

# serve ARGUMENTS: starts the server and waits until clients may come.
serve() {
    mkfifo "$work/ready"
    "$SERVE" "$@" >"$work/ready" &
    server=$!
    read -r ready <"$work/ready" || die "the server did not start"
    rm "$work/ready"
    echo "$ready"
}
# Ends the server in order and checks that it ends well.
finish() {
    kill "$server"
    wait "$server" || die "the server failed"
    server=
}
same() { cmp "$1" "$2" || die "$1 and $2 differ"; }
# random FILE MIB
random() { dd if=/dev/urandom of="$1" bs=1M count="$2" status=none; }
