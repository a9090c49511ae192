#include <algorithm>
#include <charconv>
#include <string_view>

#include "sim/plan.h"

namespace uc::sim {

namespace {

template <class Function>
void each_number(Limits& limits, Function function) {
    function("lives", limits.lives);
    function("ops", limits.ops);
    function("clients", limits.clients);
    function("volumes", limits.volumes);
    function("sectors", limits.sectors);
    function("salt", limits.salt);
}

template <class Function>
void each_switch(Limits& limits, Function function) {
    function("faults", limits.faults);
    function("administration", limits.administration);
    function("discards", limits.discards);
}

bool set(Limits& limits, std::string_view name, std::uint64_t value) {
    bool found = false;
    each_number(limits, [&](std::string_view known, std::uint64_t& number) {
        if (known != name) return;
        number = value;
        found = true;
    });
    each_switch(limits, [&](std::string_view known, bool& on) {
        if (known != name) return;
        on = value != 0;
        found = true;
    });
    return found;
}

}  // namespace

std::string Limits::text() const {
    std::string text;
    const auto add = [&text](std::string_view name, std::uint64_t value) {
        text += (text.empty() ? "" : ",") + std::string(name) + "=" + std::to_string(value);
    };
    Limits copy = *this;
    each_number(copy, [&](std::string_view name, std::uint64_t value) {
        if (value != (name == "salt" ? 0 : kNone)) add(name, value);
    });
    each_switch(copy, [&](std::string_view name, bool on) {
        if (!on) add(name, 0);
    });
    return text;
}

std::optional<Limits> Limits::parse(const std::string& text) {
    Limits limits;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::string_view item = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), item.size() + 1));
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos) return std::nullopt;
        std::uint64_t value = 0;
        const char* const end = item.data() + item.size();
        const auto [stop, error] = std::from_chars(item.data() + equals + 1, end, value);
        if (error != std::errc{} || stop != end) return std::nullopt;
        if (!set(limits, item.substr(0, equals), value)) return std::nullopt;
    }
    return limits;
}

void apply(const Limits& limits, Plan& plan) {
    plan.cycles = static_cast<unsigned>(std::min<std::uint64_t>(plan.cycles, limits.lives));
    if (plan.volumes.size() > limits.volumes) plan.volumes.resize(limits.volumes);
    if (!limits.faults) plan.faults = plan.outages = plan.damage = false;
}

void apply(const Limits& limits, Phase& phase) {
    phase.clients = static_cast<unsigned>(std::min<std::uint64_t>(phase.clients, limits.clients));
    phase.max_sectors =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(phase.max_sectors, limits.sectors));
    if (!limits.discards) phase.discards = phase.zeroes = 0;
}

}  // namespace uc::sim
