#include "server/http/handlers/response_feed.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <variant>

#include "server/http/connection/connection.h"
#include "server/http/connection/response.h"

namespace tutti::http {
namespace {

constexpr size_t kEventsAtOnce = 16;

constexpr uint64_t kMaxPadding = 32;  // as in the streams of chats
// The model has the prompt, and a cache of answers has been asked before (api::CacheReport).
constexpr std::string_view kBegun = "response.in_progress";

void AppendEvent(std::string_view type, std::string_view json, std::string* frames) {
  *frames += "event: ";
  *frames += type;
  *frames += "\ndata: ";
  *frames += json;
  *frames += "\n\n";
}

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
  if (entries.empty() && interrupted && !ended()) return Draining();
  std::vector<Event> events;
  events.reserve(entries.size());
  for (const auto& entry : entries) events.push_back({entry, entry->sequence - first_});
  return events;
}

ResponseFeed::~ResponseFeed() { Stop(); }

void ResponseFeed::Stop() {
  if (!cursor_.has_value()) return;
  cursor_.reset();
  connection_.WatchStreams(false);
}

bool ResponseFeed::Attach(const std::shared_ptr<responses::Response>& response,
                          int64_t starting_after) {
  Result<ResponseCursor> cursor =
      ResponseCursor::Open(response, starting_after, connection_.loop());
  if (!cursor.ok()) {
    connection_.RespondError(cursor.status());
    return false;
  }
  cursor_.emplace(*std::move(cursor));
  connection_.WatchStreams(true);
  return true;
}

void ResponseFeed::Stream(const std::shared_ptr<responses::Response>& response,
                          int64_t starting_after, std::vector<std::string> ignored, bool obfuscated,
                          bool asked) {
  if (!Attach(response, starting_after)) return;
  shows_ = Shows::kEvents;
  if (obfuscated) padding_.emplace(std::hash<std::string>{}(connection_.loop()->RandomId(24)));
  events_.Open(connection_.context().options.keepalive.value_or(std::chrono::seconds(15)),
               std::move(ignored));
  if (asked) events_.Hold();
  Pump();
}

void ResponseFeed::Whole(const std::shared_ptr<responses::Response>& response,
                         std::vector<std::string> ignored, Failed failed) {
  if (!Attach(response, -1)) return;
  ignored_ = std::move(ignored);
  failed_ = failed;
  Pump();
}

void ResponseFeed::Begun(const std::shared_ptr<responses::Response>& response,
                         std::vector<std::string> ignored) {
  if (!Attach(response, -1)) return;
  shows_ = Shows::kBegun;
  ignored_ = std::move(ignored);
  Pump();
}

void ResponseFeed::Pump() {
  if (!cursor_.has_value()) return;
  switch (shows_) {
    case Shows::kEvents:
      return PumpEvents();
    case Shows::kWhole:
      return PumpWhole();
    case Shows::kBegun:
      return PumpBegun();
  }
}

void ResponseFeed::PumpEvents() {
  std::string frames;
  bool known = false;
  while (!cursor_->ended() && events_.HasRoom(frames.size())) {
    Result<std::vector<ResponseCursor::Event>> events = cursor_->Next();
    if (!events.ok()) return FailEvents(events.status(), std::move(frames));
    if (events->empty()) break;
    for (const ResponseCursor::Event& event : *events) {
      known = known || event.type() == kBegun;
      AppendEvent(event.type(), event.Json(ExtrasOf(event)), &frames);
    }
  }
  if (cursor_->ended()) {
    if (const Status place = cursor_->Place(); !place.ok())
      return FailEvents(place, std::move(frames));
  }
  events_.Show(frames);
  if (known) events_.Release();
  if (!cursor_->ended()) return;
  Stop();
  events_.End();
}

void ResponseFeed::FailEvents(const Status& status, std::string frames) {
  if (!events_.begun() && frames.empty()) {
    Stop();
    return connection_.RespondError(status);
  }
  AppendEvent("error", protocol::ErrorEvent(std::nullopt, status, ""), &frames);
  events_.Show(frames);
  Stop();
  events_.End();
}

protocol::EventExtras ResponseFeed::ExtrasOf(const ResponseCursor::Event& event) {
  const bool padded =
      padding_.has_value() && std::holds_alternative<protocol::TextDeltaEvent>(event.entry->event);
  if (!padded) return {};
  return {.padding = static_cast<size_t>(1 + padding_->Below(kMaxPadding))};
}

void ResponseFeed::PumpWhole() {
  const std::shared_ptr<responses::Response> response = cursor_->response();
  if (!response->ended()) return Leave(*response);
  Stop();
  const protocol::ResponseState state = response->State();
  if (state.status == protocol::ResponseStatus::kFailed && failed_ == Failed::kError) {
    return connection_.RespondError(responses::FailureOf(state), Connection::Origin::kInference);
  }
  HeaderList headers = JsonHeaders(ignored_);
  // A stream reports dropped items in an event instead.
  if (const int64_t items = response->dropped().items; items > 0)
    headers.emplace_back("X-Context-Dropped-Items", std::to_string(items));
  connection_.Respond(200, std::move(headers), protocol::ResponseJson(state));
}

void ResponseFeed::PumpBegun() {
  const std::shared_ptr<responses::Response> response = cursor_->response();
  if (response->log().next() == 0) return Leave(*response);
  Stop();
  connection_.Respond(200, JsonHeaders(ignored_), protocol::ResponseJson(response->State()));
}

void ResponseFeed::Leave(const responses::Response& response) {
  if (!response.log().interrupted()) return;
  Stop();
  connection_.RespondError(Draining(), Connection::Origin::kInference);
}

TimePoint ResponseFeed::Due() const {
  return cursor_.has_value() && shows_ == Shows::kEvents ? events_.KeepAliveDue()
                                                         : TimePoint::max();
}

void ResponseFeed::OnTimer(TimePoint now) {
  if (cursor_.has_value() && shows_ == Shows::kEvents) events_.KeepAlive(now);
}

}  // namespace tutti::http
