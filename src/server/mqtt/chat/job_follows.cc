#include "server/mqtt/chat/job_follows.h"

#include <chrono>
#include <utility>

#include "server/mqtt/chat/native_formatter.h"

namespace tutti::mqtt::chat {

JobFollows::JobFollows(Context& context)
    : context_(context), quota_counts_({context.options.follows.per_user, 0}) {}

void JobFollows::Follow(const NativeAddress& address, const protocol::MqttControl& control) {
  const auto admit = [&]() -> Status {
    if (context_.services.watch_job == nullptr)
      return Status(StatusCode::kUnimplemented, "not_implemented", "this server keeps no jobs");
    return context_.services.caller_of(address.credential, address.tenant).status();
  };
  if (const Status status = admit(); !status.ok()) return Refuse(address, control.id, status);
  const Key key{address.reply_topic, control.job_id, address.tenant};
  Entry entry{.address = address, .id = control.id, .seen = control.starting_after.value_or(-1)};
  if (const auto older = follows_.find(key); older != follows_.end()) {
    entry.serial = older->second.serial;  // a wait for news goes on
    older->second = std::move(entry);
    return Watch(key, older->second, Wait::kNot);
  }
  const QuotaKey quota_key{.user = address.user};
  const auto room = [&]() -> Status {
    if (follows_.size() >= context_.options.follows.all)
      return Unavailable("overloaded", "too many jobs are followed");
    return quota_counts_.RoomFor(quota_key, "subscriptions");
  };
  if (const Status status = room(); !status.ok()) return Refuse(address, control.id, status);
  quota_counts_.Add(quota_key);
  entry.serial = ++serial_;
  Watch(key, follows_.emplace(key, std::move(entry)).first->second, Wait::kForNews);
}

void JobFollows::DetachBelow(std::string_view topics) {
  for (auto& [key, entry] : follows_) {
    if (key.topic.starts_with(topics)) entry.detached = true;
  }
}

void JobFollows::Clear() {
  while (!follows_.empty()) Close(follows_.begin());
}

// The callback may run after this object is destroyed: it keeps the strand alive, and WhileAlive()
// skips the call.
void JobFollows::Watch(const Key& key, const Entry& entry, Wait wait) {
  auto seen = context_.tasks.WhileAlive(
      [this, key, serial = entry.serial, asked = entry.seen,
       wait](const Result<protocol::JobView>& job) { OnJob(key, serial, asked, wait, job); });
  const Duration most =
      std::chrono::seconds(wait == Wait::kForNews ? protocol::kMaxWaitSeconds : 0);
  context_.services.watch_job(
      key.tenant, key.job, entry.seen, context_.Now() + most,
      [strand = context_.tasks.strand(), seen](Result<protocol::JobView> job) {
        strand->Post([seen, job = std::move(job)]() mutable { seen(job); });
      });
}

void JobFollows::OnJob(const Key& key, uint64_t serial, int64_t asked, Wait wait,
                       const Result<protocol::JobView>& job) {
  const Place place = follows_.find(key);
  if (place == follows_.end() || place->second.serial != serial) return;  // it has ended
  Entry& entry = place->second;
  const auto refuse = [&](const Status& why) {
    Refuse(entry.address, entry.id, why);
    Close(place);
  };
  if (!job.ok()) return refuse(job.status());
  // Another watch has sent more, or the client has asked for another number: no version in between
  // may be left out.
  if (asked != entry.seen) return wait == Wait::kForNews ? Watch(key, entry, wait) : void();
  const bool last = protocol::Ended(job->state) && !job->past;
  if (last && job->version < entry.seen) {
    return refuse(InvalidArgument("invalid_value", "the job has ended, and its last event is " +
                                                       std::to_string(job->version))
                      .WithParam("starting_after"));
  }
  if (job->version > entry.seen) {
    entry.seen = job->version;
    std::string event = protocol::JobEvent(*job);
    if (event.size() > kMaxEventBytes) {
      return refuse(ResourceExhausted("request_too_large",
                                      "the job has " + std::to_string(event.size()) +
                                          " bytes, more than a message may: GET /v1/jobs/" +
                                          job->id + " has it")
                        .WithParam("job_id"));
    }
    if (last || !entry.detached) Publish(entry, *job, std::move(event));
  }
  if (last) return Close(place);
  // Past versions are sent one by one, even if another watch already waits for news.
  if (wait == Wait::kForNews || job->past) Watch(key, entry, wait);
}

void JobFollows::Publish(const Entry& entry, const protocol::JobView& job, std::string event) {
  Message message = EventMessage(entry.address, std::move(event));
  message.user_properties = {{"job", job.id},
                             {"seq", std::to_string(job.version)},
                             {"last", protocol::Ended(job.state) && !job.past ? "true" : "false"}};
  context_.Publish(std::move(message));
}

void JobFollows::Refuse(const NativeAddress& address, const std::string& id, const Status& why) {
  context_.Publish(ErrorMessage(address, why, id));
}

void JobFollows::Close(Place place) {
  quota_counts_.Remove({.user = place->second.address.user});
  follows_.erase(place);
}

}  // namespace tutti::mqtt::chat
