#include "server/mqtt/listener/hub.h"

#include <algorithm>

#include "base/check.h"
#include "mqtt/topics.h"

namespace tutti::mqtt::listener {
namespace {

// No part contains the separator: client ids and users are restricted to plain characters, and
// tenants come from this server.
std::string KeyOf(const Principal& principal, const std::string& client_id) {
  return principal.tenant + '\n' + principal.user + '\n' + client_id;
}

}  // namespace

Hub::Opened Hub::Open(const Principal& principal, const std::string& client_id, bool clean_start,
                      uint32_t expiry_s, std::optional<StoredWill> will, SessionLink* link) {
  const std::string key = KeyOf(principal, client_id);
  auto found = sessions_.find(key);
  bool present = false;
  if (found != sessions_.end()) {
    Session* old = found->second.get();
    SessionLink* before = std::exchange(old->link, nullptr);
    if (before != nullptr) before->OnTakenOver();
    // A session without expiry ends with its connection, for any reason.
    const bool ends = clean_start || old->overflow || (before != nullptr && old->expiry_s == 0);
    // A delayed Will is not published if the client has returned before (5.0 section 3.1.3.2.2).
    if (old->will && (ends || (before != nullptr && old->will->delay == Duration(0)))) {
      PublishWill(old);
    }
    old->will.reset();
    present = !ends;
    if (ends) End(old);
  }
  if (!present) {
    MakeRoom(principal);
    found = sessions_.emplace(key, std::make_unique<Session>(limits_, key, client_id)).first;
  }
  Session* session = found->second.get();
  session->principal = principal;
  session->expiry_s = std::min(expiry_s, limits_.session_expiry_s);
  session->will = std::move(will);
  session->link = link;
  session->will_due = session->ends = TimePoint::max();
  SetTimer(session);
  if (present) {
    session->outbox.Resend();
    // Removes subscriptions for which the user no longer has the right.
    std::vector<std::string> lost;
    session->subscriptions.ForEach([&](const std::string& filter) {
      if (!principal.MaySubscribe(filter)) lost.push_back(filter);
    });
    for (const std::string& filter : lost) Unsubscribe(session, filter);
  }
  return {session, present};
}

void Hub::Close(Session* session, bool publish_will) {
  session->link = nullptr;
  const TimePoint now = clock_.Now();
  if (!publish_will) session->will.reset();
  // An overflowed session has lost messages, so the client cannot resume it.
  const auto ends_now = [session] { return session->expiry_s == 0 || session->overflow; };
  if (session->will && (ends_now() || session->will->delay == Duration(0))) PublishWill(session);
  if (ends_now()) return End(session);
  session->ends = now + std::chrono::seconds(session->expiry_s);
  if (session->will) session->will_due = now + session->will->delay;
  SetTimer(session);
}

ReasonCode Hub::Subscribe(Session* session, const Subscription& subscription,
                          std::optional<uint32_t> id) {
  const std::string& filter = subscription.filter;
  if (SharedFilterOf(filter)) return ReasonCode::kSharedSubscriptionsNotSupported;
  if (filter.size() > limits_.topic_bytes || TopicLevels(filter) > limits_.topic_levels) {
    return ReasonCode::kTopicFilterInvalid;
  }
  if (!session->principal.MaySubscribe(filter)) return ReasonCode::kNotAuthorized;
  Subscription granted = subscription;
  granted.qos = std::min<uint8_t>(granted.qos, 1);
  const Subscriptions::Added added = session->subscriptions.Add(granted, id);
  if (added == Subscriptions::Added::kFull) return ReasonCode::kQuotaExceeded;
  const bool fresh = added == Subscriptions::Added::kNew;
  if (fresh) index_.Add(filter, session);
  if (granted.retain_handling == 0 || (granted.retain_handling == 1 && fresh)) {
    SendRetained(session, granted);
  }
  return granted.qos == 0 ? ReasonCode::kSuccess : ReasonCode::kGrantedQos1;
}

bool Hub::Unsubscribe(Session* session, const std::string& filter) {
  if (!session->subscriptions.Remove(filter)) return false;
  index_.Remove(filter, session);
  return true;
}

size_t Hub::Publish(Message message, const Session* from) {
  const auto shared = std::make_shared<const Message>(std::move(message));
  if (shared->retain) Keep(shared);
  size_t subscribers = 0;
  for (Session* session : index_.Find(shared->topic)) {
    const auto match = session->subscriptions.Find(shared->topic, session == from);
    if (!match) continue;
    ++subscribers;
    Queue(session, {.message = shared,
                    .qos = std::min(match->qos, shared->qos),
                    .retain = shared->retain && match->retain_as_published,
                    .subscription_ids = match->ids});
  }
  return subscribers;
}

void Hub::Queue(Session* session, Delivery delivery) {
  if (session->overflow) return;
  if (session->link == nullptr && delivery.qos == 0) return;  // QoS 0 is not kept for later
  if (session->outbox.Push(std::move(delivery)) == Outbox::Pushed::kOverflow) {
    session->overflow = true;
    // No client is connected, so the session just ends, at the next OnTime().
    if (session->link == nullptr) {
      session->ends = clock_.Now();
      SetTimer(session);
    }
  }
  if (session->link != nullptr && !std::exchange(session->ready, true)) ready_.push_back(session);
}

void Hub::Keep(const SharedMessage& message) {
  if (message->payload.empty()) {
    retained_.erase(message->topic);
  } else if (RoomToRetain(message->topic)) {
    retained_[message->topic] = message;
  }
}

void Hub::SendRetained(Session* session, const Subscription& subscription) {
  const TimePoint now = clock_.Now();
  for (auto each = retained_.begin(); each != retained_.end();) {
    const SharedMessage& message = each->second;
    if (message->expires && *message->expires <= now) {
      each = retained_.erase(each);
      continue;
    }
    if (TopicMatches(subscription.filter, message->topic)) {
      const auto match = session->subscriptions.Find(message->topic, false);
      Queue(session, {.message = message,
                      .qos = std::min(subscription.qos, message->qos),
                      .retain = true,
                      .subscription_ids = match ? match->ids : std::vector<uint32_t>()});
    }
    ++each;
  }
}

void Hub::PublishWill(Session* session) {
  StoredWill will = std::move(*session->will);
  session->will.reset();
  session->will_due = TimePoint::max();
  if (will.expiry_s) {
    will.message.expires = clock_.Now() + std::chrono::seconds(*will.expiry_s);
  }
  Message live = will.message;
  live.retain = false;
  for (const MessagePort::Sink* sink : SinksOf(live.topic)) (*sink)(live, Receipt());
  Publish(std::move(will.message), session);
}

void Hub::AddSink(std::string filter, MessagePort::Sink sink) {
  sinks_.push_back({std::move(filter), std::move(sink)});
}

std::vector<const MessagePort::Sink*> Hub::SinksOf(std::string_view topic) const {
  std::vector<const MessagePort::Sink*> found;
  for (const SinkEntry& entry : sinks_) {
    if (TopicMatches(entry.filter, topic)) found.push_back(&entry.sink);
  }
  return found;
}

void Hub::End(Session* session) {
  CHECK(session->link == nullptr);
  std::vector<std::string> filters;
  session->subscriptions.ForEach([&](const std::string& filter) { filters.push_back(filter); });
  for (const std::string& filter : filters) index_.Remove(filter, session);
  timers_.erase({session->timer, session});
  std::erase(ready_, session);
  sessions_.erase(session->key);
}

void Hub::SetTimer(Session* session) {
  timers_.erase({session->timer, session});
  session->timer = session->link == nullptr ? session->due() : TimePoint::max();
  if (session->timer != TimePoint::max()) timers_.insert({session->timer, session});
}

// Called before a new session: evicts the disconnected sessions that expire soonest.
void Hub::MakeRoom(const Principal& principal) {
  const auto most = [this](const std::string& prefix) {
    size_t count = 0;
    Session* first = nullptr;
    for (auto each = sessions_.lower_bound(prefix);
         each != sessions_.end() && each->first.starts_with(prefix); ++each) {
      if (each->second->link != nullptr) continue;
      ++count;
      if (first == nullptr || each->second->ends < first->ends) first = each->second.get();
    }
    return std::pair(count, first);
  };
  const auto [of_user, first_of_user] = most(KeyOf(principal, ""));
  if (of_user >= limits_.sessions_per_user) {
    if (first_of_user->will) PublishWill(first_of_user);
    End(first_of_user);
  }
  if (timers_.size() < limits_.sessions) return;
  Session* first = timers_.begin()->second;
  if (first->will) PublishWill(first);
  End(first);
}

void Hub::OnTime() {
  const TimePoint now = clock_.Now();
  while (due() <= now) {
    Session* session = timers_.begin()->second;
    if (session->will && std::min(session->will_due, session->ends) <= now) PublishWill(session);
    if (session->ends <= now) {
      End(session);
    } else {
      SetTimer(session);
    }
  }
}

void Hub::Flush() {
  while (!ready_.empty()) {
    Session* session = ready_.back();
    ready_.pop_back();
    session->ready = false;
    if (session->link != nullptr) session->link->Serve();
  }
}

}  // namespace tutti::mqtt::listener
