// Somebody may remove the file of a unix socket (a cleaner of /run or /tmp, a mistaken rm). Those
// who are connected do not notice, but nobody else finds the server any more. So now and then the
// file is looked at, and bound anew if it is not ours any more. The old listener is shut, which
// ends its pending accept; only then its descriptor may be closed and the new one take its place.
#include "frontend/lasting_listener.h"

#include <utility>

#include "io/timed_wait.h"

namespace uc::frontend {

LastingListener::LastingListener(io::UringReactor& reactor, NbdListener listener, std::string what,
                                 Log log)
    : reactor_(reactor),
      listener_(std::move(listener)),
      what_(std::move(what)),
      log_(std::move(log)) {}

Task<Result<std::size_t>> LastingListener::accept() {
    for (;;) {
        const Result<std::size_t> accepted = co_await reactor_.accept(listener_.fd());
        if (accepted || !successor_) co_return accepted;
        std::swap(listener_, *successor_);
        successor_.reset();
    }
}

Task<void> LastingListener::watch() {
    constexpr Duration kInterval = std::chrono::seconds(2);
    while (!shut_ && !listener_.is_tcp()) {
        co_await io::TimedWait(reactor_, shut_asked_, kInterval);
        look();
    }
}

void LastingListener::look() {
    if (shut_ || successor_) return;
    if (listener_.in_place()) {
        lost_ = false;
        return;
    }
    const std::string& path = listener_.path();
    Result<NbdListener> fresh = listener_.anew();
    if (fresh) {
        log_(path + ": the " + what_ + " was removed by somebody; it is there again");
        lost_ = false;
        successor_ = std::move(*fresh);
        listener_.shut();
    } else if (!lost_) {
        lost_ = true;  // tried again in silence
        log_(path + ": the " + what_ + " was removed or replaced by somebody, and cannot be made " +
             "anew yet: " + fresh.error().what);
    }
}

void LastingListener::shut() {
    if (std::exchange(shut_, true)) return;
    shut_asked_.notify();
    listener_.shut();
    successor_.reset();
}

}  // namespace uc::frontend
