// The option phase ("fixed newstyle"). The client sends options, each is answered at once, and
// EXPORT_NAME or GO ends the phase. Answers are collected in answer_ and sent before the next
// option is read; as an option has at most 64 KiB and the answers are of the size of our own export
// list, both are bounded.
//
// A wrong magic or an impossible length means that the stream is out of step: the connection ends.
// An option that is well framed but wrong or unknown gets an error reply, and the phase goes on.
#include <algorithm>

#include "frontend/nbd_connection.h"

namespace uc::frontend {

nbd::ExportFacts facts_of(const core::Volume& volume) {
    nbd::ExportFacts facts;
    facts.bytes = volume.size_sectors() * kSectorBytes;
    facts.read_only = volume.read_only();
    const std::uint64_t block = volume.block_sectors() * kSectorBytes;
    const bool usable = (block & (block - 1)) == 0 && block <= 65536 && facts.bytes % block == 0;
    if (block > facts.minimum_block && usable) {
        facts.minimum_block = static_cast<std::uint32_t>(block);
    }
    if (block > facts.preferred_block && block <= nbd::kMaxData) {
        facts.preferred_block = static_cast<std::uint32_t>(block);
    }
    return facts;
}

Task<Result<bool>> NbdConnection::negotiate() {
    answer_.clear();
    nbd::append(answer_, nbd::Hello{nbd::kHelloMagic, nbd::kOptionMagic,
                                    std::uint16_t{nbd::kFixedNewstyle | nbd::kNoZeroes}});
    CO_OK(co_await stream_.send(answer_));
    CO_OK(co_await stream_.need(4));
    CO_TRY(const std::uint32_t flags, nbd::parse_client_flags(stream_.peek<4>()));
    stream_.consume(4);
    no_zeroes_ = (flags & nbd::kNoZeroes) != 0;
    co_return co_await options();
}

Task<Result<bool>> NbdConnection::options() {
    for (;;) {
        if (stopping_) co_return false;
        CO_OK(co_await stream_.need(sizeof(nbd::OptionHeader)));
        CO_TRY(const nbd::Option option,
               nbd::parse_option(stream_.peek<sizeof(nbd::OptionHeader)>()));
        stream_.consume(sizeof(nbd::OptionHeader));
        CO_OK(co_await stream_.need(option.length));
        const std::span<const std::byte> payload = stream_.peek(option.length);
        CO_TRY(const bool last, co_await answer_option(option, payload));
        stream_.consume(option.length);
        if (last) co_return volume_ != nullptr;
    }
}

// True: this was the last option.
Task<Result<bool>> NbdConnection::answer_option(nbd::Option option,
                                                std::span<const std::byte> payload) {
    answer_.clear();
    bool last = false;
    switch (option.option) {
        case nbd::opt::export_name: {
            CO_TRY(last, answer_export_name(payload));
            break;
        }
        case nbd::opt::abort:
            nbd::append_reply(answer_, option.option, nbd::rep::ack);
            last = true;
            break;
        case nbd::opt::list:
            answer_list(option);
            break;
        case nbd::opt::info:
        case nbd::opt::go:
            last = answer_info(option, payload);
            break;
        case nbd::opt::structured_reply:
            if (option.length == 0) structured_ = true;
            nbd::append_reply(answer_, option.option,
                              option.length == 0 ? nbd::rep::ack : nbd::rep::err_invalid);
            break;
        case nbd::opt::list_meta_context:
        case nbd::opt::set_meta_context:
            answer_meta_context(option, payload);
            break;
        default:
            nbd::append_reply(answer_, option.option, nbd::rep::err_unsup);
            break;
    }
    CO_OK(co_await stream_.send(answer_));
    co_return last;
}

// Names first, as only they are listed; then what stays the same when names change. A label that
// two have says nothing.
const Export* NbdConnection::find(std::string_view name) const {
    const std::vector<Export>& exports = shared_.exports;
    if (exports.empty()) return nullptr;
    if (name.empty()) return &exports.front();
    auto found = std::ranges::find(exports, name, &Export::name);
    if (found == exports.end()) found = std::ranges::find(exports, name, &Export::uuid);
    if (found == exports.end() && std::ranges::count(exports, name, &Export::label) == 1) {
        found = std::ranges::find(exports, name, &Export::label);
    }
    return found == exports.end() ? nullptr : &*found;
}

void NbdConnection::choose(const Export& chosen) {
    volume_ = chosen.volume;
    facts_ = facts_of(*volume_);
}

// EXPORT_NAME has no way to report an error but to disconnect.
Result<bool> NbdConnection::answer_export_name(std::span<const std::byte> payload) {
    const std::string_view name(reinterpret_cast<const char*>(payload.data()), payload.size());
    const Export* const found = find(name);
    if (found == nullptr) return fail(Errc::not_found, "no such export");
    choose(*found);
    nbd::append_export_name_reply(answer_, facts_, no_zeroes_);
    return true;
}

bool NbdConnection::answer_info(nbd::Option option, std::span<const std::byte> payload) {
    const Result<nbd::InfoOption> info = nbd::parse_info(payload);
    if (!info) {
        nbd::append_reply(answer_, option.option, nbd::rep::err_invalid, info.error().what);
        return false;
    }
    const Export* const found = find(info->name);
    if (found == nullptr) {
        nbd::append_reply(answer_, option.option, nbd::rep::err_unknown, "no such export");
        return false;
    }
    nbd::append_info(answer_, option.option, facts_of(*found->volume));
    if (info->wants_name) {
        nbd::append_info_text(answer_, option.option, nbd::Info::name, found->name);
    }
    if (info->wants_description) {
        nbd::append_info_text(answer_, option.option, nbd::Info::description, found->description);
    }
    nbd::append_reply(answer_, option.option, nbd::rep::ack);
    if (option.option != nbd::opt::go) return false;
    choose(*found);
    return true;
}

// No context is offered, so the list of those that match is always empty, which is a valid answer.
void NbdConnection::answer_meta_context(nbd::Option option, std::span<const std::byte> payload) {
    const Result<nbd::MetaOption> meta = nbd::parse_meta(payload);
    if (!meta) {
        nbd::append_reply(answer_, option.option, nbd::rep::err_invalid, meta.error().what);
    } else if (option.option == nbd::opt::set_meta_context && !structured_) {
        nbd::append_reply(answer_, option.option, nbd::rep::err_invalid,
                          "structured replies come first");
    } else if (find(meta->name) == nullptr) {
        nbd::append_reply(answer_, option.option, nbd::rep::err_unknown, "no such export");
    } else {
        nbd::append_reply(answer_, option.option, nbd::rep::ack);
    }
}

void NbdConnection::answer_list(nbd::Option option) {
    if (option.length != 0) {
        nbd::append_reply(answer_, option.option, nbd::rep::err_invalid);
        return;
    }
    for (const Export& each : shared_.exports) {
        nbd::append_server(answer_, each.name, each.description);
    }
    nbd::append_reply(answer_, option.option, nbd::rep::ack);
}

}  // namespace uc::frontend
