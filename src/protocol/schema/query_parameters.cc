#include "protocol/schema/query_parameters.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/url.h"
#include "protocol/job.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

constexpr size_t kMaxAfterBytes = 256;

Result<std::string> Unescape(std::string_view text) {
  std::string blanks(text);
  std::replace(blanks.begin(), blanks.end(), '+', ' ');
  std::optional<std::string> out = PercentDecode(blanks);
  if (!out) return InvalidArgument("invalid_value", "the query has a bad escape: " + Excerpt(text));
  if (!IsValidUtf8(*out)) return InvalidArgument("invalid_utf8", "the query is not UTF-8");
  return *std::move(out);
}

// Lists have items of conversations and inputs, which are stored without log-probabilities.
Status CheckInclude(const QueryParameter& parameter) {
  if (parameter.second != "message.output_text.logprobs") return OkStatus();
  return NotSupported("include", "items are listed without log-probabilities; read their response");
}

Status NoteUnknown(const std::string& name, const ParseOptions& options, IgnoredFields* ignored) {
  if (options.strict) {
    return InvalidArgument("unknown_parameter", "unknown parameter " + Excerpt(name))
        .WithParam(Excerpt(name));
  }
  ignored->Add(name);
  return OkStatus();
}

Result<int64_t> ReadEventNumber(std::string_view value) {
  const std::optional<int64_t> number = ReadWholeNumber(value);
  if (number.has_value()) return *number;
  return BadValue("starting_after", "starting_after must be the number of an event");
}

bool MayRepeat(const std::string& name) { return name == "include" || name == "include[]"; }

// Few enough to compare each with each.
Status CheckOnce(std::span<const QueryParameter> parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::string& name = parameters[i].first;
      if (name == parameters[j].first && !MayRepeat(name))
        return BadValue(Excerpt(name), Excerpt(name) + " is given twice");
    }
  }
  return OkStatus();
}

Result<bool> ReadFlag(const QueryParameter& parameter) {
  if (parameter.second == "true") return true;
  if (parameter.second == "false") return false;
  return BadValue(parameter.first, parameter.first + " must be true or false");
}

}  // namespace

Result<std::vector<QueryParameter>> DecodeQuery(std::string_view query) {
  std::vector<QueryParameter> parameters;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.empty()) continue;
    if (parameters.size() == kMaxQueryParameters)
      return InvalidArgument("invalid_value", "the query has more than 32 parameters");
    const size_t equals = part.find('=');
    ASSIGN_OR_RETURN(std::string name, Unescape(part.substr(0, equals)));
    ASSIGN_OR_RETURN(
        std::string value,
        Unescape(equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1)));
    parameters.emplace_back(std::move(name), std::move(value));
  }
  return parameters;
}

std::optional<int64_t> ReadWholeNumber(std::string_view text) {
  if (text.empty() || text[0] == '-' || (text[0] == '0' && text.size() > 1)) return std::nullopt;
  return ParseNumber<int64_t>(text);
}

Result<ListQuery> ParseListQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  ListQuery query;
  for (const QueryParameter& parameter : parameters) {
    const auto& [name, value] = parameter;
    if (name == "limit") {
      const std::optional<int64_t> number = ReadWholeNumber(value);
      if (!number.has_value() || *number < 1 || *number > static_cast<int64_t>(kMaxPage))
        return BadValue("limit", "limit must be an integer from 1 to 100");
      query.limit = static_cast<int>(*number);
    } else if (name == "order") {
      if (value != "asc" && value != "desc")
        return BadValue("order", "order must be one of asc, desc");
      query.ascending = value == "asc";
    } else if (name == "after") {
      if (value.size() > kMaxAfterBytes) return BadValue("after", "after is no id of an item");
      query.after = value;
    } else if (MayRepeat(name)) {
      RETURN_IF_ERROR(CheckInclude(parameter));
    } else {
      RETURN_IF_ERROR(NoteUnknown(name, options, ignored));
    }
  }
  return query;
}

