// The header X-Request-Timeout-Ms. Pure.
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "server/http/connection/message_parser.h"

namespace tutti::http {

// A positive number of milliseconds after `start`, `cap` at most; absent: TimePoint::max().
Result<TimePoint> HeaderDeadline(const HttpRequest& request, TimePoint start, Duration cap);

}  // namespace tutti::http
