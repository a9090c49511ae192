"""The cases: what sets look like, who works on them in which mode, and how each side ends."""
import dataclasses

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    mode: str = "writeback"
    block: int = 512
    bucket: int = 64 << 10
    buckets: int = 640           # the kernel wants more than 512
    backings: int = 1
    backing_size: int = 16 * MIB
    flash_size: int = 0          # of a flash-only volume
    data_offset: int = 16        # sectors
    style: str = "mixed"         # of the first writes
    writes: int = 400            # operations on each volume in the first leg
    clean: bool = False          # write back before the kernel gets it
    attach: str = "make"         # made as one set, or attached by: serve, command
    front: str = "nbd"
    host_end: str = "stop"       # or kill: SIGKILL with writes under way
    guest_end: str = "stop"      # or kill: the whole machine, while the last set of its group works
    detach: str = "host"         # who writes back and separates in the end: host or guest
    guest_modes: tuple = ()      # cache modes that the kernel goes through; empty: as it is
    guest_writes: int = 150
    kernel: str = "6.12"
    depth: int = 0               # the index has at least this many levels above the leaves


ALL_MODES = ("writethrough", "writeback", "none", "writeback", "writearound", "writeback")

QUICK = (Case("quick", host_end="kill", writes=300, guest_writes=80, detach="guest",
              backing_size=8 * MIB),)

FULL = (
    # Every mode, dirty and clean.
    Case("writeback dirty"),
    Case("writeback clean", clean=True, detach="guest"),
    Case("writethrough", mode="writethrough", detach="guest"),
    Case("writearound", mode="writearound", host_end="kill"),
    Case("mode none", mode="none", detach="guest"),
    Case("mixed modes", guest_modes=ALL_MODES, host_end="kill"),
    # Geometry.
    Case("blocks of 4096", block=4096, host_end="kill"),
    Case("blocks of 4096 in buckets of 512K", block=4096, bucket=512 << 10, detach="guest"),
    Case("buckets of 512K", bucket=512 << 10, host_end="kill", guest_modes=ALL_MODES),
    Case("buckets of 2M", bucket=2 * MIB, host_end="kill", detach="guest"),
    Case("buckets of 2M with blocks of 4096", bucket=2 * MIB, block=4096, mode="writethrough"),
    Case("data offset 2048", data_offset=2048, host_end="kill", detach="guest"),
    # Volumes.
    Case("three backing devices", backings=3, host_end="kill"),
    Case("three backing devices and a flash-only volume", backings=3, flash_size=6 * MIB,
         bucket=512 << 10, guest_modes=ALL_MODES),
    Case("flash-only volume", flash_size=12 * MIB, host_end="kill"),
    Case("attached at the start", attach="serve", data_offset=64),
    Case("attached while running", backings=2, attach="command", host_end="kill", detach="guest"),
    Case("written as files", front="fuse", detach="guest"),
    # A deep index, and a cache smaller than what goes through it.
    Case("deep index", style="scattered", writes=7000, backing_size=24 * MIB, depth=1),
    Case("deep index after a kill", style="scattered", writes=7000, backing_size=24 * MIB, depth=1,
         host_end="kill", detach="guest"),
    Case("small cache", backing_size=96 * MIB, writes=1500, guest_modes=ALL_MODES),
    # The kernel dies, too.
    Case("killed kernel", guest_end="kill", host_end="kill"),
    Case("killed kernel with three backing devices", backings=3, guest_end="kill", bucket=512 << 10),
    Case("killed kernel in mixed modes", guest_end="kill", guest_modes=ALL_MODES, detach="guest"),
    Case("killed kernel with a flash-only volume", flash_size=8 * MIB, guest_end="kill",
         block=4096, detach="guest"),
    Case("killed kernel at work", guest_end="kill", host_end="kill", guest_writes=1500),
    # An older kernel.
    Case("6.1 writeback dirty", kernel="6.1", host_end="kill"),
    Case("6.1 mixed modes with three backing devices", kernel="6.1", backings=3, flash_size=6 * MIB,
         guest_modes=ALL_MODES, detach="guest"),
    Case("6.1 deep index in blocks of 4096", kernel="6.1", style="scattered", writes=5000, block=4096,
         backing_size=48 * MIB, depth=1),
    Case("6.1 killed kernel", kernel="6.1", guest_end="kill", bucket=512 << 10, host_end="kill"),
)
