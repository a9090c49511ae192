// Members of a set that appear while it is served. `ubcache assemble` notes them in the set's
// directory; here they are taken into service, in whatever order they come.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "admin/served_set.h"
#include "admin/set_directory.h"
#include "async/sync.h"
#include "async/task.h"
#include "io/clock.h"

namespace uc::admin {

class Arrivals {
public:
    using Log = std::function<void(const std::string&)>;

    // The arguments outlive it. Options with a set to be assembled.
    Arrivals(io::Clock& clock, ServedSet& served, const ServeOptions& options, Log log);
    Arrivals(const Arrivals&) = delete;
    Arrivals& operator=(const Arrivals&) = delete;

    // Looks once a second, until stop().
    Task<void> run();
    // Waits until all that the set knows are in service, the options' time is over, or stop().
    Task<void> complete();
    void stop();

private:
    Task<void> look();
    bool is_served(const ondisk::Uuid& uuid) const;
    void tell_of_cache();

    io::Clock& clock_;
    ServedSet& served_;
    const ServeOptions& options_;
    SetDirectory directory_;
    Log log_;
    std::set<ondisk::Uuid> refused_;  // and said so
    bool cache_told_ = false;
    bool looked_ = false;
    bool stopping_ = false;
    async::Event changed_;
};

}  // namespace uc::admin
