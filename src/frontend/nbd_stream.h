// The byte stream of one NBD connection: reads ahead in large pieces, sends many pieces at once.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>

#include "async/task.h"
#include "base/result.h"
#include "io/buffer.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

// One sendmsg(2) or recvmsg(2): at once if the socket is ready, else through the ring. Gives the
// number of bytes, which may be short.
class Transfer final : public io::UringOp {
public:
    enum class Way : std::uint8_t { send, receive };
    // `message` and what it names live until the end of the wait.
    Transfer(io::UringReactor& reactor, Way way, int fd, msghdr& message)
        : reactor_(reactor), message_(message), fd_(fd), way_(way) {}
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    bool await_ready();
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
    msghdr& message_;
    async::Waiter* waiter_ = nullptr;
    int fd_;
    int result_ = 0;
    Way way_;
};

class NbdStream {
public:
    static constexpr std::size_t kReadAhead = std::size_t{256} << 10;
    // A payload from this size on is received where it belongs; smaller ones are cheaper to copy
    // out of what was read ahead.
    static constexpr std::size_t kInPlace = std::size_t{32} << 10;

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
    // Moves the next out.size() bytes to `out`. `next` is the size of what the stream goes on with.
    Task<Result<void>> read(std::span<std::byte> out, std::size_t next);

    Task<Result<void>> send(std::span<const std::byte> bytes);
    // Sends all pieces; changes them.
    Task<Result<void>> send_pieces(std::span<iovec> pieces);
    // Sends what the socket takes at once; changes the pieces, returns those that are left. An
    // error shows at the next send_pieces().
    std::span<iovec> send_some(std::span<iovec> pieces);

    // Pending and later reads find the end of the stream after what has arrived; sending goes on.
    void shut_reading();
    // Ends both directions at once.
    void shut();

private:
    std::span<std::byte> room_for(std::size_t bytes);
    void take_arrived(std::size_t bytes);

    io::UringReactor& reactor_;
    int fd_;
    io::Buffer in_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace uc::frontend
