// JSON of the live state of engines and of the traces of requests, for operators (docs/live.md).
// Pure.
//
// Times of the process's monotonic clock are in milliseconds, with fractions.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/live_state.h"
#include "api/request_trace.h"
#include "base/clock.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// Members of an object that was begun: engines, model_waits, clients, sessions, workers, limits.
void WriteLiveState(const api::LiveState& state, TimePoint now, JsonWriter* json);

// The answer of GET /admin/requests/{id}. `steps`: of the engines, of which those are shown in
// which the request had a part.
std::string TraceBody(std::string_view id,
                      std::span<const std::shared_ptr<const api::RequestTrace>> traces,
                      const api::LiveState& steps, TimePoint now);

}  // namespace tutti::protocol
