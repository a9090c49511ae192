"""The QEMU command line of a guest."""
import ctypes
import mmap
import os
import re
import time

from vm import kernel
from vm.kernel import LabError

_THROTTLE = {"iops": "iops-total", "iops_rd": "iops-read", "iops_wr": "iops-write",
             "bps": "bps-total", "bps_rd": "bps-read", "bps_wr": "bps-write"}
_GEOMETRY = {"lbs": "logical_block_size", "pbs": "physical_block_size", "io_opt": "opt_io_size",
             "io_min": "min_io_size", "queues": "num-queues"}
_OTHER = {"cache", "aio", "ro", "discard"}


def quote(text):
    return text.replace(",", ",,")  # in QEMU's option lists


def _size(text):
    found = re.fullmatch(r"(\d+)([kKmMgG]?)", text)
    if not found:
        raise LabError("not a size: " + text)
    return int(found.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30}[found.group(2).lower()]


def parse_disk(spec):
    """FILE[:SERIAL][:OPTION=VALUE,...] -> (path, serial, options)"""
    path, *parts = spec.split(":")
    serial, options = "", {}
    for part in parts:
        if "=" in part:
            options.update(pair.split("=", 1) for pair in part.split(","))
        else:
            serial = part
    if not os.path.exists(path):
        raise LabError("no such disk: " + path)
    if len(serial) > 20:
        raise LabError("a serial has at most 20 characters: " + serial)
    unknown = set(options) - set(_THROTTLE) - set(_GEOMETRY) - _OTHER
    if unknown:
        raise LabError("unknown disk options: " + " ".join(sorted(unknown)))
    return path, serial, options


def host_tsc_khz():
    """The rate of the host's time stamp counter, measured; 0 where that is not possible."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            if os.uname().machine != "x86_64" or "constant_tsc" not in file.read():
                return 0
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
        rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    except (OSError, ValueError, AttributeError):
        return 0

    def sample():  # the closest of a few readings, as another process may come between
        best = None
        for _ in range(20):
            before, count, after = time.monotonic_ns(), rdtsc(), time.monotonic_ns()
            if best is None or after - before < best[0]:
                best = (after - before, (before + after) // 2, count)
        return best[1:]

    rdtsc()
    first_time, first_count = sample()
    time.sleep(0.03)
    last_time, last_count = sample()
    return round((last_count - first_count) * 1000000 / (last_time - first_time))


def _disk_options(index, disk, suffix):
    path, serial, options = disk
    drive = "file=%s,if=none,id=d%d,format=raw,cache=%s,aio=%s,discard=%s,detect-zeroes=off" % (
        quote(path), index, options.get("cache", "writeback"), options.get("aio", "threads"),
        options.get("discard", "unmap"))
    if options.get("ro") in ("1", "on"):
        drive += ",readonly=on"
    device = "virtio-blk%s,drive=d%d" % (suffix, index)
    if serial:
        device += ",serial=" + quote(serial)
    for key, value in options.items():
        if key in _THROTTLE:
            drive += ",throttling.%s=%d" % (_THROTTLE[key], _size(value))
        elif key in _GEOMETRY:
            device += ",%s=%d" % (_GEOMETRY[key], _size(value))
    return ["-drive", drive], ["-device", device]


def _kernel_options(guest, khz):
    options = ["console=ttyS0", "ignore_loglevel" if guest.verbose else "quiet"]
    options += """panic=-1 mitigations=off random.trust_cpu=on rcupdate.rcu_expedited=1
        cryptomgr.notests nowatchdog nokaslr tsc=reliable no_timer_check 8250.nr_uarts=1 audit=0
        raid=noautodetect selinux=0 apparmor=0""".split()
    options.append("lab.dir=" + guest.run_dir)
    options.append("lab.modules=" + os.path.join(kernel.directory(guest.kernel), "lib/modules"))
    if guest.share:
        options.append("lab.share=1")
    if guest.accel == "tcg" and khz:  # the emulator passes the counter through: nothing to calibrate
        options += ["tsc_early_khz=%d" % khz, "lpj=%d" % (khz * 4)]
    return options + guest.append


def _file_system(tag, path, suffix, read_only):
    return ["-fsdev", "local,id=%s,path=%s,security_model=none,multidevs=remap%s" % (
                tag, quote(path), ",readonly=on" if read_only else ""),
            "-device", "virtio-9p%s,fsdev=%s,mount_tag=%s" % (suffix, tag, tag)]


def command(guest, ports):
    """The words that start `guest`; `ports` maps out, err and ctl to sockets."""
    khz = host_tsc_khz()
    machine = guest.machine
    if machine == "auto":
        machine = "microvm" if guest.accel == "tcg" and khz else "q35"
    suffix = "-device" if machine == "microvm" else "-pci"
    details = {
        "microvm": "microvm,pit=on,pic=on,rtc=on,isa-serial=on,usb=off,pcie=off,ioapic2=on",
        "q35": "q35,usb=off,vmport=off,sata=off,smbus=off,hpet=off",
    }.get(machine, machine)
    words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-m", guest.mem, "-smp", str(guest.cpus), "-name", "lab", "-M", details]
    if guest.accel == "kvm":
        words += ["-accel", "kvm", "-cpu", "host"]
    else:
        words += ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max"]
    home = kernel.directory(guest.kernel)
    words += ["-kernel", os.path.join(home, "vmlinux"), "-initrd", os.path.join(home, "initramfs"),
              "-append", " ".join(_kernel_options(guest, khz))]
    words += ["-chardev", "file,id=con,path=" + quote(os.path.join(guest.run_dir, "console")),
              "-serial", "chardev:con", "-device", "virtio-serial" + suffix]
    for name, port in ports.items():
        words += ["-chardev", "socket,id=%s,fd=%d" % (name, port.fileno()),
                  "-device", "virtserialport,chardev=%s,name=lab.%s" % (name, name)]
    words += _file_system("labroot", "/", suffix, True)
    words += _file_system("labctl", os.path.join(guest.run_dir, "ctl"), suffix, True)
    if guest.share:
        words += _file_system("labshare", guest.share, suffix, False)
    # Devices in the order of the disks, so that /dev/vdX are, too.
    disks = [_disk_options(i, disk, suffix) for i, disk in enumerate(guest.disks)]
    words += [word for drive, device in disks for word in drive + device]
    if guest.net:
        words += ["-netdev", "user,id=n0", "-device", "virtio-net%s,netdev=n0" % suffix]
    return words + guest.qemu
