// What each sector of one virtual device may hold. The load tells the model what it does; the model
// judges what reads return, now and after crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "sim/sim_disk.h"

namespace uc::sim {

// Order of the model's events; one counter for all volumes of a run.
using Stamp = std::uint64_t;

class VolumeModel {
public:
    // What a discarded range holds.
    enum class Discards : std::uint8_t { anything, zeroes };

    VolumeModel(std::uint32_t volume, std::uint64_t sectors, Discards discards)
        : volume_(volume), discards_(discards), histories_(sectors), touched_(sectors) {}

    std::uint64_t sectors() const { return histories_.size(); }

    // A write from its submission to its answer. `write_id` is unique and becomes the content.
    struct Write {
        std::uint64_t sector = 0;
        std::uint64_t sectors = 0;
        std::uint64_t value = 0;
        std::uint64_t id = 0;
        bool fua = false;
    };
    // Fills `data` with the contents that identify this write.
    Write begin_write(std::uint64_t sector, std::span<std::byte> data, bool fua);
    Write begin_zeroes(std::uint64_t sector, std::uint64_t sectors, bool fua);
    Write begin_discard(std::uint64_t sector, std::uint64_t sectors);
    // `ok` false: nobody knows whether, or how far, it took effect.
    void end_write(const Write& write, bool ok);

    Stamp now() const { return now_; }
    Stamp begin_flush();
    // The text of a contradiction, or nothing.
    std::optional<std::string> end_flush(Stamp begun, bool ok);

    Stamp begin_read();
    // Judges the data; the text of the first contradiction, or nothing.
    std::optional<std::string> end_read(Stamp begun, std::uint64_t sector,
                                        std::span<const std::byte> data);
    void abandon_read(Stamp begun);

    // Everything in flight may have happened or not; what was not flushed may be lost.
    void crash(CrashKind kind);

    // The cache device is away, then back in service. Writes that were not durable may be gone: the
    // volume must say so (a flush that fails, reads that are refused), and never show what was
    // there before (I39).
    void begin_outage();
    void end_outage() { outage_ = false; }
    // Reads of the range may be refused.
    bool may_be_lost(std::uint64_t sector, std::uint64_t sectors) const;
    // The backing device has lost what it had not flushed. Reads may show it, but a flush that
    // succeeds vouches for what came before it.
    void backing_lost();
    // The set was stopped and is opened anew: what is lost is not known any more.
    void restart();

    // A write of a part of the range is in flight.
    bool being_written(std::uint64_t sector, std::uint64_t sectors) const;
    // What the sector holds cannot be told (discarded and not written since), so places may differ.
    bool undefined(std::uint64_t sector) const;
    bool touched(std::uint64_t sector) const { return touched_[sector]; }

    // The value in a sector: 0 for zeroes; nothing if it is not a sector of this volume that a
    // write made whole. `at`: its number.
    std::optional<std::uint64_t> value_of(std::uint64_t at,
                                          std::span<const std::byte> sector) const;

private:
    static constexpr Stamp kNever = std::numeric_limits<Stamp>::max();
    static constexpr std::uint64_t kAnything = std::numeric_limits<std::uint64_t>::max();

    struct Version {
        std::uint64_t value = 0;  // 0: zeroes
        std::uint64_t id = 0;     // of the write
        Stamp submitted = 0;
        Stamp acked = kNever;
        Stamp replaced = kNever;        // no read that begins later may return it
        Stamp replaced_acked = kNever;  // a flush that begins later makes the replacement durable
        Stamp hidden = kNever;  // `replaced`, while a backing device may have brought it back
        bool gone = false;      // it cannot come back by a crash
        bool untold = false;    // it can, whatever is flushed later: a flush has failed
        bool failed = false;
    };
    using History = std::vector<Version>;

    // Whatever was lost so far is nobody's concern any more; what it may have brought back stays.
    void forgive();
    Write begin(std::uint64_t sector, std::uint64_t sectors, std::uint64_t value, bool fua);
    static void end_one(History& history, const Write& write, Stamp now, bool ok);
    std::optional<std::string> judge(Stamp begun, std::uint64_t sector, std::uint64_t value);
    static void learn(History& history, std::uint64_t value, Stamp begun, Stamp now);
    void find_loss(std::uint64_t sector, std::uint64_t value, Stamp begun);
    bool may_return(const Version& version) const;
    void prune(History& history) const;
    void vouch(bool durable);
    bool at_risk(const History& history) const;
    std::string describe(std::uint64_t sector, Stamp begun) const;

    std::uint32_t volume_;
    Discards discards_;
    std::vector<History> histories_;  // empty: zeroes since ever
    std::vector<bool> touched_;
    Stamp now_ = 1;
    Stamp durable_ = 0;  // what was acknowledged earlier is durable
    std::uint64_t next_id_ = 1;
    std::multiset<Stamp> reads_;
    std::map<std::uint64_t, Write> writes_;  // in flight
    bool outage_ = false;
    std::set<std::uint64_t> suspects_;   // sectors whose newest value may be gone with the cache
    std::set<std::uint64_t> exposed_;    // sectors that a backing device may have lost
    std::optional<std::uint64_t> owed_;  // a sector that it has lost: the next flush must fail
    unsigned flushes_ = 0;               // in flight
};

}  // namespace uc::sim
