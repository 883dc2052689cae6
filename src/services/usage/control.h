// Control requests of `tutti usage` (protocol/control.h). They come through a server's control
// socket, or the command opens the store itself.
//
// {"op":"usage.sums","by":"key","from_ms":0,"to_ms":1800000000000}
//     -> {"sums":[{"group":"key:a1","name":"robot","requests":2,...},...]}
// {"op":"usage.rows","form":"csv","from_ms":0,"to_ms":...,"after_ms":0,"after_id":0}
//     -> {"lines":"...","rows":500,"after_ms":...,"after_id":...}: a page, and where the
//        next one begins; one without rows is the last
//
// `by`: tenant, key, user, model, route or day. `form`: csv or json (a line each). Times are
// milliseconds since 1970; a stretch of them is [from, to). What may be left out: from_ms (0),
// to_ms (for ever), the place after which to read (the beginning).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/store.h"

namespace tutti::usage {

// Whether a request is one of these, by its `op`.
bool IsUsageRequest(std::string_view request);

// Display names of the ledger's keys ("key:a1" -> "robot"); sums by key show them as `name`.
using KeyNames = std::function<Result<std::map<std::string, std::string>>()>;

// Waits for the disk: not for an io thread.
Result<std::string> HandleControl(store::Store& store, const KeyNames& names,
                                  std::string_view request);

}  // namespace tutti::usage
