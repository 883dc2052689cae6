// Fields of the head of a request that several routes read: header fields and the query. Called by
// handlers, on their thread.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/message_parser.h"

namespace tutti::http {

// --- X-Request-Timeout-Ms ---

// A positive number of milliseconds after the start of the request, at most
// HttpLimits::deadline_cap; absent: TimePoint::max().
Result<TimePoint> HeaderDeadline(Connection& connection);

// --- Idempotency-Key ---
//
// With this field a client identifies a request, so that it can safely send the request again.

inline constexpr const char* kIdempotencyKey = "idempotency-key";

// Returns the key, or an empty string if there is none. Errors: invalid_value.
Result<std::string> ReadIdempotencyKey(const HttpRequest& request);

// --- the query as a route reads it, and pages of lists ---

// The parameters of the target's query; none without one. Errors: those of DecodeQuery().
inline Result<std::vector<protocol::QueryParameter>> QueryOf(std::string_view target) {
  const size_t mark = std::min(target.find('?'), target.size());
  return protocol::DecodeQuery(target.substr(std::min(mark + 1, target.size())));
}

// `read` is one of the functions of protocol/schema/query_parameters.h.
template <typename Query>
Result<Query> ReadQuery(Connection& connection,
                        Result<Query> (*read)(std::span<const protocol::QueryParameter>,
                                              const protocol::ParseOptions&,
                                              protocol::IgnoredFields*),
                        protocol::IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const std::vector<protocol::QueryParameter> parameters,
                   QueryOf(connection.request().target));
  const protocol::ParseOptions options{connection.context().options.strict};
  return read(parameters, options, ignored);
}

// Lists are asked for with one element more than the page of `limit` elements. Drops that one;
// whether there was one.
template <typename T>
bool CutPage(std::vector<T>* page, size_t limit) {
  const bool more = page->size() > limit;
  if (more) page->resize(limit);
  return more;
}

}  // namespace tutti::http
