// Each sector is a register of its own. A write is a version with the time of its submission and of
// its acknowledgement; of two writes that overlap in time either may be the later one. Three facts
// order them:
//
//  * a write acknowledged before another was submitted is older than it;
//  * a read that returned x proves every version acknowledged before that read began to be older
//  than x
//    (or to be x), even if x is still in flight: no later read may return such a version;
//  * the same holds for the first read after a crash, so what it returned is pinned.
//
// A read may return any version submitted before its end that was not known to be replaced before
// its beginning. A crash may bring back any version, unless a newer one is durable: acknowledged
// before a flush began that completed, or written with FUA. After a crash the candidates are all
// equal until a read.
//
// A flush that failed vouches for nothing before it, nor does a later one: what the device dropped
// stays dropped. After an outage of the cache the users live on, so a lost write is an error until
// the sector is written again, never the older value. A backing device may well show an older value
// after it was away, unless a flush that succeeded says that nothing is lost.
//
// Zeroes are a value like others, but many writes share it, so a read of zeroes proves less. A
// discard of a cached device is a version that matches everything that was ever written to the
// sector.

#include "sim/model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uc::sim {

namespace {

constexpr std::size_t kWords = kSectorBytes / 8;

std::uint64_t load_word(const std::byte* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    return word;
}

std::uint64_t place_word(std::uint32_t volume, std::uint64_t sector) {
    return std::uint64_t{volume} << 56 | sector;
}

}  // namespace

std::optional<std::uint64_t> VolumeModel::value_of(std::uint64_t at,
                                                   std::span<const std::byte> sector) const {
    // 32 equal pairs: the second half of the sector repeats its beginning.
    if (std::memcmp(sector.data(), sector.data() + 16, kSectorBytes - 16) != 0) return std::nullopt;
    const std::uint64_t place = load_word(sector.data());
    const std::uint64_t value = load_word(sector.data() + 8);
    if (place == 0 && value == 0) return 0;
    if (place != place_word(volume_, at) || value == 0 || value >= next_id_) return std::nullopt;
    return value;
}

VolumeModel::Write VolumeModel::begin(std::uint64_t sector, std::uint64_t sectors,
                                      std::uint64_t value, bool fua) {
    const Write write{sector, sectors, value, next_id_++, fua};
    const Stamp now = ++now_;
    for (std::uint64_t s = sector; s < sector + sectors; ++s) {
        History& history = histories_[s];
        touched_[s] = true;
        if (history.empty()) history.push_back(Version{.acked = 0});
        if (history.size() >= 4) prune(history);
        history.push_back(Version{.value = value, .id = write.id, .submitted = now});
    }
    writes_.emplace(write.id, write);
    return write;
}

VolumeModel::Write VolumeModel::begin_write(std::uint64_t sector, std::span<std::byte> data,
                                            bool fua) {
    const std::uint64_t sectors = data.size() / kSectorBytes;
    const Write write = begin(sector, sectors, next_id_, fua);
    std::byte* out = data.data();
    for (std::uint64_t s = sector; s < sector + sectors; ++s) {
        const std::uint64_t pair[2] = {place_word(volume_, s), write.value};
        for (std::size_t i = 0; i < kWords / 2; ++i, out += sizeof(pair)) {
            std::memcpy(out, pair, sizeof(pair));
        }
    }
    return write;
}

VolumeModel::Write VolumeModel::begin_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                             bool fua) {
    return begin(sector, sectors, 0, fua);
}

VolumeModel::Write VolumeModel::begin_discard(std::uint64_t sector, std::uint64_t sectors) {
    return begin(sector, sectors, discards_ == Discards::zeroes ? 0 : kAnything, false);
}

void VolumeModel::end_one(History& history, const Write& write, Stamp now, bool ok) {
    const auto mine = std::find_if(history.begin(), history.end(),
                                   [&](const Version& version) { return version.id == write.id; });
    CHECK(mine != history.end());
    mine->acked = now;
    mine->failed = !ok;
    if (!ok) return;
    for (Version& version : history) {
        if (version.acked >= mine->submitted || version.id == write.id) continue;
        version.replaced = std::min(version.replaced, now);
        // What came between may never have become durable.
        const bool untold = std::exchange(version.untold, false);
        version.replaced_acked = untold ? now : std::min(version.replaced_acked, now);
        if (write.fua) version.gone = true;
    }
}

