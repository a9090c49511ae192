// What the requests on the control socket do (docs/control-protocol.md).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "admin/attributes.h"
#include "admin/control_server.h"
#include "admin/served_set.h"
#include "admin/write_back_requests.h"
#include "async/sync.h"
#include "io/clock.h"

namespace uc::admin {

class ControlRequests final : public ControlHandler {
public:
    // `request_stop` begins the daemon's end; `stopped()` is to be called when the set has stopped.
    ControlRequests(async::Executor& executor, io::Clock& clock, ServedSet& served,
                    std::function<void()> request_stop);

    Task<std::string> handle(std::string request, ControlReply& reply) override;
    std::string refusal(const char* reason) override;
    void stopped(std::string failure);

private:
    using Answer = Task<Outcome<nlohmann::json>>;
    Answer dispatch(const nlohmann::json& request, ControlReply& reply);
    Answer get(const nlohmann::json& request);
    Answer set_attributes(const nlohmann::json& request);
    Answer attach(const nlohmann::json& request);
    Answer detach(const nlohmann::json& request, ControlReply& reply);
    Answer abandon(const nlohmann::json& request);
    Answer flush(const nlohmann::json& request, ControlReply& reply);
    Answer stop(const nlohmann::json& request, ControlReply& reply);
    Task<Outcome<>> wait_for_stop();
    Answer create_volume(const nlohmann::json& request);
    Answer collect_garbage();

    Task<Outcome<>> set_one(const Attribute* attribute, AttributeValue value, std::string volume);
    Outcome<ServedVolume> named_volume(const std::string& name) const;

    ServedSet& served_;
    std::function<void()> request_stop_;
    WriteBackRequests write_back_;
    async::Event stopped_;
    bool is_stopped_ = false;
    std::string stop_failure_;
};

}  // namespace uc::admin
