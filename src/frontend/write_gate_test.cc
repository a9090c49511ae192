#include "frontend/write_gate.h"

#include <gtest/gtest.h>

#include <string>

#include "async/executor.h"

namespace uc::frontend {
namespace {

Task<void> pass(WriteGate& gate, async::Event& go, std::string& log, char name, bool alone) {
    if (alone) {
        co_await gate.enter_alone();
    } else {
        co_await gate.enter();
    }
    const WriteGate::Guard guard(gate);
    log += name;
    co_await go.wait();
    log += static_cast<char>(name - 'a' + 'A');
}

struct Gate : testing::Test {
    async::Executor executor;
    WriteGate gate;
    async::Event go;
    std::string log;

    void start(char name, bool alone) {
        executor.spawn(pass(gate, go, log, name, alone));
        executor.run_ready();
    }
    void let_go() {
        go.notify();
        executor.run_ready();
    }
};

TEST_F(Gate, WholeSectorWritesRunSideBySide) {
    start('a', false);
    start('b', false);
    EXPECT_EQ(log, "ab");
}

TEST_F(Gate, OneAloneWaitsForAllAndKeepsLaterOnesOut) {
    start('a', false);
    start('x', true);
    start('b', false);
    EXPECT_EQ(log, "a");
    let_go();
    EXPECT_EQ(log, "aAx");
    let_go();
    EXPECT_EQ(log, "aAxXb");
    let_go();
    EXPECT_EQ(log, "aAxXbB");
}

TEST_F(Gate, TwoAloneRunOneAfterTheOther) {
    start('x', true);
    start('y', true);
    EXPECT_EQ(log, "x");
    let_go();
    EXPECT_EQ(log, "xXy");
    let_go();
    EXPECT_EQ(log, "xXyY");
}

}  // namespace
}  // namespace uc::frontend