void VolumeModel::end_write(const Write& write, bool ok) {
    const Stamp now = ++now_;
    for (std::uint64_t s = write.sector; s < write.sector + write.sectors; ++s) {
        end_one(histories_[s], write, now, ok);
        // Whose write failed knows no more what is there; it may have gone with the device as well.
        if (!ok && outage_) suspects_.insert(s);
        if (!ok) continue;
        exposed_.erase(s);
        suspects_.erase(s);
        if (outage_ && at_risk(histories_[s])) suspects_.insert(s);
    }
    writes_.erase(write.id);
}

Stamp VolumeModel::begin_flush() {
    ++flushes_;
    return ++now_;
}

std::optional<std::string> VolumeModel::end_flush(Stamp begun, bool ok) {
    ++now_;
    --flushes_;
    const std::optional<std::uint64_t> owed = owed_;
    // One beside it may be the one that tells.
    if (!ok || flushes_ == 0) owed_.reset();
    if (ok && owed && flushes_ == 0) {
        return "succeeded, although the last write to sector " + std::to_string(*owed) +
               " was lost with the backing device";
    }
    if (ok) durable_ = std::max(durable_, begun);
    vouch(ok);
    return std::nullopt;
}

// A crash could bring back something older than the newest value.
bool VolumeModel::at_risk(const History& history) const {
    return std::ranges::any_of(history, [this](const Version& version) {
        return version.replaced != kNever && may_return(version);
    });
}

// After a flush.
void VolumeModel::vouch(bool durable) {
    for (const std::uint64_t s : exposed_) {
        for (Version& version : histories_[s]) {
            if (version.hidden == kNever) continue;
            if (durable && may_return(version)) continue;  // written after the flush began
            if (durable) version.replaced = std::min(version.replaced, version.hidden);
            version.hidden = kNever;
        }
    }
    if (durable) {
        std::erase_if(exposed_, [this](std::uint64_t s) {
            return std::ranges::none_of(histories_[s],
                                        [](const Version& v) { return v.hidden != kNever; });
        });
        return;
    }
    exposed_.clear();
    for (History& history : histories_) {
        for (Version& version : history) {
            // Also where it is not known yet which of two was the later one.
            if (may_return(version)) version.untold = true;
        }
    }
}

void VolumeModel::begin_outage() {
    outage_ = true;
    for (std::uint64_t s = 0; s < histories_.size(); ++s) {
        if (at_risk(histories_[s])) suspects_.insert(s);
    }
}

bool VolumeModel::may_be_lost(std::uint64_t sector, std::uint64_t sectors) const {
    const auto first = suspects_.lower_bound(sector);
    return first != suspects_.end() && *first < sector + sectors;
}

bool VolumeModel::being_written(std::uint64_t sector, std::uint64_t sectors) const {
    return std::ranges::any_of(writes_, [&](const auto& entry) {
        const Write& write = entry.second;
        return write.sector < sector + sectors && sector < write.sector + write.sectors;
    });
}

void VolumeModel::backing_lost() {
    for (std::uint64_t s = 0; s < histories_.size(); ++s) {
        if (!at_risk(histories_[s])) continue;
        exposed_.insert(s);
        for (Version& version : histories_[s]) {
            if (version.replaced == kNever || !may_return(version)) continue;
            version.hidden = std::min(version.hidden, version.replaced);
            version.replaced = kNever;
        }
    }
}

void VolumeModel::forgive() {
    for (const std::uint64_t s : exposed_) {
        for (Version& version : histories_[s]) {
            version.untold |= version.hidden != kNever;
            version.hidden = kNever;
        }
    }
    exposed_.clear();
    owed_.reset();
}

// The users end with the process that could have told them what went with a device.
void VolumeModel::restart() {
    forgive();
    for (const std::uint64_t s : suspects_) {
        for (Version& version : histories_[s]) {
            if (may_return(version)) version.replaced = kNever;
        }
    }
    suspects_.clear();
    outage_ = false;
}

Stamp VolumeModel::begin_read() {
    const Stamp now = ++now_;
    reads_.insert(now);
    return now;
}

void VolumeModel::abandon_read(Stamp begun) {
    reads_.erase(reads_.find(begun));
}

