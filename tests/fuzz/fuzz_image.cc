// Whole sets: the engine opens, uses and closes copies of the golden sets with hostile changes.
//
// An input is small: which set, then edits of 16 bytes, each a change of one word of one structure,
// with or without the checksum made right afterwards. The set is opened for reading only, where no
// byte may be written in any case; then for writing, where none may be if it is refused. Whatever
// is served is read, written, discarded, written back and collected, and what an orderly end has
// left must be good enough to be opened again.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>

#include "base/check.h"
#include "core/cache_set.h"
#include "fuzz_bytes.h"
#include "image_base.h"
#include "io/buffer.h"
#include "sim/sim_world.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace uc::fuzz {
namespace {

constexpr std::size_t kMaxEdits = 48;

enum class How : std::uint8_t { set64, set32, set16, set8, add64, flip_bits, copy64, zero, count_ };

struct Edit {
    std::uint8_t part = 0;
    std::uint8_t how = 0;
    std::uint8_t broken = 0;  // 0, 1, 2 of 4: the checksum is made right
    std::uint8_t pad = 0;
    Le<std::uint16_t> which;  // of the structures of that kind
    Le<std::uint16_t> at;     // byte
    Le<std::uint64_t> value;
};
static_assert(sizeof(Edit) == 16);

const std::vector<BaseSet>& bases() {
    static const std::vector<BaseSet> sets = load_base_sets();
    return sets;
}

// Completes everything at once.
class Device final : public io::BlockDevice {
public:
    Device(std::string name, sim::Contents contents, std::uint64_t sectors)
        : contents_(std::move(contents)), sectors_(sectors), name_(std::move(name)) {}

    bool submit(io::IoRequest* request) override {
        request->succeed();
        if (request->kind == io::IoKind::flush) return true;
        if (request->sector > sectors_ || request->sectors > sectors_ - request->sector) {
            request->fail({Errc::invalid, 0, "request beyond the end of the device"});
            return true;
        }
        const std::size_t bytes = request->sectors * kSectorBytes;
        if (request->kind == io::IoKind::read) {
            contents_.read(request->sector, {request->data, bytes});
            return true;
        }
        ++writes;
        if (request->kind == io::IoKind::write) {
            contents_.write(request->sector, {request->data, bytes});
        } else {
            contents_.zero(request->sector, request->sectors);
        }
        return true;
    }
    std::uint64_t size_sectors() const override { return sectors_; }
    std::uint32_t logical_block_sectors() const override { return 1; }
    bool supports_discard() const override { return true; }
    const std::string& name() const override { return name_; }

