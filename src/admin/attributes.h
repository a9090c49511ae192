// Every knob, fact and command of a running set under its sysfs name (format section 8.3 to 8.6):
// one table for the status, `ubcache get` and `set`, the settings file, the metrics and the
// sysfs-shaped tree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "admin/outcome.h"
#include "admin/stats_account.h"
#include "async/task.h"
#include "base/result.h"
#include "core/cache_set.h"

namespace uc::admin {

// What attributes need of the daemon beyond the set itself.
class AttributeHost {
public:
    virtual ~AttributeHost() = default;
    // Up to now. Null: of the whole set.
    virtual const StatsAccount& account(const core::SetVolume* volume) = 0;
    virtual void clear_stats(const core::SetVolume* volume) = 0;
    // Attaches a volume that runs without the set. Errc::not_found: `set` is another one.
    virtual Task<Result<void>> attach(core::SetVolume* volume, ondisk::Uuid set) = 0;
    virtual Task<Result<void>> create_volume(std::uint64_t bytes) = 0;
    // Front ends find volumes by their labels, too.
    virtual void label_changed() = 0;
    // These begin what takes its time, and return.
    virtual Result<void> begin_detach(core::SetVolume* volume) = 0;
    virtual Result<void> begin_garbage_collection() = 0;
    virtual Result<void> begin_stop(bool detach_all) = 0;
};

// What an attribute belongs to. `volume` is null for the scopes set and cache.
struct AttributeTarget {
    core::CacheSet* set = nullptr;
    core::SetVolume* volume = nullptr;
    AttributeHost* host = nullptr;
};

struct AttributeValue {
    std::uint64_t number = 0;  // all formats but text and command; for a choice its index
    std::string text;          // Format::text and command
};

struct Attribute {
    enum class Scope : std::uint8_t { set, cache, volume };
    enum class Kind : std::uint8_t { any, backed, flash_only };  // of volumes
    enum class Format : std::uint8_t {
        decimal,
        human,  // bytes in the kernel's "h" format
        // Sectors per second if written as a plain number, bytes per second with a suffix.
        rate,        // shown as bytes in "h"
        plain_rate,  // shown as sectors
        choice,      // words, the current one in brackets
        text,        // may have several lines
        command,     // written only
    };

    std::string_view name;  // may contain one '/', as below a directory of the tree
    Scope scope = Scope::set;
    Format format = Format::decimal;
    std::string_view unit{};     // of the number; empty: none
    std::string_view meaning{};  // for people, without a full stop
    AttributeValue (*get)(const AttributeTarget& target) = nullptr;  // null: a command
    // One of these, or none: read-only. assign() takes effect at once; store() is durable, or an
    // action.
    void (*assign)(const AttributeTarget& target, std::uint64_t number) = nullptr;
    Task<Result<void>> (*store)(AttributeTarget target, AttributeValue value) = nullptr;
    std::uint64_t min = 0;
    std::uint64_t max = 0;
    std::span<const std::string_view> choices{};
    Kind kind = Kind::any;
    // What it is before anybody sets it, as written in a settings file. Empty: it is not a setting
    // (a fact, a command, or kept on the devices).
    std::string_view preset{};

    bool readable() const { return get != nullptr; }
    bool writable() const { return assign != nullptr || store != nullptr; }
    bool applies_to(const core::SetVolume* volume) const;
};

std::span<const Attribute> attributes();
// Null if there is none of that name. Some names exist in more than one scope.
const Attribute* find_attribute(std::string_view name, Attribute::Scope scope);
// That can be written, or else any: the set's first, or only a volume's.
const Attribute* find_attribute(std::string_view name, bool of_volume = false);
// `name` is the attribute's, with or without "internal/".
bool same_name(const Attribute& attribute, std::string_view name);
// "cache_mod: no attribute that can be set; did you mean cache_mode?"
std::string no_attribute(std::string_view name);
// The same for attributes of any kind.
std::string unknown_attribute(std::string_view name);

// As in sysfs, without the last newline.
std::string format_value(const Attribute& attribute, const AttributeValue& value);
std::string read_attribute(const Attribute& attribute, const AttributeTarget& target);
// Text that parse_value() gives the same value for.
std::string exact_text(const Attribute& attribute, const AttributeValue& value);
bool numeric(const Attribute& attribute);

// What to do with a number out of range. `ubcache set` refuses it: what somebody asked for would
// not be what he has. The tree does as the kernel does.
enum class OutOfRange : std::uint8_t { refuse, clamp };
// "4M" and "4194304" alike. The error says what was expected, without the attribute's name.
Outcome<AttributeValue> parse_value(const Attribute& attribute, std::string_view text,
                                    OutOfRange policy = OutOfRange::refuse);
// Errc::read_only: it cannot be written.
Task<Result<void>> write_attribute(const Attribute& attribute, AttributeTarget target,
                                   AttributeValue value);

// Hits per cent of all cacheable reads and writes; 0 if there were none.
std::uint64_t hit_ratio_percent(const core::VolumeStats& stats);

}  // namespace uc::admin
