#include "async/executor.h"

#include <utility>

#include "async/sync.h"
#include "async/task.h"
#include "base/check.h"

namespace uc::async {

void Waiter::wake() {
    executor->post(this);
}

Executor::~Executor() {
    drop_all();
}

void Executor::post(Waiter* waiter) {
    if (dropping_) return;
    ready_.push_back(waiter);
}

bool Executor::run_one() {
    if (ready_.empty()) return false;
    if (order_ != nullptr && ready_.size() > 1) {
        std::swap(ready_.front(), ready_[order_->below(ready_.size())]);
    }
    Waiter* const waiter = ready_.front();
    ready_.pop_front();
    waiter->handle.resume();
    return true;
}

void Executor::run_ready() {
    while (run_one()) {
    }
}

void Executor::spawn(Task<void> task, TaskGroup* group) {
    const std::coroutine_handle<Promise<void>> handle = task.release();
    PromiseBase& promise = handle.promise();
    promise.executor = this;
    promise.handle = handle;
    promise.is_root = true;
    promise.group = group;
    promise.root_next = roots_;
    if (roots_ != nullptr) roots_->root_prev = &promise;
    roots_ = &promise;
    post(&promise);
    if (dropping_) {
        unlink_root(&promise);
        handle.destroy();
    }
}

void Executor::unlink_root(PromiseBase* root) {
    if (root->root_prev != nullptr) root->root_prev->root_next = root->root_next;
    if (root->root_next != nullptr) root->root_next->root_prev = root->root_prev;
    if (roots_ == root) roots_ = root->root_next;
}

void Executor::drop_all() {
    dropping_ = true;
    ready_.clear();
    while (roots_ != nullptr) {
        PromiseBase* const root = roots_;
        unlink_root(root);
        root->handle.destroy();
    }
    dropping_ = false;
}

void PromiseBase::finish(PromiseBase& promise, std::coroutine_handle<> self) noexcept {
    if (promise.is_root) {
        TaskGroup* const group = promise.group;
        promise.executor->unlink_root(&promise);
        self.destroy();
        if (group != nullptr) group->ended();
        return;
    }
    if (promise.parent != nullptr) promise.parent->wake();
}

}  // namespace uc::async
