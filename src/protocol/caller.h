// JSON of GET /v1/me: the caller of a request as the server knows it, what is left of its limits,
// and what the server offers. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/caller.h"

namespace tutti::protocol {

struct CallerView {
  // The server requires credentials; otherwise every local client is the same caller.
  bool keys = false;
  std::string_view kind;                  // "key", "user", "token" or "open"
  std::string id, name, tenant;           // as in logs
  std::vector<std::string_view> routes;   // classes of routes that it may use
  std::vector<std::string> model_scope;   // model names that were given to it; empty: all
  std::vector<std::string> models;        // ids of the served models that it may use
  bool admin = false;                     // it may use the routes of operators
  std::optional<int64_t> expires_s = {};  // unix
  std::vector<api::CallerLimitState> limits = {};

  std::string version;                                          // of the server
  std::vector<std::pair<std::string_view, bool>> services;      // name, and whether it is offered
  int64_t body_bytes = 0, upload_bytes = 0, max_timeout_s = 0;  // of requests
};
std::string CallerJson(const CallerView& caller);

}  // namespace tutti::protocol
