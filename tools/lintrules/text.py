"""Names, sizes, sources of chance, and words that do not belong in the tree."""
import re

from lintrules import source

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
NO_NOUN = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "impl"}

_CHANCE = re.compile(r"(?<![\w.>])(?:std::)?(?:s?rand|random|drand48)\s*\(|\brandom_device\b")
_CLOCK = re.compile(
    r"\bstd::chrono::(?:system|steady|high_resolution)_clock\b"
    r"|\b(?:clock_gettime|gettimeofday)\s*\(|(?<![\w.>])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0)\s*\)")
# Outside the engine; programs tell people how long something takes.
_CLOCK_ALLOWED = ("src/io/", "src/admin/", "apps/", "bench/")

# Written so that these lines do not match themselves.
_LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
_PLACES = "|".join(("home", "root", "work", "workspace", "builds", "Users"))
_FOREIGN = (
    (re.compile(r"(?<![\w.}$)])/(?:" + _PLACES + r")/[\w.-]"), "path of one machine"),
    (re.compile(r"\b(?:deb|security|snapshot)\.debian\.org|\bregistry\.npmjs|\bpypi\.org|\bcrates\.io\b"),
     "host of a package registry"),
    (re.compile(r"\b(?:is" r"sue|ses" r"sion|ticket) #?\d+\b", re.I), "number of a tracker"),
)


def check_name(path):
    for part in path.split("/"):
        for word in part.split(".")[0].split("_"):
            if word.lower() in NO_NOUN:
                yield 1, f'"{word}" is no name: say what it is about'


def check_words(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if _LEFTOVER.search(line):
            yield number, "leftover: do it or drop it"
        for pattern, what in _FOREIGN:
            if pattern.search(line):
                yield number, what


def check_size(text):
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield MAX_FILE_LINES, f"file of {lines} lines; split it by concept (limit {MAX_FILE_LINES})"


def check_functions(code):
    code = source.without_includes(code)
    for begin, _, close in source.functions(code):
        lines = source.line_of(code, close) - source.line_of(code, begin) + 1
        if lines > MAX_FUNCTION_LINES:
            yield source.line_of(code, begin), f"function of {lines} lines (limit {MAX_FUNCTION_LINES})"


def check_determinism(path, code):
    code = source.without_includes(code)
    for match in _CHANCE.finditer(code):
        yield source.line_of(code, match.start()), "randomness from outside; take an Rng"
    if path.startswith(_CLOCK_ALLOWED):
        return
    for match in _CLOCK.finditer(code):
        yield source.line_of(code, match.start()), "time from outside; take a Clock"
