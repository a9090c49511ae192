"""Good and bad snippets for each rule."""
from lintrules import coroutines, layers, source, text

GOOD_COROUTINES = (
    "Task<void> f() { co_await g(); }",
    "Task<int> f() { const int x = co_await g(1, h(2)); co_return x; }",
    "Task<int> f() { const Result<std::vector<int>> x = co_await a.b->g(p[3]); co_return x; }",
    "Task<R> f() { if (x) co_return co_await g(); co_return co_await h(); }",
    "Task<R> f() { if (x) { CO_TRY(const int y, co_await g()); } co_return 1; }",
    "Task<R> f() { CO_TRY(Map<int, int> y, co_await g(a, b)); CO_OK(co_await h()); co_return 1; }",
    "Task<R> f() { while (x) { co_await g(); } }",
    "Task<R> f() { switch (x) { case Kind::a: co_await g(); break; default: co_return; } }",
    "Task<R> f() { auto* p = co_await g(); for (int i = 0; i < 2; ++i) co_await h(i); }",
    "#define CO_TRY(decl, expr) \\\n  auto tmp = (expr); \\\n  if (!tmp) co_return co_await (expr)\n",
    "// if (co_await f()) in a comment\nint x;",
    'const char* s = "if (co_await f()) {}";',
    "void f() { run([](int x) -> Task<void> { co_await g(x); }); }",
    "void f() { sort([&](int a, int b) { return a < b; }); }",
    "bool await_suspend(std::coroutine_handle<P> parent) { return false; }",
    "void f() { g({1, 2}); h(x, {3}); }",
    "[[nodiscard]] Task<int> f();",
    "int f() { std::array<char, 4096> page; return use(page); }",
)
BAD_COROUTINES = (
    "Task<R> f() { if (co_await g()) x(); }",
    "Task<R> f() { if (co_await g()) { x(); } }",
    "Task<R> f() { while (!co_await g()) {} }",
    "Task<R> f() { for (int i = 0; co_await g(); ++i) {} }",
    "Task<R> f() { switch (co_await g()) { default: break; } }",
    "Task<R> f() { const int x = a ? co_await g() : 1; }",
    "Task<R> f() { const int x = co_await g() ? 2 : 1; }",
    "Task<R> f() { const bool x = co_await g() && y; }",
    "Task<R> f() { h(co_await g()); }",
    "Task<R> f() { int x = 0; x = co_await g(); }",
    "Task<R> f() { const int x = co_await g() + 1; }",
    "Task<R> f() { const int x = (co_await g()).value; }",
    "Task<R> f() { const int x = co_await g(co_await h()); }",
    "Task<R> f() { co_await g(Key{1, 2}); }",
    "Task<R> f() { co_await g({1, 2}); }",
    "Task<R> f() { co_await Sleep{1}; }",
    "Task<R> f() { co_await g([](int x) { return x; }); }",
    "Task<R> f() { co_await g([&] { x = 1; }); }",
    "Task<R> f() { return co_await g(); }",
    "Task<R> f() { const int x = ({ co_await g(); }); }",
    "Task<R> f() { int y = TRY2(({ auto t = g(); t; })); }",
    "Task<R> f() { if (x) CO_OK(co_await g()); co_return 1; }",
    "Task<R> f() { if (x) CO_TRY(const int y, co_await g()); }",
    "Result<int> f() { for (;;) TRY(const int y, g()); }",
    "std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) { return h; }",
    "auto await_suspend(std::coroutine_handle<P> h) { return h; }",
    "void f() { auto t = [this]() -> Task<void> { co_await g(); }; }",
    "void f() { run([&] (int x) -> Task<void> { co_return; }); }",
    "void f() { run([](int x) -> Task<void> { if (co_await g(x)) h(); }); }",
    "Task<R> f() { std::array<char, 4096> page; co_await g(page); }",
)

CMAKE = {"base": set(), "ondisk": {"base"}, "async": {"base"}, "io": {"async"},
         "index": {"io", "ondisk"}, "core": {"index"}, "sim": {"core"}, "admin": {"core"}}
GOOD_INCLUDES = (
    ("src/core/a.cc", '#include "io/clock.h"\n#include "core/b.h"\n'),
    ("src/core/a_test.cc", '#include "sim/disk.h"\n'),
    ("src/core/a.h", "#pragma once\n#include <vector>\n"),
    ("src/admin/a.cc", "#include <nlohmann/json.hpp>\n#include <CLI/CLI.hpp>\n"),
    ("src/io/a.cc", '#include "io/uring_reactor.h"\n#include <liburing.h>\n'),
    ("apps/ubcache/main.cc", '#include "sim/disk.h"\n'),
)
BAD_INCLUDES = (
    ("src/ondisk/a.cc", '#include "io/clock.h"\n'),
    ("src/ondisk/a.cc", '#include "async/task.h"\n'),
    ("src/core/a.cc", '#include "sim/disk.h"\n'),
    ("src/core/a.cc", '#include "io/uring_reactor.h"\n'),
    ("src/index/a.cc", '#include "core/volume.h"\n'),
    ("src/admin/a.h", "#pragma once\n#include <nlohmann/json.hpp>\n"),
    ("apps/ubcache/a.h", "#pragma once\n#include <CLI/CLI.hpp>\n"),
    ("src/core/a.h", "#include <vector>\n"),
)
GOOD_GRAPH = (CMAKE, {"io": {"async", "io"}, "async": set()})
BAD_GRAPH = ({"base": {"core"}, "core": set()}, {"gc": {"writeback"}, "writeback": {"gc"}},
             {"somewhere": set()})

