#include "frontend/nbd_stream.h"

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uc::frontend {

void SendMessage::start() {
    io_uring_sqe* const sqe = reactor_.prepare(this);
    io_uring_prep_sendmsg(sqe, fd_, &message_, MSG_NOSIGNAL | MSG_WAITALL);
}

void SendMessage::complete(int result) {
    result_ = result;
    waiter_->wake();
}

Result<std::size_t> SendMessage::await_resume() const {
    if (result_ < 0) return fail(Errc::io, "sendmsg", -result_);
    return static_cast<std::size_t>(result_);
}

NbdStream::NbdStream(io::UringReactor& reactor, int fd)
    : reactor_(reactor), fd_(fd), in_(kReadAhead) {}

NbdStream::~NbdStream() {
    ::close(fd_);
}

Task<Result<void>> NbdStream::need(std::size_t bytes) {
    CHECK(bytes <= kReadAhead);
    while (available() < bytes) {
        if (begin_ == end_) {
            begin_ = end_ = 0;
        } else if (kReadAhead - begin_ < bytes) {
            std::memmove(in_.data(), in_.data() + begin_, available());
            end_ -= begin_;
            begin_ = 0;
        }
        const std::span<std::byte> room = in_.span().subspan(end_);
        CO_TRY(const std::size_t got, co_await reactor_.recv(fd_, room));
        if (got == 0) co_return fail(Errc::gone, "client disconnected");
        end_ += got;
    }
    co_return Result<void>();
}

Task<Result<void>> NbdStream::read(std::span<std::byte> out) {
    const std::size_t here = std::min(available(), out.size());
    std::memcpy(out.data(), in_.data() + begin_, here);
    consume(here);
    std::span<std::byte> rest = out.subspan(here);
    while (!rest.empty()) {
        // The tail of a payload usually has requests behind it: take both with one call.
        if (rest.size() < kReadAhead / 4) {
            CO_OK(co_await need(rest.size()));
            std::memcpy(rest.data(), in_.data() + begin_, rest.size());
            consume(rest.size());
            co_return Result<void>();
        }
        CO_TRY(const std::size_t got, co_await reactor_.recv(fd_, rest));
        if (got == 0) co_return fail(Errc::gone, "client disconnected");
        rest = rest.subspan(got);
    }
    co_return Result<void>();
}

Task<Result<void>> NbdStream::send(std::span<const std::byte> bytes) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    co_return co_await send_pieces(&piece, 1);
}

Task<Result<void>> NbdStream::send_pieces(iovec* pieces, std::size_t count) {
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    while (message.msg_iovlen > 0) {
        CO_TRY(std::size_t sent, co_await SendMessage(reactor_, fd_, message));
        if (sent == 0) co_return fail(Errc::gone, "nothing could be sent");
        while (message.msg_iovlen > 0 && sent >= message.msg_iov->iov_len) {
            sent -= message.msg_iov->iov_len;
            ++message.msg_iov;
            --message.msg_iovlen;
        }
        if (sent > 0) {
            message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + sent;
            message.msg_iov->iov_len -= sent;
        }
    }
    co_return Result<void>();
}

void NbdStream::shut_reading() {
    ::shutdown(fd_, SHUT_RD);
}

void NbdStream::shut() {
    ::shutdown(fd_, SHUT_RDWR);
}

}  // namespace uc::frontend
