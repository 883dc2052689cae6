#include "server/mqtt/profile/reply_streams.h"

#include <algorithm>
#include <utility>

namespace tutti::mqtt::profile {

ReplyStreams::ReplyStreams(const Limits& limits, const DeltaCoalescer::Options& coalescing,
                           MessagePort& port, const Clock& clock, const StrandTasks& tasks)
    : limits_(limits),
      coalescing_(coalescing),
      port_(port),
      clock_(clock),
      tasks_(tasks),
      waker_(tasks.MakeWaker([this] { PumpAll(); })),
      order_of_turns_(std::make_shared<ReplyOrder>([waker = waker_] { waker->Wake(); })),
      quota_counts_({limits.per_user, limits.per_project}) {}

Status ReplyStreams::Open(Setup setup) {
  if (streams_.size() >= limits_.all)
    return Unavailable("overloaded", "too many answers are on their way");
  RETURN_IF_ERROR(quota_counts_.RoomFor(setup.quota_key, "answers"));
  const Key key(setup.topic, setup.response->id(), setup.purpose);
  const uint64_t serial = ++serial_;
  ASSIGN_OR_RETURN(std::unique_ptr<ReplyStream> stream,
                   ReplyStream::Open(
                       std::move(setup.response), setup.starting_after, waker_,
                       std::move(setup.form), coalescing_,
                       [this, key, serial](Message message, bool last) {
                         return Publish(key, serial, std::move(message), last);
                       },
                       setup.patient));
  if (const auto older = streams_.find(key); older != streams_.end()) {
    if (!setup.arrived) setup.arrived = std::move(older->second.arrived);
    if (setup.turn == 0) setup.turn = older->second.turn;
    Close(older);
  }
  quota_counts_.Add(setup.quota_key);
  ReplyOrder::Place place = Reserve(setup.topic, setup.dialog, setup.turn);
  streams_[key] = {.stream = std::move(stream),
                   .quota_key = std::move(setup.quota_key),
                   .dialog = std::move(setup.dialog),
                   .serial = serial,
                   .turn = setup.turn,
                   .place = std::move(place),
                   .arrived = std::move(setup.arrived),
                   .ended = std::move(setup.ended)};
  order_[serial] = key;
  waker_->Wake();  // what was in the log before
  return OkStatus();
}

Status ReplyStreams::Publish(const Key& key, uint64_t serial, Message message, bool last) {
  if (message.qos == 0) return port_.Publish(std::move(message));
  auto published = tasks_.WhileAlive([this, key, serial, last](const Status& status) {
    const auto place = streams_.find(key);
    if (place == streams_.end() || place->second.serial != serial) return;
    place->second.stream->OnPublished(last, status, clock_.Now());
    if (last || !status.ok()) waker_->Wake();
  });
  return port_.Publish(std::move(message),
                       [strand = tasks_.strand(), published](const Status& status) {
                         strand->Post([published, status]() mutable { published(status); });
                       });
}

void ReplyStreams::PumpAll() {
  const TimePoint now = clock_.Now();
  bool more = false;
  TimePoint due = TimePoint::max();
  for (auto next = order_.begin(); next != order_.end();) {
    const Place here = streams_.find((next++)->second);
    const Entry& entry = here->second;
    const bool may_end =
        order_of_turns_->IsFirst({std::get<0>(here->first), entry.dialog, entry.turn});
    switch (entry.stream->Pump(now, may_end)) {
      case ReplyStream::Progress::kIdle:
        due = std::min(due, entry.stream->due());
        break;
      case ReplyStream::Progress::kMore:
        more = true;
        break;
      case ReplyStream::Progress::kEnded:
        Close(here);
        break;
    }
  }
  if (more) waker_->Wake();
  WakeAt(due);
}

void ReplyStreams::WakeAt(TimePoint due) {
  if (due >= armed_) return;
  armed_ = due;
  tasks_.PostAt(due, [this] {
    armed_ = TimePoint::max();
    PumpAll();
  });
}

void ReplyStreams::Close(Place place) {
  const Entry entry = std::move(place->second);
  streams_.erase(place);
  order_.erase(entry.serial);
  quota_counts_.Remove(entry.quota_key);
  if (entry.arrived && entry.stream->delivered()) entry.arrived();
  if (entry.ended) entry.ended(entry.stream->delivered());
  if (when_settled_ && Settled()) std::exchange(when_settled_, nullptr)();
}

bool ReplyStreams::Settled() const {
  return std::none_of(streams_.begin(), streams_.end(),
                      [](const auto& entry) { return entry.second.stream->last_is_out(); });
}

void ReplyStreams::OnceSettled(std::function<void()> done) {
  if (Settled()) return done();
  when_settled_ = std::move(done);
}

void ReplyStreams::DetachBelow(std::string_view topics) {
  for (auto& [key, entry] : streams_) {
    if (std::get<0>(key).starts_with(topics)) entry.stream->Detach();
  }
}

std::shared_ptr<responses::Response> ReplyStreams::RunningOf(const std::string& dialog) const {
  const ReplyStream* first = nullptr;
  uint64_t serial = 0;
  for (const auto& [key, entry] : streams_) {
    if (entry.dialog != dialog || entry.stream->response()->ended()) continue;
    const auto& response = entry.stream->response();
    if (response->State().status == wire::ResponseStatus::kInProgress) return response;
    if (first == nullptr || entry.serial < serial) {
      first = entry.stream.get();
      serial = entry.serial;
    }
  }
  return first == nullptr ? nullptr : first->response();
}

void ReplyStreams::Clear() {
  streams_.clear();
  order_.clear();
  when_settled_ = nullptr;
}

}  // namespace tutti::mqtt::profile
