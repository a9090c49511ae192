// Exclusive locks on ranges of sectors, first come first served among those that overlap.
//
//   RangeLock::Hold hold(lock, from, to);
//   co_await hold.acquire();        // released when `hold` goes out of scope
#pragma once

#include <coroutine>
#include <cstdint>

#include "async/sync.h"
#include "async/task.h"

namespace uc::async {

class RangeLock {
public:
    class Hold : private WaitLink {
    public:
        // Takes its place in the queue at once: overlaps() sees it from now on.
        Hold(RangeLock& lock, std::uint64_t from, std::uint64_t to)
            : lock_(lock), from_(from), to_(to) {
            insert_before(lock.holds_);
            granted_ = lock.may_grant(*this);
        }
        ~Hold() {
            unlink();
            lock_.grant_waiters();
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;

        class Acquire {
        public:
            explicit Acquire(Hold& hold) : hold_(hold) {}
            bool await_ready() { return hold_.granted_; }
            template <class P>
            void await_suspend(std::coroutine_handle<P> self) {
                hold_.waiter_ = &self.promise();
            }
            void await_resume() {}

        private:
            Hold& hold_;
        };
        [[nodiscard]] Acquire acquire() { return Acquire(*this); }
        bool granted() const { return granted_; }

    private:
        friend class RangeLock;
        bool overlaps(std::uint64_t from, std::uint64_t to) const {
            return from_ < to && from < to_;
        }

        RangeLock& lock_;
        std::uint64_t from_, to_;
        bool granted_ = false;
        Waiter* waiter_ = nullptr;
    };

    // Somebody holds, or waits for, a part of [from, to).
    bool overlaps(std::uint64_t from, std::uint64_t to) const {
        for (const WaitLink* link = holds_.next; link != &holds_; link = link->next) {
            if (static_cast<const Hold*>(link)->overlaps(from, to)) return true;
        }
        return false;
    }
    bool idle() const { return !holds_.linked(); }

private:
    bool may_grant(const Hold& hold) const {
        for (const WaitLink* link = holds_.next; link != &hold; link = link->next) {
            if (static_cast<const Hold*>(link)->overlaps(hold.from_, hold.to_)) return false;
        }
        return true;
    }
    void grant_waiters() {
        for (WaitLink* link = holds_.next; link != &holds_; link = link->next) {
            Hold& hold = *static_cast<Hold*>(link);
            if (hold.granted_ || !may_grant(hold)) continue;
            hold.granted_ = true;
            if (hold.waiter_ != nullptr) hold.waiter_->wake();
        }
    }

    WaitLink holds_;
};

}  // namespace uc::async
