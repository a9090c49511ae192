#include "async/frame_pool.h"

#include <new>

namespace uc::async {

namespace {

constexpr std::size_t kGranule = 64;
constexpr std::size_t kClasses = 32;  // up to 2 KiB; larger frames use the heap

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPooling = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kPooling = false;
#else
constexpr bool kPooling = true;
#endif
#else
constexpr bool kPooling = true;
#endif

struct FreeFrame {
    FreeFrame* next;
};

struct Pool {
    FreeFrame* heads[kClasses] = {};
    ~Pool() {
        for (FreeFrame*& head : heads) {
            while (head != nullptr) {
                FreeFrame* const frame = head;
                head = frame->next;
                ::operator delete(frame);
            }
        }
    }
};

thread_local Pool pool;

}  // namespace

void* allocate_frame(std::size_t bytes) {
    const std::size_t size_class = (bytes + kGranule - 1) / kGranule;
    if (!kPooling || size_class >= kClasses) return ::operator new(bytes);
    FreeFrame*& head = pool.heads[size_class];
    if (head == nullptr) return ::operator new(size_class* kGranule);
    FreeFrame* const frame = head;
    head = frame->next;
    return frame;
}

void free_frame(void* frame, std::size_t bytes) {
    const std::size_t size_class = (bytes + kGranule - 1) / kGranule;
    if (!kPooling || size_class >= kClasses) {
        ::operator delete(frame);
        return;
    }
    FreeFrame* const head = static_cast<FreeFrame*>(frame);
    head->next = pool.heads[size_class];
    pool.heads[size_class] = head;
}

}  // namespace uc::async