    std::uint64_t writes = 0;

private:
    sim::Contents contents_;
    std::uint64_t sectors_;
    std::string name_;
};

using Devices = std::vector<std::unique_ptr<Device>>;

const Place* find_place(const BaseSet& base, const Edit& edit) {
    const auto part = static_cast<Part>(edit.part % static_cast<std::uint8_t>(Part::count_));
    std::vector<const Place*> fitting;
    for (const Place& place : base.places) {
        if (place.part == part) fitting.push_back(&place);
    }
    return fitting.empty() ? nullptr : fitting[edit.which % fitting.size()];
}

void change(std::span<std::byte> bytes, const Edit& edit) {
    const std::size_t at = edit.at % (bytes.size() - 8);
    const std::uint64_t value = edit.value;
    switch (static_cast<How>(edit.how % static_cast<std::uint8_t>(How::count_))) {
        case How::set64:
            return store(bytes, at, value);
        case How::set32:
            return store(bytes, at, static_cast<std::uint32_t>(value));
        case How::set16:
            return store(bytes, at, static_cast<std::uint16_t>(value));
        case How::set8:
            return store(bytes, at, static_cast<std::uint8_t>(value));
        case How::add64:
            return store(bytes, at, load<std::uint64_t>(bytes, at) + value);
        case How::flip_bits:
            return store(bytes, at, load<std::uint64_t>(bytes, at) ^ value);
        case How::copy64:
            return store(bytes, at, load<std::uint64_t>(bytes, value % (bytes.size() - 8)));
        case How::zero:
        case How::count_:
            std::ranges::fill(bytes.subspan(at), std::byte{});
    }
}

void apply(const BaseSet& base, std::vector<Disk>& disks, const Edit& edit) {
    Place place;
    if (const Place* const found = find_place(base, edit)) {
        place = *found;
    } else {
        place.disk = edit.which % static_cast<unsigned>(disks.size());
        place.sectors = 1;
        place.sector = edit.value % disks[place.disk].sectors;
    }
    Disk& disk = disks[place.disk];
    if (place.sector + place.sectors > disk.sectors || place.sectors == 0) return;
    Bytes bytes = read_sectors(disk, place.sector, place.sectors);
    change(bytes, edit);
    if (edit.broken % 4 != 3) repair(base, place, bytes);
    disk.contents.write(place.sector, bytes);
}

class Session {
public:
    Session(const BaseSet& base, Devices& devices, bool read_only)
        : base_(base), devices_(devices), read_only_(read_only) {}
    ~Session() { world_.crash(sim::CrashKind::process_death); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Whether it was opened, and ended without an error; if not opened, refusal() says why.
    bool go() {
        core::SetOptions options;
        options.read_only = read_only_;
        core::Report report;
        const core::Env env{world_.executor(), world_.clock(), rng_};
        const std::uint64_t before = writes();
        auto opened = run(core::CacheSet::open(env, *devices_.front(), options, report));
        if (!opened) {
            CHECK(!report.refusal.empty());
            CHECK(writes() == before);
            refusal_ = report.refusal;
            return false;
        }
        set_ = std::move(*opened);
        for (std::size_t i = 1; i < devices_.size(); ++i) add(*devices_[i]);
        for (core::SetVolume* volume : set_->volumes()) use(*volume);
        if (read_only_) CHECK(writes() == before);
        if (!read_only_) static_cast<void>(run(set_->collect_garbage()));
        const bool sound = set_->failure().empty();
        const Result<void> stopped = run(set_->stop());
        set_.reset();
        if (read_only_) CHECK(writes() == before);
        return sound && stopped.has_value();
    }

    const std::string& refusal() const { return refusal_; }

private:
    std::uint64_t writes() const {
        std::uint64_t sum = 0;
        for (const auto& device : devices_) sum += device->writes;
        return sum;
    }

    void add(Device& device) {
        core::Report report;
        const std::uint64_t before = device.writes;
        const auto added = run(set_->add_backing(device, core::AttachMode::known, report));
        if (added) return;
        CHECK(!report.refusal.empty());
        CHECK(device.writes == before);
    }

    // Errors are as good as success here.
    void use(core::SetVolume& volume) {
        const std::uint64_t size = volume.size_sectors();
        io::Buffer buffer(kPiece * kSectorBytes);
        const auto piece = [&](std::uint64_t at) {
            return buffer.span().first(std::min<std::uint64_t>(kPiece, size - at) * kSectorBytes);
        };
        for (std::uint64_t i = 0; i < 32 && size != 0; ++i) {
            const std::uint64_t at = i * (size / 32);
            static_cast<void>(run(volume.read(at, piece(at))));
        }
        static_cast<void>(run(set_->dirty_ranges(volume.uuid())));
        if (read_only_ || size == 0) return;
        for (std::uint64_t i = 0; i < 8; ++i) {
            const std::uint64_t at = i * (size / 8);
            static_cast<void>(run(volume.write(at, piece(at), core::WriteFlags{.fua = i == 3})));
            static_cast<void>(
                run(volume.discard(at + kPiece / 2, std::min<std::uint64_t>(8, size - at - 1))));
        }
        static_cast<void>(run(volume.flush()));
        if (!volume.flash_only()) static_cast<void>(run(volume.write_back_all()));
    }

    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        world_.executor().spawn(keep(std::move(task), result));
        const sim::Ended ended =
            world_.run_until([&] { return result.has_value(); }, std::chrono::hours(2));
        if (ended != sim::Ended::done) {
            std::fprintf(stderr, "%s: an operation never ends: %s\n", base_.name.c_str(),
                         set_ ? set_->describe().c_str() : "opening");
            std::abort();
        }
        return std::move(*result);
    }
    template <class T>
    static Task<void> keep(Task<T> task, std::optional<T>& out) {
        T result = co_await std::move(task);
        out.emplace(std::move(result));
    }

    static constexpr std::uint64_t kPiece = 64;

