// A blocking NBD client that can also send what no decent client sends. Every wait ends after 20 s.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/nbd_protocol.h"

namespace uc::frontend {

class NbdClient {
public:
    explicit NbdClient(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
        connected_ =
            ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        const timeval limit{20, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    NbdClient(const NbdClient&) = delete;
    NbdClient& operator=(const NbdClient&) = delete;
    ~NbdClient() { ::close(fd_); }
    bool connected() const { return connected_; }

    bool send(const nbd::Bytes& bytes) {
        std::size_t sent = 0;
        while (sent < bytes.size()) {
            const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (n <= 0) return false;
            sent += static_cast<std::size_t>(n);
        }
        return true;
    }
    // Fewer bytes only at the end of the stream.
    nbd::Bytes receive(std::size_t bytes) {
        nbd::Bytes out(bytes);
        std::size_t got = 0;
        while (got < bytes) {
            const ssize_t n = ::recv(fd_, out.data() + got, bytes - got, 0);
            if (n <= 0) break;
            got += static_cast<std::size_t>(n);
        }
        out.resize(got);
        return out;
    }
    template <class T>
    std::optional<T> receive() {
        const nbd::Bytes bytes = receive(sizeof(T));
        if (bytes.size() < sizeof(T)) return std::nullopt;
        T value;
        std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    // The server has closed the connection (possibly with a reset).
    bool at_end() {
        std::byte byte{};
        const ssize_t n = ::recv(fd_, &byte, 1, 0);
        return n == 0 || (n < 0 && errno == ECONNRESET);
    }

    bool greet(std::uint32_t flags = nbd::kFixedNewstyle | nbd::kNoZeroes) {
        const auto hello = receive<nbd::Hello>();
        if (!hello || hello->magic != nbd::kHelloMagic) return false;
        nbd::Bytes out;
        nbd::append(out, Be<std::uint32_t>(flags));
        return send(out);
    }
    bool send_option(std::uint32_t option, const nbd::Bytes& payload = {}) {
        nbd::Bytes out;
        nbd::append(out, nbd::OptionHeader{nbd::kOptionMagic, option,
                                           static_cast<std::uint32_t>(payload.size())});
        out.insert(out.end(), payload.begin(), payload.end());
        return send(out);
    }
    struct Reply {
        std::uint32_t type = 0;
        nbd::Bytes payload;
    };
    // All replies to one option, up to its ACK or error; empty if the connection ended.
    std::vector<Reply> option(std::uint32_t option, const nbd::Bytes& payload = {}) {
        std::vector<Reply> out;
        if (!send_option(option, payload)) return {};
        do {
            const auto header = receive<nbd::OptionReplyHeader>();
            if (!header || header->magic != nbd::kOptionReplyMagic) return {};
            out.push_back({header->type, receive(header->length)});
        } while (out.back().type != nbd::rep::ack && out.back().type < 0x80000000);
        return out;
    }
    static nbd::Bytes info_payload(std::string_view name, std::vector<std::uint16_t> wants = {}) {
        nbd::Bytes out;
        nbd::append(out, Be<std::uint32_t>(static_cast<std::uint32_t>(name.size())));
        nbd::append_text(out, name);
        nbd::append(out, Be<std::uint16_t>(static_cast<std::uint16_t>(wants.size())));
        for (const std::uint16_t each : wants) nbd::append(out, Be<std::uint16_t>(each));
        return out;
    }
    // Up to the transmission phase.
    bool go(std::string_view name = "", bool structured = false) {
        if (!greet()) return false;
        structured_ = structured;
        if (structured && option(nbd::opt::structured_reply).empty()) return false;
        const std::vector<Reply> replies = option(nbd::opt::go, info_payload(name));
        return !replies.empty() && replies.back().type == nbd::rep::ack;
    }

    bool send_request(nbd::Command command, std::uint64_t cookie, std::uint64_t offset,
                      std::uint32_t length, const nbd::Bytes& payload = {},
                      std::uint16_t flags = 0) {
        nbd::Bytes out;
        nbd::append(
            out, nbd::RequestHeader{nbd::kRequestMagic, flags, static_cast<std::uint16_t>(command),
                                    cookie, offset, length});
        out.insert(out.end(), payload.begin(), payload.end());
        return send(out);
    }
    struct Answer {
        std::uint64_t cookie = 0;
        nbd::Status status = nbd::Status::ok;
        nbd::Bytes data;
    };
    // `length`: of the read that this answers, if it is one.
    std::optional<Answer> receive_answer(std::uint32_t length) {
        if (structured_ && length > 0) return receive_chunk();
        const auto reply = receive<nbd::SimpleReply>();
        if (!reply || reply->magic != nbd::kSimpleReplyMagic) return std::nullopt;
        Answer out{reply->cookie, static_cast<nbd::Status>(std::uint32_t{reply->error}), {}};
        if (out.status == nbd::Status::ok) out.data = receive(length);
        return out;
    }
    nbd::Status status_of(nbd::Command command, std::uint64_t offset, std::uint32_t length,
                          const nbd::Bytes& payload = {}, std::uint16_t flags = 0) {
        if (!send_request(command, 7, offset, length, payload, flags)) return nbd::Status::shutdown;
        const auto answer = receive_answer(command == nbd::Command::read ? length : 0);
        return answer ? answer->status : nbd::Status::shutdown;
    }

private:
    std::optional<Answer> receive_chunk() {
        const auto header = receive<nbd::ChunkHeader>();
        if (!header || header->magic != nbd::kChunkMagic) return std::nullopt;
        if (header->flags != nbd::kChunkDone) return std::nullopt;
        nbd::Bytes body = receive(header->length);
        Answer out{header->cookie, nbd::Status::ok, {}};
        if (header->type == nbd::kChunkError) {
            Be<std::uint32_t> error;
            std::memcpy(&error, body.data(), sizeof error);
            out.status = static_cast<nbd::Status>(std::uint32_t{error});
        } else if (header->type == nbd::kChunkOffsetData) {
            out.data.assign(body.begin() + sizeof(std::uint64_t), body.end());
        } else {
            return std::nullopt;
        }
        return out;
    }

    int fd_;
    bool connected_ = false;
    bool structured_ = false;
};

}  // namespace uc::frontend
