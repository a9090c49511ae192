#include "sim/damage.h"

#include <algorithm>

#include "io/buffer.h"
#include "ondisk/prio_set.h"
#include "sim/disk_bytes.h"

namespace uc::sim {

namespace {

using Place = DiskChecker::Place;

const char* name_of(Place::Kind kind) {
    switch (kind) {
        case Place::Kind::journal:
            return "journal entry";
        case Place::Kind::priorities:
            return "priority table";
        case Place::Kind::node:
            return "node";
    }
    return "?";
}

// First the kind, since there are many more nodes than anything else.
const Place& draw_place(const std::vector<Place>& places, Rng& rng) {
    const auto kind = static_cast<Place::Kind>(rng.below(3));
    std::vector<const Place*> of_kind;
    for (const Place& place : places) {
        if (place.kind == kind) of_kind.push_back(&place);
    }
    if (of_kind.empty()) return places[rng.below(places.size())];
    return *of_kind[rng.below(of_kind.size())];
}

// A set carries neither its place in the node nor its turn (spec 5.2): one that lies, whole, where
// another set of the same node was is as good as the right one to every reader of the format.
bool passes_for(const Place& other, const Place& place, const ondisk::Geometry& geometry) {
    return place.kind == Place::Kind::node && other.kind == Place::Kind::node &&
           geometry.bucket_of(other.sector) == geometry.bucket_of(place.sector) &&
           other.bytes <= kSectorBytes;
}

}  // namespace

std::optional<Damage> damage(SimDisk& cache, Rng& rng) {
    const DiskBytes bytes(cache);
    const DiskChecker checker(bytes);
    if (checker.places().empty()) return std::nullopt;
    const Place& place = draw_place(checker.places(), rng);
    if (place.bytes <= place.spared) return std::nullopt;
    const std::uint64_t at = place.spared + rng.below(place.bytes - place.spared);
    Damage done;
    done.sector = place.sector + at / kSectorBytes;
    done.before.resize(kSectorBytes);
    cache.peek(done.sector, done.before);
    std::vector<std::byte> now = done.before;
    const std::size_t begin = at < kSectorBytes ? place.spared : 0;
    const std::uint64_t in_place = place.bytes - at / kSectorBytes * kSectorBytes;
    const std::size_t end = std::min<std::uint64_t>(kSectorBytes, in_place);
    const std::span<std::byte> part = std::span(now).subspan(begin, end - begin);
    switch (rng.below(3)) {
        case 0:
            now[at % kSectorBytes] ^= static_cast<std::byte>(1 << rng.below(8));
            break;
        case 1:
            std::ranges::fill(part, std::byte{0});
            break;
        case 2: {
            const Place& other = checker.places()[rng.below(checker.places().size())];
            if (passes_for(other, place, checker.geometry())) return std::nullopt;
            std::vector<std::byte> foreign(kSectorBytes);
            cache.peek(other.sector, foreign);
            std::ranges::copy(std::span(foreign).first(part.size()), part.begin());
            break;
        }
    }
    if (now == done.before) return std::nullopt;
    cache.poke(done.sector, now);
    done.what = std::string(name_of(place.kind)) + " in bucket " +
                std::to_string(place.sector / checker.geometry().bucket_sectors) + ", sector " +
                std::to_string(done.sector);
    return done;
}

void undo(const Damage& damage, SimDisk& cache) {
    cache.poke(damage.sector, damage.before);
}

void age_generations(SimDisk& cache, Rng& rng) {
    const DiskBytes bytes(cache);
    const DiskChecker checker(bytes);
    if (checker.blank() || !checker.problems().empty()) return;
    const ondisk::Geometry& geometry = checker.geometry();
    const std::uint64_t magic = checker.superblock().set_uuid.magic();
    io::Buffer buffer(geometry.metadata_bytes());
    std::uint64_t bucket = checker.priority_bucket();
    std::uint64_t index = 0;
    for (std::uint32_t i = 0; i < geometry.prio_buckets(); ++i) {
        const std::uint64_t sector = geometry.bucket_start(static_cast<BucketIndex>(bucket));
        cache.peek(sector, buffer.span());
        const auto view = ondisk::decode_prio_set(buffer.span(), magic, geometry);
        if (!view) return;
        const std::uint64_t seq = view->seq;
        bucket = view->next_bucket;
        for (ondisk::PrioEntry& entry : ondisk::prio_entries(buffer.span(), geometry)) {
            if (index < checker.buckets() && !checker.mentioned()[index]) {
                entry.gen = static_cast<std::uint8_t>(250 + rng.below(6));
            }
            ++index;
        }
        ondisk::seal_prio_set(buffer.span(), seq, bucket, magic);
        cache.poke(sector, buffer.span());
    }
}

std::uint64_t GenerationWatch::wraps_since(const SimDisk& cache) {
    const DiskBytes bytes(cache);
    const DiskChecker checker(bytes);
    std::uint64_t wraps = 0;
    last_.resize(checker.buckets());
    for (std::uint64_t b = 0; b < checker.buckets(); ++b) {
        const std::uint8_t now = checker.generation(b).raw();
        wraps += now < last_[b];
        last_[b] = now;
    }
    return wraps;
}

}  // namespace uc::sim
