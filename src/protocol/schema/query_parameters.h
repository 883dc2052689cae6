// Query strings of GET requests: `name=value` pairs after the question mark, and the typed queries
// of the list, response, job and chat routes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

using QueryParameter = std::pair<std::string, std::string>;  // both decoded

inline constexpr size_t kMaxQueryParameters = 32;

// Decodes percent escapes and '+'. A name without '=' has an empty value; empty pairs are skipped.
// Errors: invalid_value (a bad escape, more than kMaxQueryParameters), invalid_utf8.
Result<std::vector<QueryParameter>> DecodeQuery(std::string_view query);

// Parses all of `text` as a non-negative decimal number without sign and leading zeros.
std::optional<int64_t> ReadWholeNumber(std::string_view text);

// Query of a list of items. All parsers of this header reject a name that is given twice. An
// unknown name is added to `ignored`; in strict mode it is an error (unknown_parameter).
struct ListQuery {
  int limit = 20;          // 1 to 100
  bool ascending = false;  // oldest first
  std::string after;       // the id of the item that the page follows; empty: none
};
Result<ListQuery> ParseListQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored);

// Query of GET /v1/conversations. `before` and `after` exclude each other.
struct ConversationListQuery {
  ListQuery page;
  std::string before;  // the id of the conversation that the page precedes; empty: none
};
Result<ConversationListQuery> ParseConversationListQuery(std::span<const QueryParameter> parameters,
                                                         const ParseOptions& options,
                                                         IgnoredFields* ignored);

// Query of GET /v1/responses/{id}.
struct RetrieveQuery {
  bool stream = false;                    // its events, and those to come, instead of the object
  std::optional<int64_t> starting_after;  // the last event seen; only with `stream`
  bool obfuscation = false;
};
Result<RetrieveQuery> ParseRetrieveQuery(std::span<const QueryParameter> parameters,
                                         const ParseOptions& options, IgnoredFields* ignored);

// Query of POST /v1/responses/{id}/cancel.
struct CancelQuery {
  bool keep_output = false;  // its conversation keeps the message and the text so far
};
Result<CancelQuery> ParseCancelQuery(std::span<const QueryParameter> parameters,
                                     const ParseOptions& options, IgnoredFields* ignored);

// Query of GET /v1/jobs.
struct JobListQuery {
  ListQuery page;
  std::string status;  // a public word; empty: all
};
Result<JobListQuery> ParseJobListQuery(std::span<const QueryParameter> parameters,
                                       const ParseOptions& options, IgnoredFields* ignored);

// Query of GET /v1/jobs/{id} and of GET /v1/jobs/{id}/events.
struct JobQuery {
  int64_t wait_s = 0;                     // for its end, at most; 0 to 60
  std::optional<int64_t> starting_after;  // the last event seen
};
Result<JobQuery> ParseJobQuery(std::span<const QueryParameter> parameters,
                               const ParseOptions& options, IgnoredFields* ignored);

// Query of GET /v1/ws: a job to follow from the start, and the user when authentication is off.
struct ChatQuery {
  std::string job_id;                     // `job`; empty: none
  std::optional<int64_t> starting_after;  // the last event of it that was seen; only with `job`
  std::string user;                       // empty: not given
};
Result<ChatQuery> ParseChatQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored);

// Query of GET /admin/events.
struct LiveQuery {
  Duration interval = std::chrono::milliseconds(500);  // between events, at least; 100 ms to 10 s
};
Result<LiveQuery> ParseLiveQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored);

}  // namespace tutti::protocol
