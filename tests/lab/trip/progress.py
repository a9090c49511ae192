"""What a run says while it goes on."""
import time

LEGS = 5


class Progress:
    def __init__(self, cases=0, extra=0):
        self.begin = time.monotonic()
        self.total = cases * LEGS + extra
        self.done = 0
        self.passed = self.failed = self.skipped = 0

    def expect(self, steps):
        """That many more than known so far."""
        self.total += steps

    def step(self, text, weight=1):
        self.done += weight
        spent = time.monotonic() - self.begin
        left = spent / self.done * max(0, self.total - self.done)
        print("[%3d%%, %3.0f s, about %3.0f s left] %s" % (
            100 * min(1, self.done / self.total), spent, left, text), flush=True)

    def result(self, name, failure=None):
        if failure:
            self.failed += 1
            print("FAILED: %s: %s" % (name, failure), flush=True)
        else:
            self.passed += 1
            print("passed: %s" % name, flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print("skipped: %s: %s" % (name, why), flush=True)
