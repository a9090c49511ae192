"""Fetches a stock Debian kernel and lays it out so that QEMU starts it quickly.

The kernel package is downloaded, not installed. The ELF inside its bzImage is started directly (PVH), as
unpacking under emulation takes seconds; modules are kept uncompressed for the same reason.
"""
import os
import re
import shutil
import struct
import subprocess
import sys

from vm import initramfs

CACHE = os.environ.get("LAB_CACHE", "/var/tmp/ubcache-lab")
VERSION = "1"  # another one makes `setup` build again what it keeps

PACKAGES = "qemu-system-x86 busybox-static kmod xz-utils zstd".split()
# name -> package that depends on the kernel image
KERNELS = {"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}
DEFAULT_KERNEL = os.environ.get("LAB_KERNEL", "6.12")

UNPACK = tuple("kernel/" + path for path in """drivers/md drivers/block drivers/virtio drivers/char
    drivers/net/virtio_net drivers/net/net_failover net/9p net/core fs/9p fs/netfs fs/fscache
    fs/overlayfs fs/ext4 fs/jbd2 fs/mbcache lib crypto arch""".split())


class LabError(Exception):
    """The lab itself cannot do it: no packages, no kernel, no boot."""


def say(message):
    print("lab: " + message, file=sys.stderr, flush=True)


def _quiet(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)


def missing_packages():
    out = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         check=False).stdout
    have = {line.split()[0] for line in out.splitlines() if line.endswith(" installed")}
    return [name for name in PACKAGES if name not in have]


def install(names):
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    say("installing " + " ".join(names))
    for attempt in (0, 1):
        result = _quiet("apt-get", "-q", "-o", "DPkg::Lock::Timeout=600", "install", "-y",
                        "--no-install-recommends", *names, env=env)
        if result.returncode == 0:
            return
        if attempt == 0:
            _quiet("apt-get", "-q", "update", env=env)
    raise LabError("apt-get install failed\n" + result.stdout[-4000:])


def _image_package(meta):
    for attempt in (0, 1):
        found = re.search(r"Depends: (linux-image-\S+)", _quiet("apt-cache", "depends", meta).stdout)
        if found:
            return found.group(1)
        if attempt == 0:
            _quiet("apt-get", "-q", "update")
    raise LabError("the package lists name no " + meta)


def _extract_vmlinux(bzimage, out):
    with open(bzimage, "rb") as file:
        data = file.read()
    sectors = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    begin = (sectors + 1) * 512 + offset
    payload = data[begin:begin + length]
    tools = {b"\xfd7zX": ["xz", "-dc", "--single-stream"], b"\x28\xb5\x2f\xfd": ["zstd", "-dc"],
             b"\x1f\x8b\x08\x00": ["gzip", "-dc"]}
    if payload[:4] not in tools:
        raise LabError("unknown compression of " + bzimage)
    # The last 4 bytes are the size, not data.
    result = subprocess.run(tools[payload[:4]], input=payload[:-4], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    if result.stdout[:4] != b"\x7fELF":
        raise LabError("cannot unpack %s: %s" % (bzimage, result.stderr.decode()))
    with open(out, "wb") as file:
        file.write(result.stdout)


def directory(name):
    return os.path.join(CACHE, "kernel-" + name)


def stamp(name):
    """(version of the lab, kernel release, package) of what is set up, or None."""
    try:
        with open(os.path.join(directory(name), "stamp"), encoding="utf-8") as file:
            words = file.read().split()
        return words if len(words) == 3 else None
    except OSError:
        return None


def ready(name):
    found = stamp(name)
    return bool(found) and found[0] == VERSION


def _download(package, into):
    shutil.rmtree(into, ignore_errors=True)
    os.makedirs(into)
    result = _quiet("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package, cwd=into)
    archives = [name for name in os.listdir(into) if name.endswith(".deb")]
    if result.returncode or len(archives) != 1:
        raise LabError("cannot download %s\n%s" % (package, result.stdout[-2000:]))
    archive = os.path.join(into, archives[0])
    subprocess.run(["dpkg", "-x", archive, into], check=True)
    os.unlink(archive)


def _unpack_modules(top):
    packed = []
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".ko.xz") and os.path.relpath(path, top).startswith(UNPACK):
                packed.append(path)
    if packed:
        subprocess.run(["xargs", "-0", "-n32", "-P", str(os.cpu_count() or 1), "xz", "-d"],
                       input="\0".join(packed).encode(), check=True)


def setup(name, force=False):
    """Makes kernel `name` ready and returns its release."""
    missing = missing_packages()
    needs_root = missing or force or not ready(name)
    if needs_root and os.geteuid() != 0:
        raise LabError("kernel %s is not set up: run 'tests/lab/lab setup' as root" % name)
    if missing:
        install(missing)
    if ready(name) and not force:
        return stamp(name)[1]
    os.makedirs(CACHE, exist_ok=True)
    final = directory(name)
    if stamp(name) and not force:  # the same kernel for a newer lab
        _, release, package = stamp(name)
    else:
        package = _image_package(KERNELS[name])
        say("kernel %s: unpacking %s" % (name, package))
        part = final + ".part"
        _download(package, part)
        release = os.listdir(os.path.join(part, "lib/modules"))[0]
        _unpack_modules(os.path.join(part, "lib/modules", release))
        subprocess.run(["depmod", "-b", part, release], check=True)
        _extract_vmlinux(os.path.join(part, "boot/vmlinuz-" + release), os.path.join(part, "vmlinux"))
        shutil.rmtree(final, ignore_errors=True)
        os.rename(part, final)
    initramfs.build(os.path.join(final, "lib/modules", release), os.path.join(final, "initramfs"))
    with open(os.path.join(final, "stamp"), "w", encoding="utf-8") as file:
        file.write("%s %s %s\n" % (VERSION, release, package))
    return release
