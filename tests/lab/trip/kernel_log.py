"""Lines of the kernel's log that mean damage: a set that it takes only with a complaint is a failure."""
import re

_BAD = re.compile(r"bcache.*(error|inconsist|bad|corrupt|missing|spotted|stale|invalid|fail|too small"
                  r"|couldn't|can't|cannot|unsupported|unknown|ignoring|no memory)"
                  r"|BUG|WARNING|Oops|blocked for more", re.I)
_FINE = re.compile(r"error_limit|Command line")


def complaints(lines):
    return [line for line in lines if _BAD.search(line) and not _FINE.search(line)]
