// One client of the NBD server, from accept to close.
//
//   run() = negotiate()  nbd_handshake.cc   options one after the other, until one names an export
//           transmit()   nbd_session.cc     a reader, a handler per request, and a sender
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "async/sync.h"
#include "base/result.h"
#include "core/volume.h"
#include "frontend/buffer_pool.h"
#include "frontend/export.h"
#include "frontend/nbd_protocol.h"
#include "frontend/nbd_stream.h"
#include "io/clock.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

// What the connections of a server share.
struct NbdShared {
    io::UringReactor& reactor;
    async::Executor& executor;
    BufferPool& pool;
    std::vector<Export> exports;
};

class NbdConnection {
public:
    static constexpr std::size_t kMaxInFlight = 128;
    static constexpr std::size_t kMaxBytesInFlight = std::size_t{64} << 20;
    static constexpr std::size_t kSendAtOnce = std::size_t{64} << 10;
    static constexpr Duration kHandshakeTime = std::chrono::seconds(30);
    static constexpr Duration kStopTime = std::chrono::seconds(2);

    // Owns the socket. `shared` outlives the connection.
    NbdConnection(NbdShared& shared, int fd);
    NbdConnection(const NbdConnection&) = delete;
    NbdConnection& operator=(const NbdConnection&) = delete;

    // Serves until the client disconnects, misbehaves or stop() is called; no request is in flight
    // when it returns.
    Task<void> run();
    // Takes no more requests, answers those in flight, ends. A client that does not take its
    // answers is cut off after kStopTime.
    void stop();
    // Null during the handshake.
    const core::Volume* volume() const { return volume_; }

private:
    // A request from its header's arrival until its reply has been sent.
    struct Slot {
        nbd::Request request;
        std::size_t bytes = 0;  // of its buffer, counted from the start
        PooledBuffer data;      // a read's is there once its handler runs
        std::array<std::byte, sizeof(nbd::DataChunk)> header{};  // of the reply
        std::size_t header_bytes = 0;
        std::size_t data_bytes = 0;  // of the reply
        Slot* next = nullptr;        // in the free list or the queue of replies
    };

    // Cuts the connection off when time is up.
    struct Deadline final : io::Timer {
        explicit Deadline(NbdConnection& owner) : connection(owner) {}
        ~Deadline() { connection.shared_.reactor.cancel(this); }
        void fire() override { connection.stream_.shut(); }
        NbdConnection& connection;
    };

    // nbd_handshake.cc. True: an export was chosen. False: the client said goodbye.
    Task<Result<bool>> negotiate();
    Task<Result<bool>> options();
    Task<Result<bool>> answer_option(nbd::Option option, std::span<const std::byte> payload);
    Result<bool> answer_export_name(std::span<const std::byte> payload);
    bool answer_info(nbd::Option option, std::span<const std::byte> payload);
    void answer_meta_context(nbd::Option option, std::span<const std::byte> payload);
    void answer_list(nbd::Option option);
    const Export* find(std::string_view name) const;
    void choose(const Export& chosen);

    // nbd_session.cc.
    Task<void> transmit();
    Task<Result<void>> read_requests();
    Task<Result<void>> take_request(const nbd::Request request);
    Task<void> handle(Slot& slot);
    Task<Result<void>> start(Slot& slot);
    Task<Result<void>> trim(const nbd::Request request);
    void reply(Slot& slot, nbd::Status status);
    void send_at_once();
    Task<void> send_replies();
    void gather_replies();
    void free_sent();

    void arm(Duration time);

    NbdShared& shared_;
    NbdStream stream_;
    Deadline deadline_{*this};
    bool stopping_ = false;

    // Handshake.
    nbd::Bytes answer_;
    bool no_zeroes_ = false;
    bool structured_ = false;

    // Transmission.
    core::Volume* volume_ = nullptr;
    nbd::ExportFacts facts_;
    std::vector<Slot> slots_;
    Slot* free_ = nullptr;
    std::size_t bytes_in_flight_ = 0;
    async::Event slot_freed_;
    async::TaskGroup handlers_;
    async::TaskGroup sender_;
    Slot* replies_ = nullptr;  // oldest first
    Slot** replies_end_ = &replies_;
    std::size_t reply_bytes_ = 0;  // of those that are queued and not being sent
    std::size_t sending_ = 0;      // so many of the oldest are being sent
    std::vector<iovec> pieces_;    // of those
    std::span<iovec> unsent_;
    async::Event reply_ready_;
    bool no_more_replies_ = false;
    bool broken_ = false;  // a send failed: replies are dropped
};

nbd::ExportFacts facts_of(const core::Volume& volume);

}  // namespace uc::frontend
