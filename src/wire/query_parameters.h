// Queries of GET requests: `name=value` pairs behind the question mark, and what the routes of
// dialogs read out of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "wire/checked_object.h"
#include "wire/request_placement.h"

namespace tutti::wire {

using QueryParameter = std::pair<std::string, std::string>;  // both decoded

inline constexpr size_t kMaxQueryParameters = 32;

// Percent escapes and '+' decoded; a name without '=' has an empty value, and nothing between two
// '&' is nothing. Errors: invalid_value (a bad escape, too many), invalid_utf8.
Result<std::vector<QueryParameter>> DecodeQuery(std::string_view query);

// All of `text` as a number from 0 that is written with digits alone, as few as it needs.
std::optional<int64_t> ReadWholeNumber(std::string_view text);

// Of a list of items. For both: a name given twice is an error, and so is, in strict mode, one that
// is not known (unknown_parameter); else it is added to `ignored`.
struct ListQuery {
  int limit = 20;          // 1 to 100
  bool ascending = false;  // oldest first
  std::string after;       // the id of the item that the page follows; empty: none
};
Result<ListQuery> ParseListQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored);

// Of GET /v1/responses/{id}.
struct RetrieveQuery {
  bool stream = false;                    // its events, and those to come, instead of the object
  std::optional<int64_t> starting_after;  // the last event seen; only with `stream`
  bool obfuscation = false;
};
Result<RetrieveQuery> ParseRetrieveQuery(std::span<const QueryParameter> parameters,
                                         const ParseOptions& options, IgnoredFields* ignored);

// Of GET /v1/jobs.
struct JobListQuery {
  ListQuery page;
  std::string status;  // a public word; empty: all
};
Result<JobListQuery> ParseJobListQuery(std::span<const QueryParameter> parameters,
                                       const ParseOptions& options, IgnoredFields* ignored);

// Of GET /v1/jobs/{id} and its events.
struct JobQuery {
  int64_t wait_s = 0;                     // for its end, at most; 0 to 60
  std::optional<int64_t> starting_after;  // the last event seen
};
Result<JobQuery> ParseJobQuery(std::span<const QueryParameter> parameters,
                               const ParseOptions& options, IgnoredFields* ignored);

// Of GET /v1/ws: a job to be followed from the beginning, and who speaks, where nobody is asked.
struct ChatQuery {
  std::string job_id;                     // `job`; empty: none
  std::optional<int64_t> starting_after;  // the last event of it that was seen; only with `job`
  std::string user;                       // empty: not given
};
Result<ChatQuery> ParseChatQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored);

}  // namespace tutti::wire