std::optional<std::string> VolumeModel::end_read(Stamp begun, std::uint64_t sector,
                                                 std::span<const std::byte> data) {
    ++now_;
    abandon_read(begun);
    for (std::uint64_t s = sector; !data.empty(); ++s, data = data.subspan(kSectorBytes)) {
        const std::optional<std::uint64_t> value = value_of(s, data.first(kSectorBytes));
        if (!value) {
            return "sector " + std::to_string(s) + ": foreign or torn contents (" +
                   std::to_string(load_word(data.data()) >> 56) + ":" +
                   std::to_string(load_word(data.data()) & 0xFFFFFFFFFFFFFF) + " " +
                   std::to_string(load_word(data.data() + 8)) + "), expected " + describe(s, begun);
        }
        if (auto problem = judge(begun, s, *value)) return problem;
    }
    return std::nullopt;
}

std::optional<std::string> VolumeModel::judge(Stamp begun, std::uint64_t sector,
                                              std::uint64_t value) {
    History& history = histories_[sector];
    if (history.empty()) {
        if (value == 0) return std::nullopt;
        return "sector " + std::to_string(sector) + ": value in a sector never written";
    }
    bool found = false;
    bool loose = false;
    for (const Version& version : history) {
        if (version.replaced < begun) continue;
        if (version.value == kAnything) loose = true;
        if (version.value == value) found = true;
    }
    if (loose) return std::nullopt;
    if (!found) {
        return "sector " + std::to_string(sector) + ": read value " + std::to_string(value) +
               ", expected " + describe(sector, begun);
    }
    if (exposed_.contains(sector)) find_loss(sector, value, begun);
    learn(history, value, begun, now_);
    return std::nullopt;
}

// A backing device that was away may show an older value: from now on that is the one.
void VolumeModel::find_loss(std::uint64_t sector, std::uint64_t value, Stamp begun) {
    History& history = histories_[sector];
    const auto current = [&](const Version& version) {
        return version.value == value && version.hidden == kNever && version.replaced >= begun;
    };
    if (std::ranges::any_of(history, current)) return;
    owed_ = sector;
    for (Version& version : history) {
        if (version.value != value || version.replaced < begun) continue;
        version.hidden = version.replaced_acked = kNever;
    }
}

void VolumeModel::learn(History& history, std::uint64_t value, Stamp begun, Stamp now) {
    if (history.size() == 1) return;
    Stamp proof = 0;  // when the version that was read was acknowledged at the latest
    for (const Version& version : history) {
        if (version.value != value || version.replaced < begun) continue;
        proof = std::max(proof, version.failed ? kNever : version.acked);
    }
    for (Version& version : history) {
        if (version.value == value || version.acked >= begun) continue;
        version.replaced = std::min(version.replaced, now);
        if (proof == kNever) continue;
        version.replaced_acked = std::min(version.replaced_acked, std::max(proof, version.acked));
    }
}

bool VolumeModel::may_return(const Version& version) const {
    return !version.gone && (version.untold || version.replaced_acked >= durable_);
}

void VolumeModel::prune(History& history) const {
    const Stamp oldest_read = reads_.empty() ? now_ : *reads_.begin();
    std::erase_if(history, [&](const Version& version) {
        return version.acked != kNever && version.replaced < oldest_read && !may_return(version);
    });
}

void VolumeModel::crash(CrashKind kind) {
    reads_.clear();
    writes_.clear();
    suspects_.clear();
    exposed_.clear();
    owed_.reset();
    flushes_ = 0;
    outage_ = false;
    const Stamp now = ++now_;
    for (History& history : histories_) {
        if (history.empty()) continue;
        std::erase_if(history, [&](const Version& version) { return !may_return(version); });
        CHECK(!history.empty());
        for (Version& version : history) {
            version.submitted = version.acked = now;
            version.replaced = version.replaced_acked = version.hidden = kNever;
            version.failed = version.untold = false;
        }
    }
    ++now_;
    // After a power cut all that is left is durable.
    if (kind == CrashKind::power_cut) durable_ = now_;
}

bool VolumeModel::undefined(std::uint64_t sector) const {
    return std::any_of(
        histories_[sector].begin(), histories_[sector].end(),
        [&](const Version& version) { return version.value == kAnything && may_return(version); });
}

std::string VolumeModel::describe(std::uint64_t sector, Stamp begun) const {
    std::string text = "one of:";
    for (const Version& version : histories_[sector]) {
        if (version.replaced < begun) continue;
        text += version.value == kAnything ? " anything" : " " + std::to_string(version.value);
        if (version.acked == kNever) text += " (in flight)";
    }
    return text;
}

}  // namespace uc::sim
