// First in, first out, in one block of memory that only grows: unlike std::deque it does not
// allocate while it moves.
#pragma once

#include <cstddef>
#include <vector>

namespace uc::async {

struct Waiter;

class ReadyQueue {
public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    // `i` counts from the front.
    Waiter*& operator[](std::size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }
    Waiter*& front() { return ring_[head_]; }

    void push_back(Waiter* waiter) {
        if (size_ == ring_.size()) grow();
        ++size_;
        (*this)[size_ - 1] = waiter;
    }
    void pop_front() {
        head_ = (head_ + 1) & (ring_.size() - 1);
        --size_;
    }
    void clear() { size_ = 0; }

private:
    void grow() {
        std::vector<Waiter*> larger(ring_.size() * 2);
        for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
        ring_.swap(larger);
        head_ = 0;
    }

    std::vector<Waiter*> ring_ = std::vector<Waiter*>(64);  // a power of two
    std::size_t head_ = 0;
    std::size_t size_ = 0;
};

}  // namespace uc::async
