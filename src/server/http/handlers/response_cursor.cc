#include "server/http/handlers/response_cursor.h"

#include <algorithm>
#include <utility>

namespace tutti::http {
namespace {

constexpr size_t kEventsAtOnce = 16;

}  // namespace

Result<ResponseCursor> ResponseCursor::Open(const std::shared_ptr<responses::Response>& response,
                                            int64_t starting_after, std::shared_ptr<Waker> waker,
                                            Numbers numbers) {
  const bool skips = numbers == Numbers::kResponses && response->base().turn.has_value();
  const int64_t first = skips ? 1 : 0;
  ASSIGN_OR_RETURN(
      responses::ResponseReader reader,
      responses::ResponseReader::Attach(
          response, std::min(starting_after, INT64_MAX - first) + first, std::move(waker)));
  ResponseCursor cursor(std::move(reader), starting_after, first);
  RETURN_IF_ERROR(cursor.Place());
  return cursor;
}

Status ResponseCursor::Place() const {
  return responses::CheckPlace(*response(), starting_after_, first_);
}

Result<std::vector<ResponseCursor::Event>> ResponseCursor::Next() {
  const bool interrupted = response()->log().interrupted();
  ASSIGN_OR_RETURN(const std::vector<responses::ResponseLog::Entry> entries,
                   reader_.Next(kEventsAtOnce));
  if (entries.empty() && interrupted && !ended()) return Interrupted();
  std::vector<Event> events;
  events.reserve(entries.size());
  for (const auto& entry : entries) events.push_back({entry, entry->sequence - first_});
  return events;
}

}  // namespace tutti::http
