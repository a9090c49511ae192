// The transmission phase of one connection. Three kinds of task share the connection:
//
//   reader    takes requests off the stream (many per recv), finds a free slot for each, receives
//             the payload of a write into the slot's buffer, and starts a handler
//   handlers  call the volume and queue the reply; replies leave in the order of completion
//   sender    takes all replies that are queued and sends them with one sendmsg; handlers that
//             become ready while it sends have theirs ready for the next round, so batches grow
//             with load
//
// Data is handed on while it is still in the processor's cache: a read takes its buffer when its
// handler starts, the handler that has filled kSendAtOnce bytes sends them itself (and so frees the
// buffers for the next ones), and after a large payload the reader lets its handler run first.
//
// A slot is held from the request's header until its reply was sent. Slots and bytes are limited,
// and the reader waits for both: a client that floods us or never takes its answers stops its own
// stream and nothing else. A failed send only marks the connection as broken; handlers end by
// themselves, replies are dropped, and transmit() returns when the last slot is free again.
#include <cstring>

#include "base/check.h"
#include "frontend/nbd_connection.h"

namespace uc::frontend {

NbdConnection::NbdConnection(NbdShared& shared, int fd)
    : shared_(shared),
      stream_(shared.reactor, fd),
      handlers_(shared.executor),
      sender_(shared.executor) {}

void NbdConnection::arm(Duration time) {
    shared_.reactor.cancel(&deadline_);
    deadline_.due = shared_.reactor.now() + time;
    shared_.reactor.arm(&deadline_);
}

Task<void> NbdConnection::run() {
    arm(kHandshakeTime);
    const Result<bool> agreed = co_await negotiate();
    if (!stopping_) shared_.reactor.cancel(&deadline_);
    if (agreed && *agreed) co_await transmit();
    shared_.reactor.cancel(&deadline_);
    stream_.shut();
}

void NbdConnection::stop() {
    if (stopping_) return;
    stopping_ = true;
    stream_.shut_reading();
    arm(kStopTime);
}

Task<void> NbdConnection::transmit() {
    slots_.resize(kMaxInFlight);
    pieces_.reserve(2 * kMaxInFlight);
    for (Slot& slot : slots_) {
        slot.next = free_;
        free_ = &slot;
    }
    sender_.spawn(send_replies());
    // Whatever ends the reader ends the connection: goodbye, end of stream, or a broken protocol.
    const Result<void> ended = co_await read_requests();
    if (!ended && ended.error().code == Errc::corrupt) stream_.shut();
    co_await handlers_.drained();
    no_more_replies_ = true;
    reply_ready_.notify();
    co_await sender_.drained();
}

Task<Result<void>> NbdConnection::read_requests() {
    for (;;) {
        if (stopping_ || broken_) co_return Result<void>();
        if (stream_.available() < sizeof(nbd::RequestHeader)) {
            CO_OK(co_await stream_.need(sizeof(nbd::RequestHeader)));
        }
        const auto header = stream_.peek<sizeof(nbd::RequestHeader)>();
        CO_TRY(const nbd::Request request, nbd::parse_request(header));
        if (request.command == nbd::Command::disc) co_return Result<void>();
        stream_.consume(sizeof(nbd::RequestHeader));
        CO_OK(co_await take_request(request));
    }
}

// Waits for a slot and for the payload, then starts the handler.
Task<Result<void>> NbdConnection::take_request(const nbd::Request request) {
    const nbd::Status status = nbd::check_request(request, facts_, structured_);
    const bool reads = request.command == nbd::Command::read && status == nbd::Status::ok;
    const std::size_t bytes = reads ? request.length : request.payload();
    while (free_ == nullptr ||
           (bytes_in_flight_ > 0 && bytes_in_flight_ + bytes > kMaxBytesInFlight)) {
        co_await slot_freed_.wait();
    }

    Slot& slot = *free_;
    free_ = slot.next;
    slot.next = nullptr;
    slot.request = request;
    slot.bytes = BufferPool::size_of(bytes);
    bytes_in_flight_ += slot.bytes;
    if (request.payload() > 0) {
        slot.data = shared_.pool.take(bytes);
        const std::span<std::byte> data = slot.data.first(request.payload());
        // (If it fails, the slot dies with the connection.)
        CO_OK(co_await stream_.read(data, sizeof(nbd::RequestHeader)));
    }
    if (status == nbd::Status::ok) {
        handlers_.spawn(handle(slot));
    } else {
        reply(slot, status);
    }
    if (request.payload() >= NbdStream::kInPlace) co_await async::Yield();
    co_return Result<void>();
}

Task<void> NbdConnection::handle(Slot& slot) {
    const Result<void> done = co_await start(slot);
    reply(slot, done ? nbd::Status::ok : nbd::status_of(done.error()));
}

// Not a coroutine: hands out the volume's own task, which saves a frame per request.
Task<Result<void>> NbdConnection::start(Slot& slot) {
    const nbd::Request& request = slot.request;
    const std::uint64_t sector = request.offset / kSectorBytes;
    core::WriteFlags flags;
    flags.fua = request.has(nbd::cmd_flag::fua);
    switch (request.command) {
        case nbd::Command::read:
            slot.data = shared_.pool.take(request.length);
            return volume_->read(sector, slot.data.first(request.length));
        case nbd::Command::write:
            return volume_->write(sector, slot.data.first(request.length), flags);
        case nbd::Command::write_zeroes:
            return volume_->write_zeroes(sector, request.length / kSectorBytes, flags);
        case nbd::Command::trim:
            return trim(request);
        default:
            CHECK(request.command == nbd::Command::flush);
            return volume_->flush();
    }
}

// A trim is advice: a volume that cannot discard has followed it.
Task<Result<void>> NbdConnection::trim(const nbd::Request request) {
    const std::uint64_t sector = request.offset / kSectorBytes;
    const Result<void> done = co_await volume_->discard(sector, request.length / kSectorBytes);
    if (!done && done.error().code != Errc::unsupported) co_return done;
    if (!request.has(nbd::cmd_flag::fua)) co_return Result<void>();
    co_return co_await volume_->flush();
}

namespace {

template <class T>
std::size_t put(std::span<std::byte> out, const T& header) {
    CHECK(sizeof header <= out.size());
    std::memcpy(out.data(), &header, sizeof header);
    return sizeof header;
}

}  // namespace

void NbdConnection::reply(Slot& slot, nbd::Status status) {
    const nbd::Request& request = slot.request;
    const bool reads = request.command == nbd::Command::read;
    const auto error = static_cast<std::uint32_t>(status);
    slot.data_bytes = reads && status == nbd::Status::ok ? request.length : 0;
    if (!reads || !structured_) {
        slot.header_bytes =
            put(slot.header, nbd::SimpleReply{nbd::kSimpleReplyMagic, error, request.cookie});
    } else if (status == nbd::Status::ok) {
        const std::uint32_t length = request.length + std::uint32_t{sizeof(std::uint64_t)};
        const nbd::ChunkHeader header{nbd::kChunkMagic, nbd::kChunkDone, nbd::kChunkOffsetData,
                                      request.cookie, length};
        slot.header_bytes = put(slot.header, nbd::DataChunk{header, request.offset});
    } else {
        const std::uint32_t length = sizeof(nbd::ErrorChunk) - sizeof(nbd::ChunkHeader);
        const nbd::ChunkHeader header{nbd::kChunkMagic, nbd::kChunkDone, nbd::kChunkError,
                                      request.cookie, length};
        slot.header_bytes = put(slot.header, nbd::ErrorChunk{header, error, std::uint16_t{0}});
    }
    *replies_end_ = &slot;
    replies_end_ = &slot.next;
    reply_bytes_ += slot.data_bytes;
    if (reply_bytes_ >= kSendAtOnce) send_at_once();
    if (replies_ != nullptr) reply_ready_.notify();
}

// What the socket does not take is left to the sender.
void NbdConnection::send_at_once() {
    if (sending_ != 0 || broken_) return;
    gather_replies();
    unsent_ = stream_.send_some(unsent_);
    if (unsent_.empty()) free_sent();
}

Task<void> NbdConnection::send_replies() {
    for (;;) {
        while (replies_ == nullptr && !no_more_replies_) {
            co_await reply_ready_.wait();
        }
        if (replies_ == nullptr) co_return;
        if (sending_ == 0) gather_replies();
        if (!broken_) {
            const Result<void> sent = co_await stream_.send_pieces(unsent_);
            if (!sent) {
                broken_ = true;
                stream_.shut();  // so that the reader ends, too
            }
        }
        free_sent();
    }
}

void NbdConnection::gather_replies() {
    pieces_.clear();
    for (Slot* slot = replies_; slot != nullptr; slot = slot->next) {
        pieces_.push_back(iovec{slot->header.data(), slot->header_bytes});
        if (slot->data_bytes > 0) pieces_.push_back(iovec{slot->data.data(), slot->data_bytes});
        ++sending_;
    }
    unsent_ = pieces_;
    reply_bytes_ = 0;
}

void NbdConnection::free_sent() {
    for (; sending_ > 0; --sending_) {
        Slot* const slot = replies_;
        replies_ = slot->next;
        bytes_in_flight_ -= slot->bytes;
        slot->data.release();
        slot->next = free_;
        free_ = slot;
    }
    if (replies_ == nullptr) replies_end_ = &replies_;
    slot_freed_.notify();
}

}  // namespace uc::frontend
