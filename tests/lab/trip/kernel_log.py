"""Lines of the kernel's log that mean damage: a set that it takes only with a complaint is a failure."""
import re

_BAD = re.compile(r"bcache.*(error|inconsist|bad|corrupt|missing|spotted|stale|invalid|fail|too small"
                  r"|couldn't|can't|cannot|unsupported|unknown|ignoring|no memory)"
                  r"|BUG|WARNING|Oops|blocked for more", re.I)
_FINE = re.compile(r"error_limit|Command line")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # may spell "bad"


def complaints(lines):
    def is_one(line):
        return _BAD.search(_UUID.sub("", line)) and not _FINE.search(line)
    return [line for line in lines if is_one(line)]
