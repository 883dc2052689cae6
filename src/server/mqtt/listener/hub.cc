#include "server/mqtt/listener/hub.h"

#include <algorithm>

#include "base/check.h"
#include "server/mqtt/listener/peer.h"

namespace tutti::mqtt::listener {
namespace {

// No part contains the separator: client ids and users are restricted to plain characters, and
// tenants come from this server.
std::string KeyOf(const Principal& principal, const std::string& client_id) {
  return principal.tenant + '\n' + principal.user + '\n' + client_id;
}

}  // namespace

Subscriptions::Added Subscriptions::Add(const Subscription& subscription,
                                        std::optional<uint32_t> id) {
  for (Entry& entry : entries_) {
    if (entry.subscription.filter != subscription.filter) continue;
    entry = {subscription, id};
    return Added::kReplaced;
  }
  if (entries_.size() >= max_) return Added::kFull;
  entries_.push_back({subscription, id});
  return Added::kNew;
}

bool Subscriptions::Remove(std::string_view filter) {
  return std::erase_if(entries_, [filter](const Entry& entry) {
           return entry.subscription.filter == filter;
         }) > 0;
}

std::optional<Subscriptions::Match> Subscriptions::Find(std::string_view topic, bool own) const {
  std::optional<Match> match;
  for (const Entry& entry : entries_) {
    if ((own && entry.subscription.no_local) || !TopicMatches(entry.subscription.filter, topic)) {
      continue;
    }
    if (!match) match.emplace();
    match->qos = std::max(match->qos, entry.subscription.qos);
    match->retain_as_published |= entry.subscription.retain_as_published;
    if (entry.id) match->ids.push_back(*entry.id);
  }
  return match;
}

void TopicIndex::Add(std::string_view filter, Session* session) {
  Node* node = &root_;
  for (TopicWalk walk(filter); !walk.done();) {
    std::unique_ptr<Node>& child = node->children[std::string(walk.Next())];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
  }
  node->sessions.push_back(session);
}

void TopicIndex::Remove(std::string_view filter, Session* session) {
  RemoveBelow(root_, TopicWalk(filter), session);
}

// True when nothing is left of `node`. At most as deep as a filter has levels, which is bounded.
bool TopicIndex::RemoveBelow(Node& node, TopicWalk walk, Session* session) {
  if (walk.done()) {
    const auto found = std::find(node.sessions.begin(), node.sessions.end(), session);
    if (found != node.sessions.end()) node.sessions.erase(found);
  } else {
    const auto child = node.children.find(walk.Next());
    if (child != node.children.end() && RemoveBelow(*child->second, walk, session)) {
      node.children.erase(child);
    }
  }
  return node.children.empty() && node.sessions.empty();
}

void TopicIndex::FindBelow(const Node& node, TopicWalk walk, bool wild,
                           std::vector<Session*>& found) {
  const auto collect = [&found](const Node& at) {
    found.insert(found.end(), at.sessions.begin(), at.sessions.end());
  };
  if (const auto all = node.children.find("#"); wild && all != node.children.end()) {
    collect(*all->second);
  }
  if (walk.done()) return collect(node);
  const std::string_view level = walk.Next();
  for (const std::string_view next : {std::string_view("+"), level}) {
    const auto child = node.children.find(next);
    if (child != node.children.end() && (wild || next != "+")) {
      FindBelow(*child->second, walk, /*wild=*/true, found);
    }
  }
}

std::vector<Session*> TopicIndex::Find(std::string_view topic) const {
  std::vector<Session*> found;
  FindBelow(root_, TopicWalk(topic), /*wild=*/!topic.starts_with('$'), found);  // section 4.7.2
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Hub::Opened Hub::Open(const Principal& principal, const std::string& client_id, bool clean_start,
                      uint32_t expiry_s, std::optional<StoredWill> will, Peer* link) {
  const std::string key = KeyOf(principal, client_id);
  auto found = sessions_.find(key);
  bool present = false;
  if (found != sessions_.end()) {
    Session* old = found->second.get();
    Peer* before = std::exchange(old->link, nullptr);
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

void Hub::End(Session* session) {
  CHECK(session->link == nullptr);
  session->subscriptions.ForEach(
      [&](const std::string& filter) { index_.Remove(filter, session); });
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
  const auto evict = [this](Session* session) {
    if (session->will) PublishWill(session);
    End(session);
  };
  const auto [of_user, first_of_user] = most(KeyOf(principal, ""));
  if (of_user >= limits_.sessions_per_user) evict(first_of_user);
  if (timers_.size() >= limits_.sessions) evict(timers_.begin()->second);
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
