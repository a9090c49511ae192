#include "sim/machine.h"

#include <algorithm>
#include <utility>

#include "ondisk/superblock.h"

namespace uc::sim {

namespace {

// Far more than any healthy operation takes, write-back of everything included.
constexpr Duration kPatience = std::chrono::hours(6);

ondisk::Uuid draw_uuid(Rng& rng) {
    ondisk::Uuid uuid;
    for (auto& byte : uuid.bytes) byte = static_cast<std::uint8_t>(rng.next() | 1);
    return uuid;
}

void put_superblock(SimDisk& disk, const ondisk::Superblock& sb) {
    const auto bytes = ondisk::encode_superblock(sb);
    disk.poke(ondisk::kSuperblockSector, bytes);
}

std::string text_of(const Error& error) {
    return std::string(name_of(error.code)) + " (" + error.what + ")";
}

}  // namespace

Machine::Machine(std::uint64_t seed, const Mutations& mutations, const Limits& limits)
    : world_(seed),
      plan_(draw_plan(world_.rng())),
      limits_(limits),
      engine_rng_(world_.rng().fork()) {
    for (std::uint64_t i = 0; i < limits.salt; ++i) rng().next();
    apply(limits, plan_);
    plan_.options.mutations = mutations;
    world_.watch(
        [this](const SimDisk& disk, const io::IoRequest& request) { count_writes(disk, request); });
    seen.add(Seen::runs);
    seen.add(Seen::steady_runs, plan_.steady);
    SimDiskOptions options;
    options.name = "cache";
    // A device rarely ends with a whole bucket.
    options.sectors = plan_.nbuckets * plan_.bucket_sectors + rng().below(plan_.bucket_sectors);
    options.atomic_sectors = plan_.atomic_sectors;
    options.logical_block_sectors = plan_.logical_block;
    options.supports_discard = rng().percent(50);
    cache_ = &world_.add_disk(options);
    format_cache();
    std::uint32_t number = 1;
    for (const VolumePlan& plan : plan_.volumes) {
        Target& target = targets_.emplace_back(plan, number++);
        if (!plan.flash_only) format_backing(target);
    }
}

Machine::~Machine() {
    world_.crash(CrashKind::process_death);
    set_.reset();
}

void Machine::format_cache() {
    ondisk::Superblock sb;
    sb.version = 0;
    sb.uuid = draw_uuid(rng());
    sb.set_uuid = draw_uuid(rng());
    sb.set_discard(plan_.discard);
    sb.set_replacement(plan_.replacement);
    sb.nbuckets_or_offset = plan_.nbuckets;
    sb.block_size = static_cast<std::uint16_t>(plan_.block_sectors);
    sb.bucket_size_raw = static_cast<std::uint16_t>(plan_.bucket_sectors);
    sb.nr_in_set = 1;
    sb.first_bucket =
        static_cast<std::uint16_t>(ondisk::Geometry::first_bucket_for(plan_.bucket_sectors));
    put_superblock(*cache_, sb);
}

void Machine::format_backing(Target& target) {
    SimDiskOptions options;
    options.name = target.label;
    options.sectors = target.plan.sectors + target.plan.data_offset;
    options.supports_discard = target.plan.discard;
    options.logical_block_sectors = target.plan.logical_block;
    options.fastest = std::chrono::microseconds(100);
    options.slowest = std::chrono::milliseconds(8);
    target.backing = &world_.add_disk(options);
    ondisk::Superblock sb;
    sb.version = target.plan.data_offset == ondisk::kDefaultDataOffset ? 1 : 4;
    sb.uuid = draw_uuid(rng());
    sb.set_uuid = draw_uuid(rng());
    sb.set_cache_mode(target.plan.mode);
    sb.nbuckets_or_offset = sb.version == 1 ? 0 : target.plan.data_offset;
    sb.block_size = static_cast<std::uint16_t>(plan_.block_sectors);
    put_superblock(*target.backing, sb);
}

Ended Machine::perform(Task<void> task) {
    std::vector<Task<void>> tasks;
    tasks.push_back(std::move(task));
    return perform_all(std::move(tasks));
}

Ended Machine::perform_all(std::vector<Task<void>> tasks) {
    group_ = std::make_unique<async::TaskGroup>(world_.executor());
    for (Task<void>& task : tasks) group_->spawn(std::move(task));
    const Ended ended =
        world_.run_until([this] { return failed() || group_->running() == 0; }, kPatience);
    if (ended == Ended::stuck) fail("an operation never ends; " + describe_state());
    return ended;
}

std::string Machine::describe_state() {
    std::string text = world_.clock().has_timer() ? "timers run" : "nothing is pending";
    if (set_ == nullptr) return text + ", no set";
    const core::CacheSet::BucketCounts counts = set_->bucket_counts();
    text += ", unused " + std::to_string(counts.unused) + ", clean " +
            std::to_string(counts.clean) + ", dirty " + std::to_string(counts.dirty) +
            ", metadata " + std::to_string(counts.metadata) + ", in use " +
            std::to_string(set_->in_use_percent()) + "%, tree depth " +
            std::to_string(set_->tree_depth());
    text += "; " + set_->describe();
    return set_->failure().empty() ? text : text + ", failed: " + set_->failure();
}

core::AttachMode Machine::draw_attach_mode(const Target& target) {
    std::array<std::byte, ondisk::kSuperblockBytes> bytes;
    target.backing->peek(ondisk::kSuperblockSector, bytes);
    const auto sb = ondisk::parse_superblock(bytes);
    if (sb.state() == ondisk::BackingState::none) return core::AttachMode::attach;
    return rng().percent(50) ? core::AttachMode::attach : core::AttachMode::known;
}

// A lap of the ring begins in its first bucket.
void Machine::count_writes(const SimDisk& disk, const io::IoRequest& request) {
    if (traced_.target != nullptr && &disk == traced_.target->backing) trace_request(request);
    if (&disk != cache_ || request.kind != io::IoKind::write || !request.fua) return;
    const std::uint64_t first = ondisk::Geometry::first_bucket_for(plan_.bucket_sectors);
    if (request.sector == first * plan_.bucket_sectors) seen.add(Seen::journal_wraps);
}

Machine::Device Machine::open_handle(SimDisk& disk) {
    std::erase_if(handles_, [&](const auto& handle) { return &handle->disk() == &disk; });
    handles_.push_back(std::make_shared<DiskHandle>(disk));
    return handles_.back();
}

void Machine::unplug(SimDisk& disk, bool for_good) {
    disk.vanish();
    for (const auto& handle : handles_) {
        if (for_good && &handle->disk() == &disk) handle->die();
    }
}

bool Machine::holds_dead_handle() const {
    return std::ranges::any_of(handles_, [](const auto& handle) { return handle->dead(); });
}

void Machine::trace(const std::string& label, std::uint64_t sector) {
    for (Target& target : targets_) {
        if (target.label == label) traced_ = {&target, sector};
    }
}

void Machine::trace_op(const Target& target, const std::string& what, std::uint64_t sector,
                       std::uint64_t sectors) {
    if (traced_.target != &target) return;
    if (sectors != 0 && (traced_.sector < sector || traced_.sector >= sector + sectors)) return;
    const auto now = std::chrono::duration<double>(world_.clock().now().since_start);
    log("    " + std::to_string(now.count()) + " " + target.label + " " + what);
}

void Machine::trace_request(const io::IoRequest& request) {
    const std::uint64_t offset = traced_.target->data_offset();
    const char* const names[] = {"read", "write", "flush", "discard", "write_zeroes"};
    const std::string what = std::string("  disk: ") + names[static_cast<int>(request.kind)] +
                             (request.fua ? " fua" : "") + (request.ok ? "" : " failed");
    const bool whole = request.kind == io::IoKind::flush;
    trace_op(*traced_.target, what, request.sector - (whole ? 0 : offset), request.sectors);
}

// The devices of this machine keep their names.
Task<Result<Machine::Device>> Machine::find(const ondisk::Superblock&, const std::string& name) {
    for (const auto& disk : world_.disks()) {
        if (disk->name() == name && !disk->away()) co_return open_handle(*disk);
    }
    co_return uc::fail(Errc::not_found, "there is no such device");
}

Task<Result<std::unique_ptr<core::CacheSet>>> Machine::open_set() {
    const core::Env env{world_.executor(), world_.clock(), engine_rng_};
    if (!plan_.steady) {
        co_return co_await core::CacheSet::open(env, *cache_, plan_.options, report_);
    }
    Device device = open_handle(*cache_);
    core::SteadySet::Find look = [this](const ondisk::Superblock& wanted, const std::string& name) {
        return find(wanted, name);
    };
    core::SteadySet::Log tell = [this](const std::string& line) { log("  " + line); };
    CO_TRY(std::unique_ptr<core::SteadySet> steady,
           co_await core::SteadySet::open(env, std::move(device), plan_.options, std::move(look),
                                          std::move(tell), report_));
    steady_ = steady.get();
    co_return std::move(steady);
}

Task<void> Machine::open() {
    co_await try_open();
    if (!refusal_.empty()) fail("open: " + refusal_);
}

Task<void> Machine::try_open() {
    report_ = {};
    refusal_.clear();
    Result<std::unique_ptr<core::CacheSet>> opened = co_await open_set();
    if (!opened) {
        refusal_ = text_of(opened.error()) + ": " + report_.refusal;
        co_return;
    }
    set_ = std::move(*opened);
    depth_ = set_->tree_depth();
    for (const std::string& note : report_.notes) {
        log("  " + note);
        const bool replay = note.starts_with("journal replay done, ");
        seen.add(Seen::replayed, replay && !note.starts_with("journal replay done, 0 keys"));
    }
    co_await add_volumes();
}

Task<void> Machine::add_volumes() {
    for (Target& target : targets_) {
        if (target.plan.flash_only) {
            co_await add_flash(target);
        } else {
            co_await add_backing(target);
        }
        if (failed()) co_return;
        target.volume->options() = target.plan.options;
        target.volume->options_changed();
    }
}

Task<Result<core::SetVolume*>> Machine::add_device(SimDisk& disk, core::AttachMode mode) {
    if (steady_ != nullptr) {
        Device device = open_handle(disk);
        co_return co_await steady_->add_backing(std::move(device), mode, report_);
    }
    co_return co_await set_->add_backing(disk, mode, report_);
}

Task<void> Machine::add_backing(Target& target) {
    const core::AttachMode mode = draw_attach_mode(target);
    Result<core::SetVolume*> added = co_await add_device(*target.backing, mode);
    if (!added) {
        fail("add " + target.label + ": " + text_of(added.error()) + ": " + report_.refusal);
        co_return;
    }
    target.volume = *added;
}

Task<void> Machine::add_flash(Target& target) {
    for (core::SetVolume* volume : set_->volumes()) {
        if (volume->flash_only() && volume->label() == target.label) target.volume = volume;
    }
    if (target.volume != nullptr) co_return;
    if (target.created) {
        fail("flash-only volume " + target.label + " has vanished");
        co_return;
    }
    Result<core::SetVolume*> added =
        co_await set_->create_flash_volume(target.plan.sectors, target.label);
    if (!added) {
        fail("create " + target.label + ": " + text_of(added.error()));
        co_return;
    }
    target.volume = *added;
    target.created = true;
}

Task<void> Machine::stop() {
    Result<void> stopped = co_await set_->stop();
    if (!stopped && !tolerant()) fail("stop: " + text_of(stopped.error()));
}

void Machine::close() {
    bool forgotten = false;
    for (const auto& disk : world_.disks()) forgotten |= disk->settle_forgotten();
    for (Target& target : targets_) {
        target.volume = nullptr;
        target.untold = 0;
        target.told = 0;
        target.model.restart();
        if (forgotten) target.model.crash(CrashKind::process_death);
    }
    mishaps = 0;
    steady_ = nullptr;
    set_.reset();
    handles_.clear();
}

void Machine::crash(CrashKind kind) {
    world_.crash(kind);
    if (displaced != nullptr) {
        cache_->restore(*std::exchange(displaced, nullptr));
        cache_->crash(kind);
    }
    for (const auto& disk : world_.disks()) disk->clear_faults();
    close();
    for (Target& target : targets_) target.model.crash(kind);
    seen.add(kind == CrashKind::power_cut ? Seen::power_cuts : Seen::process_deaths);
}

void Machine::fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
}

void Machine::log(const std::string& line) {
    if (sink_) sink_(line);
}

}  // namespace uc::sim