Result<ConversationListQuery> ParseConversationListQuery(std::span<const QueryParameter> parameters,
                                                         const ParseOptions& options,
                                                         IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  ConversationListQuery query;
  std::vector<QueryParameter> page;
  for (const QueryParameter& parameter : parameters) {
    if (parameter.first != "before") {
      page.push_back(parameter);
      continue;
    }
    if (parameter.second.size() > kMaxAfterBytes)
      return BadValue("before", "before is no id of a conversation");
    query.before = parameter.second;
  }
  ASSIGN_OR_RETURN(query.page, ParseListQuery(page, options, ignored));
  if (!query.before.empty() && !query.page.after.empty())
    return BadValue("before", "before and after exclude each other; send one of them");
  return query;
}

Result<RetrieveQuery> ParseRetrieveQuery(std::span<const QueryParameter> parameters,
                                         const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  RetrieveQuery query;
  for (const QueryParameter& parameter : parameters) {
    const auto& [name, value] = parameter;
    if (name == "stream") {
      ASSIGN_OR_RETURN(query.stream, ReadFlag(parameter));
    } else if (name == "include_obfuscation") {
      ASSIGN_OR_RETURN(query.obfuscation, ReadFlag(parameter));
    } else if (name == "starting_after") {
      ASSIGN_OR_RETURN(query.starting_after, ReadEventNumber(value));
    } else if (!MayRepeat(name)) {  // a response has what its own request included
      RETURN_IF_ERROR(NoteUnknown(name, options, ignored));
    }
  }
  if (query.starting_after.has_value() && !query.stream)
    return BadValue("starting_after", "starting_after needs stream=true");
  return query;
}

Result<CancelQuery> ParseCancelQuery(std::span<const QueryParameter> parameters,
                                     const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  CancelQuery query;
  for (const QueryParameter& parameter : parameters) {
    if (parameter.first == "keep_output") {
      ASSIGN_OR_RETURN(query.keep_output, ReadFlag(parameter));
    } else {
      RETURN_IF_ERROR(NoteUnknown(parameter.first, options, ignored));
    }
  }
  return query;
}

Result<JobListQuery> ParseJobListQuery(std::span<const QueryParameter> parameters,
                                       const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  JobListQuery query;
  std::vector<QueryParameter> page;
  for (const QueryParameter& parameter : parameters) {
    if (parameter.first != "status") {
      page.push_back(parameter);
      continue;
    }
    query.status = parameter.second;
    if (StatesNamed(query.status).empty()) {
      return BadValue("status",
                      "status must be one of queued, running, completed, failed, cancelled, "
                      "expired");
    }
  }
  ASSIGN_OR_RETURN(query.page, ParseListQuery(page, options, ignored));
  return query;
}

Result<JobQuery> ParseJobQuery(std::span<const QueryParameter> parameters,
                               const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  JobQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "wait") {
      const std::optional<int64_t> number = ReadWholeNumber(value);
      if (!number.has_value() || *number > kMaxWaitSeconds)
        return BadValue("wait", "wait must be whole seconds from 0 to 60");
      query.wait_s = *number;
    } else if (name == "starting_after") {
      ASSIGN_OR_RETURN(query.starting_after, ReadEventNumber(value));
    } else {
      RETURN_IF_ERROR(NoteUnknown(name, options, ignored));
    }
  }
  return query;
}

Result<ChatQuery> ParseChatQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  ChatQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "job") {
      query.job_id = value;
    } else if (name == "user") {
      query.user = value;
    } else if (name == "starting_after") {
      ASSIGN_OR_RETURN(query.starting_after, ReadEventNumber(value));
    } else {
      RETURN_IF_ERROR(NoteUnknown(name, options, ignored));
    }
  }
  if (query.starting_after.has_value() && query.job_id.empty())
    return BadValue("starting_after", "starting_after needs job");
  return query;
}

Result<LiveQuery> ParseLiveQuery(std::span<const QueryParameter> parameters,
                                 const ParseOptions& options, IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckOnce(parameters));
  LiveQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "interval_ms") {
      const std::optional<int64_t> number = ReadWholeNumber(value);
      if (!number.has_value() || *number < 100 || *number > 10000)
        return BadValue("interval_ms", "interval_ms must be an integer from 100 to 10000");
      query.interval = std::chrono::milliseconds(*number);
    } else {
      RETURN_IF_ERROR(NoteUnknown(name, options, ignored));
    }
  }
  return query;
}

}  // namespace tutti::protocol
