"""The initial file system: mounts the host's root read-only under a tmpfs, then runs one script.

It is busybox, the modules that this takes, and two scripts: `init` runs in the archive, `init2` in the
guest's final root. The guest talks over three virtio ports: the script's output, its errors, and a control
line ("boot", then "rc STATUS").
"""
import os
import re
import subprocess

# Needed before the root is there; one that is missing is built in.
BOOT_MODULES = "virtio_mmio virtio_pci virtio_console virtio_blk 9pnet_virtio 9p overlay".split()

INIT = r"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
fail() { $b echo "lab: $*"; $b reboot -f; }
while read -r m; do
  $b insmod /mod/$m 2>/mod.err || $b echo "lab: insmod $m: $($b cat /mod.err)"
done </mod/list
o=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $o,ro,cache=loose labroot /lower || fail "cannot mount the host's root"
$b mount -t tmpfs -o size=75%,mode=755 tmpfs /ov
$b mkdir -p /ov/u/mnt/host /ov/u/run /ov/u/proc /ov/u/sys /ov/u/dev /ov/w
$b mount -t overlay -o lowerdir=/lower,upperdir=/ov/u,workdir=/ov/w overlay /new ||
  fail "cannot mount the overlay"
for d in dev proc sys; do $b mount --move /$d /new/$d; done
$b mount -t tmpfs -o mode=755 tmpfs /new/run
$b cp $b /init2 /new/run/
exec $b switch_root /new /run/init2
"""

INIT2 = r"""#!/run/busybox sh
b=/run/busybox
fail() { $b echo "lab: $*"; $b reboot -f; }
dir=; modules=; share=
for w in $($b cat /proc/cmdline); do case $w in
  lab.dir=*) dir=${w#lab.dir=} ;;
  lab.modules=*) modules=${w#lab.modules=} ;;
  lab.share=1) share=1 ;;
esac; done
$b mkdir -p /dev/pts /dev/shm
$b mount -t devpts devpts /dev/pts
$b mount -t tmpfs -o mode=1777 tmpfs /dev/shm
$b mkdir -p /run/lock "$dir"
$b mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
$b ln -sf /proc/self/fd /dev/fd
$b ln -sf fd/0 /dev/stdin; $b ln -sf fd/1 /dev/stdout; $b ln -sf fd/2 /dev/stderr
$b mkdir -p /lib/modules
[ -z "$modules" ] || $b mount --bind "$modules" /lib/modules || fail "no modules at $modules"
o=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $o,ro labctl "$dir" || fail "cannot mount the control folder"
[ -z "$share" ] || $b mount -t 9p -o $o,cache=mmap labshare /mnt/host ||
  fail "cannot mount the shared folder"
$b ip link set lo up
for p in /sys/class/virtio-ports/*; do
  [ -e "$p/name" ] || continue
  read -r n <"$p/name"
  case $n in
    lab.out) out=/dev/${p##*/} ;;
    lab.err) err=/dev/${p##*/} ;;
    lab.ctl) ctl=/dev/${p##*/} ;;
  esac
done
[ -c "$out" ] && [ -c "$err" ] && [ -c "$ctl" ] || fail "no virtio ports"
$b mkdir -p /dev/disk/by-id
for d in /sys/block/vd*; do
  [ -e "$d/serial" ] || continue
  s=; read -r s <"$d/serial" || :
  [ -z "$s" ] || $b ln -s ../../${d##*/} "/dev/disk/by-id/virtio-$s"
done
exec 9>"$ctl"
$b echo boot >&9
$b mkfifo /run/o /run/e
$b cat /run/o >"$out" & co=$!
$b cat /run/e >"$err" & ce=$!
$b setsid $b sh "$dir/cmd" </dev/null >/run/o 2>/run/e 9>&-
rc=$?
# What the script left running may hold the streams open: one second for them.
i=0
while [ $i -lt 10 ] && { $b kill -0 $co || $b kill -0 $ce; } 2>/dev/null; do
  $b usleep 100000; i=$((i+1))
done
$b sync
$b echo "rc $rc" >&9
$b usleep 100000
$b poweroff -f
"""


def _module_order(moddir, wanted):
    """The paths of the wanted modules, each behind those it needs."""
    needs = {}
    with open(os.path.join(moddir, "modules.dep"), encoding="utf-8") as file:
        for line in file:
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
    by_name = {re.sub(r"\.ko(\.\w+)?$", "", os.path.basename(p)).replace("-", "_"): p for p in needs}
    order = []

    def add(path):
        if path not in order:
            for need in reversed(needs[path]):
                add(need)
            order.append(path)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return order


def _read_module(path):
    if path.endswith(".xz"):
        return subprocess.run(["xz", "-dc", path], check=True, stdout=subprocess.PIPE).stdout
    with open(path, "rb") as file:
        return file.read()


def _cpio(entries):
    """(name, mode, data[, (major, minor)]) entries as an archive in the "newc" format."""
    out = bytearray()
    for inode, entry in enumerate(list(entries) + [("TRAILER!!!", 0, b"")]):
        name, mode, data = entry[0].encode() + b"\0", entry[1], entry[2]
        major, minor = entry[3] if len(entry) > 3 else (0, 0)
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % value for value in fields) + name
        out += b"\0" * (-len(out) % 4)
        out += data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def build(moddir, out):
    """Writes the archive for the kernel whose modules are in `moddir`."""
    entries = [(d, 0o40755, b"") for d in ("bin", "dev", "proc", "sys", "mod", "lower", "ov", "new")]
    entries.append(("dev/console", 0o20600, b"", (5, 1)))
    with open("/bin/busybox", "rb") as file:
        entries.append(("bin/busybox", 0o100755, file.read()))
    names = []
    for module in _module_order(moddir, BOOT_MODULES):
        names.append(re.sub(r"\.xz$", "", os.path.basename(module)))
        entries.append(("mod/" + names[-1], 0o100644, _read_module(os.path.join(moddir, module))))
    entries.append(("mod/list", 0o100644, "".join(n + "\n" for n in names).encode()))
    entries.append(("init", 0o100755, INIT.encode()))
    entries.append(("init2", 0o100755, INIT2.encode()))
    with open(out + ".tmp", "wb") as file:
        file.write(_cpio(entries))
    os.rename(out + ".tmp", out)
