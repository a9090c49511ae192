"""Forms of co_await that g++ 12 compiles right; everything else is rejected.

    co_await f();    T x = co_await f();    co_return co_await f();
    CO_TRY(decl, co_await f());    CO_OK(co_await f());

One per statement, without braces or a lambda in it, never in a condition.
"""
import re

from lintrules import source

_AWAIT = re.compile(r"\bco_await\b")
_HEADER = re.compile(r"^(?:else\b\s*)?(?:if\s*(?:constexpr\s*)?|while\s*|for\s*|switch\s*)(?=\()|^else\b\s*|^do\b\s*")
_LABEL = re.compile(r"^(?:case\b[^?]*?(?<!:):(?!:)|default\s*:|(?:public|private|protected)\s*:)\s*")
_ALLOWED = (
    re.compile(r"^co_await\s+(?P<call>.+)$", re.S),
    re.compile(r"^co_return\s+co_await\s+(?P<call>.+)$", re.S),
    re.compile(r"^(?:const\s+|static\s+)*[A-Za-z_][\w:]*(?:\s*<[^=()]*>)?(?:::\w+)*[\s&*]+(?:const\s+)?\w+\s*=\s*co_await\s+(?P<call>.+)$", re.S),
    re.compile(r"^CO_OK\s*\(\s*co_await\s+(?P<call>.+)\)$", re.S),
    re.compile(r"^CO_TRY\s*\([^()]*,\s*co_await\s+(?P<call>.+)\)$", re.S),
)
_MACRO = re.compile(r"^(?:CO_TRY|CO_OK|TRY|TRY_OK)\s*\(")


def _without_headers(text):
    """The statement after leading if (...), else, labels; and the headers."""
    headers = []
    while True:
        label = _LABEL.match(text)
        if label:
            text = text[label.end() :].lstrip()
            continue
        header = _HEADER.match(text)
        if not header:
            return text, headers
        end = header.end()
        if text[end : end + 1] == "(":
            end = source.matching(text, end) + 1
        headers.append(text[:end])
        text = text[end:].lstrip()


def _await_problem(text, terminator):
    body, headers = _without_headers(text)
    if any(_AWAIT.search(header) for header in headers):
        return "co_await in a condition; name the value first"
    if len(_AWAIT.findall(body)) > 1:
        return "two co_await in one statement"
    if terminator == "{" or "{" in body:
        return "braces in a statement with co_await; name the value first"
    if next(source.lambdas(body + ";"), None) or re.search(r"[(,=]\s*\[[^\]]*\]\s*[({]", body):
        return "lambda in a statement with co_await; name it first"
    if "?" in body or re.search(r"&&|\|\|", body):
        return "co_await in an expression; only f() may stand beside it"
    for form in _ALLOWED:
        match = form.match(body)
        if match and _is_call(match.group("call")):
            return None
    return "co_await in a form that is not allowed"


def _is_call(text):
    """True for name(...), a.b->c(...), f<T>(...)[i] and the like: nothing that is computed with the result."""
    text = text.strip()
    if not re.match(r"[A-Za-z_:]", text):
        return False
    at = 0
    while at < len(text):
        name = re.match(r"\s*(?:::|\.|->)?\s*[A-Za-z_]\w*\s*(?:<[^()=;]*>(?=\s*[(:]))?\s*", text[at:])
        if name and (at == 0 or re.match(r"\s*(?:::|\.|->)", text[at:])):
            at += name.end()
        elif at > 0 and text[at] in "([":
            at = source.matching(text, at) + 1
            at += len(text[at:]) - len(text[at:].lstrip())
        else:
            return False
    return True


def awaits(code):
    for position, text, terminator in source.statements(code):
        if not _AWAIT.search(text):
            continue
        # A lambda passed as an argument has its own statements inside the parentheses.
        inner = [l for l in source.lambdas(text) if _AWAIT.search(text[l[2] : l[3]])]
        if inner:
            outer = text
            for at, _, begin, end in reversed(inner):
                for line, problem in awaits(text[begin + 1 : end]):
                    yield source.line_of(code, position + begin + 1) + line - 1, problem
                outer = outer[:at] + "L" + outer[end + 1 :]
            if not _AWAIT.search(outer):
                continue
            yield source.line_of(code, position), "lambda in a statement with co_await; name it first"
            continue
        problem = _await_problem(text, terminator)
        if problem:
            at = _AWAIT.search(text).start()
            yield source.line_of(code, position + at), problem


def bare_macros(code):
    """TRY and its kin are several statements, so not the body of an if."""
    for position, text, _ in source.statements(code):
        body, headers = _without_headers(text)
        if headers and _MACRO.match(body):
            yield source.line_of(code, position), "TRY macro as the body of a condition; use braces"


def other_forms(code):
    for match in re.finditer(r"\(\s*\{", code):
        before = code[: match.start()].rstrip()
        # f({1, 2}) is a call with an initialiser; ({ after anything else is a statement expression.
        if not before or not re.search(r"[\w>\])]$", before) or re.search(r"\breturn$", before):
            yield source.line_of(code, match.start()), "statement expression"
    for match in re.finditer(r"coroutine_handle\s*<[^;{}]*>\s+await_suspend\b", code):
        yield source.line_of(code, match.start()), "symmetric transfer"
    for match in re.finditer(r"\bauto\s+await_suspend\b|\bawait_suspend\s*\([^)]*\)[^;{]*->\s*[\w:]*coroutine_handle", code):
        yield source.line_of(code, match.start()), "await_suspend must return void or bool, and say so"
    for position, captures, begin, end in source.lambdas(code):
        if captures and re.search(r"\bco_(?:await|return|yield)\b", _own_text(code, begin, end)):
            yield source.line_of(code, position), "coroutine lambda with captures"


def _own_text(code, begin, end):
    """The body of a lambda without the lambdas inside it."""
    text = code[begin + 1 : end]
    for at, _, _, close in reversed(list(source.lambdas(text))):
        text = text[:at] + " " * (close - at) + text[close:]
    return text


def big_locals(code):
    for _, brace, close in source.functions(code):
        body = code[brace:close]
        if not re.search(r"\bco_(?:await|return)\b", body):
            continue
        for match in re.finditer(r"(?<=[;{}])\s*(?:const\s+)?std::array\s*<[^;=(){}]*>\s+\w+\s*(?=[;={])", body):
            at = brace + match.end()
            yield source.line_of(code, at), "array as a local of a coroutine; take a buffer from a pool"


def check(code):
    code = source.without_includes(code)
    for rule in (awaits, bare_macros, other_forms, big_locals):
        yield from rule(code)