    const BaseSet& base_;
    Devices& devices_;
    bool read_only_;
    sim::SimWorld world_{1};
    Rng rng_{5};
    std::unique_ptr<core::CacheSet> set_;
    std::string refusal_;
};

void run_input(std::span<const std::byte> input) {
    const BaseSet& base = bases()[load<std::uint8_t>(input, 0) % bases().size()];
    std::vector<Disk> disks = base.disks;
    const std::size_t edits = std::min((input.size() - 1) / sizeof(Edit), kMaxEdits);
    for (std::size_t i = 0; i < edits; ++i) {
        Edit edit;
        std::memcpy(&edit, input.data() + 1 + i * sizeof edit, sizeof edit);
        apply(base, disks, edit);
    }
    Devices devices;
    for (Disk& disk : disks) {
        devices.push_back(std::make_unique<Device>("disk" + std::to_string(devices.size()),
                                                   std::move(disk.contents), disk.sectors));
    }
    Session(base, devices, true).go();
    if (!Session(base, devices, false).go()) return;
    Session again(base, devices, false);
    again.go();
    if (again.refusal().empty()) return;
    std::fprintf(stderr, "%s: what was left is refused: %s\n", base.name.c_str(),
                 again.refusal().c_str());
    std::abort();
}

class Mutator {
public:
    explicit Mutator(unsigned seed) : dice_(seed) {}

    std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
        std::size_t edits = std::min((size - 1) / sizeof(Edit), kMaxEdits);
        const std::size_t most = std::min((max_size - 1) / sizeof(Edit), kMaxEdits);
        const unsigned what = draw(8);
        if (what == 0) return LLVMFuzzerMutate(data, size, max_size);
        if (what == 1) {
            data[0] = static_cast<std::uint8_t>(draw(256));
        } else if (what == 2 && edits > 1) {
            --edits;  // drops one: the last takes its place
            const std::size_t gone = draw(static_cast<unsigned>(edits) + 1);
            std::memcpy(slot(data, gone), slot(data, edits), sizeof(Edit));
        } else if ((what <= 4 && edits > 0) || edits >= most) {
            if (edits == 0) return size;
            nudge(slot(data, draw(static_cast<unsigned>(edits))));
        } else {
            const Edit edit = fresh();
            std::memcpy(slot(data, edits++), &edit, sizeof edit);
        }
        return 1 + edits * sizeof(Edit);
    }

private:
    unsigned draw(unsigned below) { return static_cast<unsigned>(dice_()) % below; }
    static std::uint8_t* slot(std::uint8_t* data, std::size_t i) {
        return data + 1 + i * sizeof(Edit);
    }

    std::uint64_t word() {
        const std::uint64_t wide = std::uint64_t{dice_()} << 32 | dice_();
        switch (draw(6)) {
            case 0:
                return draw(2) != 0 ? 0 : ~std::uint64_t{0};
            case 1:
                return std::uint64_t{1} << draw(64);
            case 2:
                return (std::uint64_t{1} << draw(64)) - 1;
            case 3:
                return draw(64);
            case 4:
                return wide >> draw(64);
            default:
                return wide;
        }
    }

    // Most fields are words at the beginning; keys follow, two or three words each.
    Edit fresh() {
        Edit edit;
        edit.part = static_cast<std::uint8_t>(draw(static_cast<unsigned>(Part::count_)));
        if (draw(3) == 0) edit.part = static_cast<std::uint8_t>(Part::node_set);
        edit.how = static_cast<std::uint8_t>(draw(static_cast<unsigned>(How::count_)));
        edit.broken = static_cast<std::uint8_t>(draw(4));
        edit.which = static_cast<std::uint16_t>(draw(65536));
        const unsigned at = draw(4) == 0 ? draw(65536) : draw(4) == 0 ? draw(512) : 8 * draw(48);
        edit.at = static_cast<std::uint16_t>(at);
        edit.value = word();
        return edit;
    }

    void nudge(std::uint8_t* at) {
        Edit edit;
        std::memcpy(&edit, at, sizeof edit);
        const Edit other = fresh();
        switch (draw(5)) {
            case 0:
                edit.which = other.which;
                break;
            case 1:
                edit.at = other.at;
                break;
            case 2:
                edit.how = other.how;
                break;
            case 3:
                edit.broken = other.broken;
                break;
            default:
                edit.value = other.value;
        }
        std::memcpy(at, &edit, sizeof edit);
    }

    std::minstd_rand dice_;
};

}  // namespace
}  // namespace uc::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    uc::fuzz::bases();
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
    if (size == 0) return LLVMFuzzerMutate(data, size, max_size);
    return uc::fuzz::Mutator(seed).mutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0 || uc::fuzz::bases().empty()) return 0;
    uc::fuzz::run_input(uc::fuzz::input(data, size));
    return 0;
}
