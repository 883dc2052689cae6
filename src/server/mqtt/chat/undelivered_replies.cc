#include "server/mqtt/chat/undelivered_replies.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace tutti::mqtt::chat {
namespace {

constexpr int64_t kPage = 1000;  // of a read
constexpr size_t kOwedAtOnce = 64;
constexpr Duration kBetween = std::chrono::milliseconds(20);
constexpr Duration kLater = std::chrono::seconds(1);

}  // namespace

void UndeliveredReplies::Read() {
  if (!std::exchange(read_, true)) ReadBehind({});
}

void UndeliveredReplies::ReadBehind(const sessions::OwedPlace& place) {
  context_.services.sessions.Owed(
      place, kPage,
      context_.tasks.WhileAlive(
          [this, place](const Result<std::vector<sessions::OwedAnswer>>& page) {
            if (!page.ok()) {
              return context_.tasks.PostAt(context_.Now() + kLater,
                                           [this, place] { ReadBehind(place); });
            }
            for (const sessions::OwedAnswer& each : *page) Add(each);
            if (!page->empty()) return ReadBehind(page->back().place);
            if (sends_) SendAt(context_.Now());
          }));
}

// Replies of other protocols, and of projects that are no longer served, stay in the store.
void UndeliveredReplies::Add(sessions::OwedAnswer owed) {
  std::optional<ReplyTo> reply_to = DecodeReplyTo(owed.reply_to);
  if (!reply_to.has_value() || reply_to->server != context_.options.server) return;
  ReplyOrder::Place place =
      context_.publisher.Reserve(reply_to->topic, DialogOf(owed.key), owed.place.turn);
  waiting_.push_back({std::move(owed), *std::move(reply_to), std::move(place)});
}

void UndeliveredReplies::Send() {
  sends_ = true;
  Read();
  SendSome();
}

void UndeliveredReplies::SendAt(TimePoint when) {
  if (std::exchange(armed_, true)) return;
  context_.tasks.PostAt(when, [this] {
    armed_ = false;
    SendSome();
  });
}

void UndeliveredReplies::SendSome() {
  // Half of the capacity is reserved for current answers.
  if (context_.publisher.size() > context_.options.streams.all / 2)
    return SendAt(context_.Now() + kLater);
  // A reply without room goes to the end of the queue.
  for (size_t left = std::min(kOwedAtOnce, waiting_.size()); left > 0; --left) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SendOne(std::move(next));
  }
  if (!waiting_.empty()) SendAt(context_.Now() + kBetween);
}

void UndeliveredReplies::SendOne(Waiting waiting) {
  const auto& [owed, reply_to, place] = waiting;
  auto again = [this, waiting] {  // there is no room for it now
    waiting_.push_back(waiting);
    SendAt(context_.Now() + kLater);
  };
  if (reply_to.native) {
    if (context_.options.native) native_.Restore(owed, reply_to, place, std::move(again));
    return;
  }
  if (const ProjectSettings* project = context_.FindProject(owed.key.tenant, owed.key.project))
    projects_.Restore(*project, owed, reply_to, place, std::move(again));
}

}  // namespace tutti::mqtt::chat
