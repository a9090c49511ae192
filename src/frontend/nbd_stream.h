// The byte stream of one NBD connection: reads ahead in large pieces, sends many pieces at once.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <coroutine>
#include <cstddef>
#include <span>

#include "async/task.h"
#include "base/result.h"
#include "io/buffer.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

// One sendmsg(2) through the ring. Gives the number of bytes sent, which may be short.
class SendMessage final : public io::UringOp {
public:
    SendMessage(io::UringReactor& reactor, int fd, const msghdr& message)
        : reactor_(reactor), message_(message), fd_(fd) {}
    SendMessage(const SendMessage&) = delete;
    SendMessage& operator=(const SendMessage&) = delete;

    bool await_ready() { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> self) {
        waiter_ = &self.promise();
        start();
    }
    Result<std::size_t> await_resume() const;
    void complete(int result) override;

private:
    void start();

    io::UringReactor& reactor_;
    const msghdr& message_;
    async::Waiter* waiter_ = nullptr;
    int fd_;
    int result_ = 0;
};

class NbdStream {
public:
    static constexpr std::size_t kReadAhead = std::size_t{256} << 10;

    // Owns the socket.
    NbdStream(io::UringReactor& reactor, int fd);
    ~NbdStream();
    NbdStream(const NbdStream&) = delete;
    NbdStream& operator=(const NbdStream&) = delete;

    // Waits until at least `bytes` (<= kReadAhead) are there. Errc::gone at the end of the stream.
    Task<Result<void>> need(std::size_t bytes);
    std::size_t available() const { return end_ - begin_; }
    // The next bytes; valid until the next need() or read().
    template <std::size_t n>
    std::span<const std::byte, n> peek() const {
        return std::span<const std::byte, n>(in_.data() + begin_, n);
    }
    std::span<const std::byte> peek(std::size_t bytes) const {
        return {in_.data() + begin_, bytes};
    }
    void consume(std::size_t bytes) { begin_ += bytes; }
    // Moves the next out.size() bytes to `out`; what has not arrived yet is received in place.
    Task<Result<void>> read(std::span<std::byte> out);

    Task<Result<void>> send(std::span<const std::byte> bytes);
    // Sends all pieces; changes the array.
    Task<Result<void>> send_pieces(iovec* pieces, std::size_t count);

    // Pending and later reads find the end of the stream after what has arrived; sending goes on.
    void shut_reading();
    // Ends both directions at once.
    void shut();

private:
    io::UringReactor& reactor_;
    int fd_;
    io::Buffer in_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace uc::frontend
