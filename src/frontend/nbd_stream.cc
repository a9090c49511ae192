#include "frontend/nbd_stream.h"

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace uc::frontend {

namespace {

// Without the first `bytes`.
std::span<iovec> rest_of(std::span<iovec> pieces, std::size_t bytes) {
    while (!pieces.empty() && bytes >= pieces.front().iov_len) {
        bytes -= pieces.front().iov_len;
        pieces = pieces.subspan(1);
    }
    if (bytes > 0) {
        pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + bytes;
        pieces.front().iov_len -= bytes;
    }
    return pieces;
}

}  // namespace

bool Transfer::await_ready() {
    const ssize_t done = way_ == Way::send ? ::sendmsg(fd_, &message_, MSG_NOSIGNAL | MSG_DONTWAIT)
                                           : ::recvmsg(fd_, &message_, MSG_DONTWAIT);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    result_ = done < 0 ? -errno : static_cast<int>(done);
    return true;
}

void Transfer::start() {
    io_uring_sqe* const sqe = reactor_.prepare(this);
    if (way_ == Way::send) {
        io_uring_prep_sendmsg(sqe, fd_, &message_, MSG_NOSIGNAL | MSG_WAITALL);
    } else {
        io_uring_prep_recvmsg(sqe, fd_, &message_, 0);
    }
}

void Transfer::complete(int result) {
    result_ = result;
    waiter_->wake();
}

Result<std::size_t> Transfer::await_resume() const {
    if (result_ < 0) return fail(Errc::io, "operation on a socket failed", -result_);
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
        const std::span<std::byte> room = room_for(bytes);
        CO_TRY(const std::size_t got, co_await reactor_.recv(fd_, room));
        if (got == 0) co_return fail(Errc::gone, "client disconnected");
        end_ += got;
    }
    co_return Result<void>();
}

std::span<std::byte> NbdStream::room_for(std::size_t bytes) {
    if (begin_ == end_) {
        begin_ = end_ = 0;
    } else if (kReadAhead - begin_ < bytes) {
        std::memmove(in_.data(), in_.data() + begin_, available());
        end_ -= begin_;
        begin_ = 0;
    }
    return in_.span().subspan(end_);
}

// An end or an error of the stream shows at the next need().
void NbdStream::take_arrived(std::size_t bytes) {
    const std::span<std::byte> room = room_for(bytes);
    const ssize_t got = ::recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
    if (got > 0) end_ += static_cast<std::size_t>(got);
}

Task<Result<void>> NbdStream::read(std::span<std::byte> out, std::size_t next) {
    const std::size_t here = std::min(available(), out.size());
    std::memcpy(out.data(), in_.data() + begin_, here);
    consume(here);
    const std::span<std::byte> rest = out.subspan(here);
    if (rest.empty()) co_return Result<void>();
    if (rest.size() < kInPlace) {
        // Clients send header and payload separately, so it has just arrived or is about to.
        take_arrived(rest.size());
        CO_OK(co_await need(rest.size()));
        std::memcpy(rest.data(), in_.data() + begin_, rest.size());
        consume(rest.size());
        co_return Result<void>();
    }
    // All that was read ahead is used up. Only the next header comes along: if its payload did,
    // too, that would have to be copied.
    iovec pieces[2];
    pieces[0] = {rest.data(), rest.size()};
    pieces[1] = {in_.data(), next};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    std::size_t missing = rest.size();
    for (;;) {
        CO_TRY(const std::size_t got,
               co_await Transfer(reactor_, Transfer::Way::receive, fd_, message));
        if (got == 0) co_return fail(Errc::gone, "client disconnected");
        if (got >= missing) {
            begin_ = 0;
            end_ = got - missing;
            co_return Result<void>();
        }
        missing -= got;
        rest_of(pieces, got);
    }
}

Task<Result<void>> NbdStream::send(std::span<const std::byte> bytes) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    co_return co_await send_pieces(std::span(&piece, 1));
}

Task<Result<void>> NbdStream::send_pieces(std::span<iovec> pieces) {
    msghdr message{};
    while (!pieces.empty()) {
        message.msg_iov = pieces.data();
        message.msg_iovlen = pieces.size();
        CO_TRY(const std::size_t sent,
               co_await Transfer(reactor_, Transfer::Way::send, fd_, message));
        if (sent == 0) co_return fail(Errc::gone, "nothing could be sent");
        pieces = rest_of(pieces, sent);
    }
    co_return Result<void>();
}

std::span<iovec> NbdStream::send_some(std::span<iovec> pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? rest_of(pieces, static_cast<std::size_t>(sent)) : pieces;
}

void NbdStream::shut_reading() {
    ::shutdown(fd_, SHUT_RD);
}

void NbdStream::shut() {
    ::shutdown(fd_, SHUT_RDWR);
}

}  // namespace uc::frontend
