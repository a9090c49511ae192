"""C++ text made easy to match: comments and literals blanked, brackets matched. Lines keep their numbers."""
import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'",
    re.S,
)


def _blank(match):
    text = match.group(0)
    kept = re.sub(r"[^\n]", " ", text)
    if text.startswith("/"):
        return kept
    return text[0] + kept[1:-1] + text[-1]  # literals keep their quotes


def strip(text):
    """Without comments, the content of literals and preprocessor lines (#include and #pragma stay)."""
    code = _TOKEN.sub(_blank, text)
    lines = code.split("\n")
    original = text.split("\n")
    inside = False
    for i, line in enumerate(lines):
        begins = re.match(r"\s*#\s*(\w*)", line) is not None
        if inside or begins:
            inside = line.rstrip().endswith("\\")
            lines[i] = original[i] if re.match(r"\s*#\s*(?:include|pragma)\b", line) else ""
    return "\n".join(lines)


def without_includes(code):
    return re.sub(r"^[ \t]*#.*$", "", code, flags=re.M)


def line_of(code, position):
    return code.count("\n", 0, position) + 1


def matching(code, position):
    """Position of the bracket that closes the one at `position`; the end if there is none."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    closers = set(pairs.values())
    depth = 0
    for i in range(position, len(code)):
        if code[i] in pairs:
            depth += 1
        elif code[i] in closers:
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


def statements(code):
    """(position, text, terminator) of each piece between ; { } outside parentheses."""
    depth = 0
    begin = 0
    for i, c in enumerate(code):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth = max(depth - 1, 0)
        elif c in ";{}" and depth == 0:
            piece = code[begin:i]
            lead = len(piece) - len(piece.lstrip())
            if piece.strip():
                yield begin + lead, piece.strip(), c
            begin = i + 1


_SCOPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:class|struct|union|enum|namespace|extern)\b", re.S)


def functions(code):
    """(begin, open brace, close brace) of each function body, the outermost ones."""
    end_of_last = 0
    for position, text, terminator in statements(code):
        if terminator != "{" or position < end_of_last:
            continue
        text = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", text)
        if _SCOPE.match(text) or "(" not in text:
            continue
        brace = code.index("{", position + len(text) - 1) if code[position] != "{" else position
        close = matching(code, brace)
        yield position, brace, close
        end_of_last = close


def lambdas(code):
    """(position, captures, body begin, body end) of each lambda."""
    for match in re.finditer(r"\[", code):
        at = match.start()
        before = code[:at].rstrip()
        if code[at + 1 : at + 2] == "[" or before.endswith("["):
            continue  # attribute
        if before and (before[-1].isalnum() or before[-1] in "_)]>\"") and not re.search(
            r"\b(?:return|co_return|co_await|co_yield|case)$", before
        ):
            continue  # subscript or array
        close = matching(code, at)
        rest = re.match(r"\s*(?:<[^>]*>)?\s*(\(|\{|mutable|->|noexcept)", code[close + 1 :])
        if not rest:
            continue
        scan = close + 1
        while scan < len(code) and code[scan] not in "{;":
            scan = matching(code, scan) + 1 if code[scan] == "(" else scan + 1
        if scan >= len(code) or code[scan] != "{":
            continue
        yield at, code[at + 1 : close].strip(), scan, matching(code, scan)