GOOD_NAMES = ("src/core/read_path.cc", "src/base/simple.h", "tools/lint", "docs/operations.md")
BAD_NAMES = ("src/core/utils.h", "src/common/a.h", "src/core/cache_manager.cc", "src/io/disk_impl.cc",
             "src/misc/x.cc", "tests/test_helpers.h")

GOOD_WORDS = ("see /etc/fstab and /dev/sdb", "/run/ubcache.sock", "https://docs.kernel.org", "11.3",
              "the session ends", "autoworks/path", "todos are fine")
BAD_WORDS = ("// TO" "DO: later", "FIX" "ME", "cd /ho" "me/me/src", "in /wo" "rk/main",
             "deb.deb" "ian.org", "see is" "sue 12", "fixes is" "sue #7")

GOOD_CHANCE = (("src/core/a.cc", "auto x = rng.random(); operand(2); Instant now = clock.now();"),
               ("src/io/a.cc", "auto t = std::chrono::steady_clock::now();"),
               ("src/core/a.cc", "// std::chrono::system_clock\nconst auto time = x.time(0);"))
BAD_CHANCE = (("src/core/a.cc", "int x = rand();"), ("src/core/a.cc", "srand(1);"),
              ("src/core/a.cc", "std::random_device d;"),
              ("src/core/a.cc", "auto t = std::chrono::steady_clock::now();"),
              ("src/gc/a.cc", "auto t = time(nullptr);"),
              ("src/sim/a.cc", "auto t = std::chrono::system_clock::now();"))


def _function(lines, head="int f(int a)"):
    return head + " {\n" + "    g();\n" * (lines - 2) + "}\n"


GOOD_FUNCTIONS = (
    _function(70),
    "namespace uc {\n" + _function(60) + _function(60) + "}  // namespace uc\n",
    "class A {\npublic:\n" + _function(40) + _function(40) + "};\n",
    "constexpr int k[] = {\n" + "    1,\n" * 90 + "};\n",
)
BAD_FUNCTIONS = (
    _function(71),
    "namespace uc {\nnamespace {\n" + _function(71) + "}\n}\n",
    "class A {\npublic:\n" + _function(71) + "};\n",
    _function(80, "TEST(Suite, DoesThis)"),
    _function(80, "A::A(int x) : x_(x), y_(2)"),
)


def run():
    wrong = []

    def expect(rule, sample, found, bad):
        if bool(list(found)) != bad:
            wrong.append(f"{rule}: {'accepted' if bad else 'rejected'}: {sample}")

    def group(rule, good, bad, check):
        for sample in good:
            expect(rule, sample, check(sample), False)
        for sample in bad:
            expect(rule, sample, check(sample), True)
        return len(good) + len(bad)

    stripped = source.strip
    tests = {"core": {"sim"}}
    count = group("coroutines", GOOD_COROUTINES, BAD_COROUTINES, lambda s: coroutines.check(stripped(s)))
    count += group("includes", GOOD_INCLUDES, BAD_INCLUDES,
                   lambda s: layers.check_includes(s[0], stripped(s[1]), CMAKE, tests))
    count += group("graph", GOOD_GRAPH, BAD_GRAPH, layers.check_graph)
    count += group("names", GOOD_NAMES, BAD_NAMES, text.check_name)
    count += group("words", GOOD_WORDS, BAD_WORDS, lambda s: text.check_words("a.cc", s))
    count += group("chance", GOOD_CHANCE, BAD_CHANCE,
                   lambda s: text.check_determinism(s[0], stripped(s[1])))
    count += group("functions", GOOD_FUNCTIONS, BAD_FUNCTIONS, lambda s: text.check_functions(stripped(s)))
    numbered = "// a\n\n#include <a>\n\n/* b\n c */\nT f() {\n    if (co_await g()) h();\n}\n"
    count += group("line numbers", (), (numbered,),
                   lambda s: [p for p in coroutines.check(stripped(s)) if p[0] == 8])
    count += group("size", ("x\n" * 500,), ("x\n" * 501,), text.check_size)
    for line in wrong:
        print(f"lint self-test: {line}")
    print(f"lint self-test: {count} snippets, {len(wrong)} wrong")
    return 1 if wrong else 0
