"""Dependencies between the folders of src/ point to the left only, and includes obey them."""
import re

TIERS = ("base", "ondisk", "async io", "index journal alloc", "gc writeback policy", "core",
         "frontend admin", "sim")
RANK = {folder: rank for rank, tier in enumerate(TIERS) for folder in tier.split()}
ENGINE = {"index", "journal", "alloc", "gc", "writeback", "policy", "core"}
HEAVY = re.compile(r"^(?:CLI/|CLI11|nlohmann/json\.hpp|toml)")
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def parse_dependencies(cmake_text):
    """(folder, its direct dependencies, those of its tests) from a folder's CMakeLists.txt."""
    library = re.search(r"uc_library\(\s*(\w+)([^)]*)\)", cmake_text)
    if not library:
        return None
    tests = re.search(r"set\(\s*UC_TEST_DEPS_\w+([^)]*)\)", cmake_text)
    return (library.group(1), set(re.findall(r"\buc_(\w+)", library.group(2))),
            set(re.findall(r"\buc_(\w+)", tests.group(1))) if tests else set())


def closure(folder, direct, extra=()):
    seen = set()
    queue = [folder, *extra]
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue.extend(direct.get(name, ()))
    return seen


def check_graph(direct):
    """Problems of the dependency lines themselves."""
    for folder, targets in sorted(direct.items()):
        if folder not in RANK:
            yield folder, f"folder {folder} has no place in the order of layers"
            continue
        for target in sorted(targets):
            if RANK.get(target, 99) > RANK[folder]:
                yield folder, f"{folder} depends on {target}, which is to its right"
            if target != folder and folder in closure(target, direct):
                yield folder, f"{folder} and {target} depend on each other"


def check_includes(path, code, direct, test_direct):
    """`code` still has its include lines."""
    parts = path.split("/")
    header = path.endswith(".h")
    folder = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    for match in _INCLUDE.finditer(code):
        line = code.count("\n", 0, match.start(2)) + 1
        target = match.group(2)
        if header and HEAVY.match(target):
            yield line, f"<{target}> is heavy; include it in a .cc only"
        if folder is None:
            continue
        first = target.split("/")[0]
        if match.group(1) == '"' and first in RANK:
            extra = test_direct.get(folder, ()) if path.endswith("_test.cc") else ()
            if first not in closure(folder, direct, extra):
                yield line, f'{folder}/ may not include "{target}"'
        if folder in ENGINE and re.search(r"uring|ublk|fuse|nbd", target):
            yield line, f"the engine may not name {target}"
    if header and not re.search(r"^#pragma once$", code, re.M):
        yield 1, "no #pragma once"
