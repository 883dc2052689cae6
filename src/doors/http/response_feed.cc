#include "doors/http/response_feed.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "doors/http/connection.h"
#include "doors/http/exchange.h"
#include "wire/response_events.h"

namespace tutti::http {
namespace {

constexpr size_t kEventsAtOnce = 16;
constexpr uint64_t kMostPadding = 32;  // as in the streams of chats

void AppendEvent(std::string_view type, std::string_view json, std::string* frames) {
  *frames += "event: ";
  *frames += type;
  *frames += "\ndata: ";
  *frames += json;
  *frames += "\n\n";
}

// The next process goes on with it.
Status Interrupted() { return Unavailable("draining", "the server is shutting down"); }

}  // namespace

ResponseFeed::~ResponseFeed() { Stop(); }

void ResponseFeed::Stop() {
  if (!reader_.has_value()) return;
  reader_.reset();
  connection_.WatchStreams(false);
}

bool ResponseFeed::Attach(const std::shared_ptr<responses::Response>& response,
                          int64_t starting_after) {
  first_ = response->base().turn.has_value() ? 1 : 0;
  Result<responses::ResponseReader> reader = responses::ResponseReader::Attach(
      response, std::min(starting_after, INT64_MAX - first_) + first_, connection_.loop());
  if (!reader.ok()) {
    connection_.RespondError(reader.status());
    return false;
  }
  reader_.emplace(*std::move(reader));
  connection_.WatchStreams(true);
  return true;
}

void ResponseFeed::Stream(const std::shared_ptr<responses::Response>& response,
                          int64_t starting_after, std::vector<std::string> ignored,
                          bool obfuscated) {
  if (!Attach(response, starting_after)) return;
  starting_after_ = starting_after;
  if (const Status place = responses::CheckPlace(*response, starting_after, first_); !place.ok()) {
    Stop();
    return connection_.RespondError(place);
  }
  shows_ = Shows::kEvents;
  if (obfuscated) padding_.emplace(std::hash<std::string>{}(connection_.loop()->RandomId(24)));
  events_.Open(connection_.context().options.keepalive.value_or(std::chrono::seconds(15)),
               std::move(ignored));
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
  if (!reader_.has_value()) return;
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
  while (!reader_->ended() && events_.HasRoom(frames.size())) {
    const bool interrupted = reader_->response()->log().interrupted();
    const auto entries = reader_->Next(kEventsAtOnce);
    if (!entries.ok()) return FailEvents(entries.status(), std::move(frames));
    if (entries->empty()) {
      if (interrupted && !reader_->ended()) return FailEvents(Interrupted(), std::move(frames));
      break;
    }
    for (const auto& entry : *entries) {
      AppendEvent(entry->type, Shown(*entry), &frames);
    }
  }
  if (reader_->ended()) {
    // One that was made again may have ended before the place where its reader waited.
    const Status place = responses::CheckPlace(*reader_->response(), starting_after_, first_);
    if (!place.ok()) return FailEvents(place, std::move(frames));
  }
  events_.Show(frames);
  if (!reader_->ended()) return;
  Stop();
  events_.End();
}

void ResponseFeed::FailEvents(const Status& status, std::string frames) {
  if (!events_.begun() && frames.empty()) {
    Stop();
    return connection_.RespondError(status);
  }
  AppendEvent("error", wire::ErrorEvent(std::nullopt, status, ""), &frames);
  events_.Show(frames);
  Stop();
  events_.End();
}

std::string ResponseFeed::Shown(const responses::LogEntry& entry) {
  std::string json =
      first_ == 0 ? entry.json : wire::Renumbered(entry.json, entry.sequence - first_);
  if (!padding_.has_value() || entry.type != "response.output_text.delta") return json;
  return wire::Obfuscated(std::move(json), 1 + padding_->Below(kMostPadding));
}

void ResponseFeed::PumpWhole() {
  const std::shared_ptr<responses::Response> response = reader_->response();
  if (!response->ended()) return Leave(*response);
  Stop();
  const wire::ResponseState state = response->State();
  if (state.status == wire::ResponseStatus::kFailed && failed_ == Failed::kError) {
    return connection_.RespondError(responses::FailureOf(state), Connection::Origin::kWaist);
  }
  HeaderList headers = JsonHeaders(ignored_);
  // Who reads events is told by one of them.
  if (const int64_t items = response->dropped().items; items > 0)
    headers.emplace_back("X-Context-Dropped-Items", std::to_string(items));
  connection_.Respond(200, std::move(headers), wire::ResponseJson(state));
}

void ResponseFeed::PumpBegun() {
  const std::shared_ptr<responses::Response> response = reader_->response();
  if (response->log().next() == 0) return Leave(*response);
  Stop();
  connection_.Respond(200, JsonHeaders(ignored_), wire::ResponseJson(response->State()));
}

void ResponseFeed::Leave(const responses::Response& response) {
  if (!response.log().interrupted()) return;
  Stop();
  connection_.RespondError(Interrupted(), Connection::Origin::kWaist);
}

TimePoint ResponseFeed::Due() const {
  return reader_.has_value() && shows_ == Shows::kEvents ? events_.KeepAliveDue()
                                                         : TimePoint::max();
}

void ResponseFeed::OnTimer(TimePoint now) {
  if (reader_.has_value() && shows_ == Shows::kEvents) events_.KeepAlive(now);
}

}  // namespace tutti::http
