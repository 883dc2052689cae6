#include "client/mqtt/chat.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

namespace tutti::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kCancelPatience = seconds(2);
constexpr Duration kWordPatience = seconds(30);  // for requests that need no model
constexpr Duration kFirstRetry = milliseconds(500), kMaxRetry = seconds(8);

// Expiry of a question: longer than any answer takes, so that a server does not answer an abandoned
// question.
constexpr uint32_t kQuestionExpiryS = 1800, kWordExpiryS = 60;

MqttSend Expiring(MqttSend message, uint32_t expiry_s) {
  message.expiry_s = expiry_s;
  return message;
}

Status StoppedStatus() { return {StatusCode::kCancelled, "cancelled", "the answer was stopped"}; }

// Whether the connection was lost, so that reconnecting may help; errors of the server or the user
// are final.
bool IsLoss(const Status& status) {
  return status.reason() == "unreachable" || status.reason() == "connection_closed";
}

}  // namespace

std::string RandomName(const std::string& prefix) {
  constexpr std::string_view kLetters = "abcdefghijkmnpqrstuvwxyz23456789";
  std::random_device device;
  std::string name = prefix;
  for (int i = 0; i < 16; ++i) name += kLetters[device() % kLetters.size()];
  return name;
}

Result<std::unique_ptr<MqttChat>> MqttChat::Begin(const MqttChatOptions& options,
                                                  std::unique_ptr<MqttDialect> dialect) {
  return Begin(options, std::move(dialect),
               {.clock = &ProgramClock(),
                .sleep = [](Duration time) { std::this_thread::sleep_for(time); },
                .dial = &MqttConnection::Open});
}

Result<std::unique_ptr<MqttChat>> MqttChat::Begin(const MqttChatOptions& options,
                                                  std::unique_ptr<MqttDialect> dialect,
                                                  World world) {
  std::unique_ptr<MqttChat> chat(new MqttChat(options, std::move(dialect), std::move(world)));
  RETURN_IF_ERROR(chat->Connect(nullptr));
  return chat;
}

Status MqttChat::Connect(const Stopped& stopped) {
  connection_ = nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<MqttConnection> made, world_.dial(options_.connection, stopped));
  servers_.clear();
  // Subscribed first, so that the retained status of servers has arrived when the second
  // subscription is granted. Some brokers do not let every client read it.
  const Status known = made->Subscribe(dialect_->status(), stopped, /*retained=*/true);
  if (!known.ok() && known.code() != StatusCode::kPermissionDenied) return known;
  Status subscribed = made->Subscribe(dialect_->replies(), stopped);
  if (!subscribed.ok()) return std::move(subscribed).WithContext(dialect_->replies());
  connection_ = std::move(made);
  return OkStatus();
}

Status MqttChat::Reconnect(const Stopped& stopped) {
  const TimePoint until = Now() + options_.reconnect;
  Duration wait = kFirstRetry;
  while (true) {
    const Status status = Connect(stopped);
    if (status.ok() || !IsLoss(status) || Now() + wait >= until) return status;
    const TimePoint next = Now() + wait;
    while (Now() < next) {
      if (stopped && stopped()) return StoppedStatus();
      world_.sleep(std::min<Duration>(next - Now(), milliseconds(100)));
    }
    wait = std::min(wait * 2, kMaxRetry);
  }
}

Status MqttChat::Recover(const Status& lost, const Callbacks& callbacks) {
  connection_ = nullptr;
  if (callbacks.on_notice) {
    callbacks.on_notice("the connection is lost, and made again for up to " +
                        std::to_string(options_.reconnect / seconds(1)) + " s: " + lost.message());
  }
  return Reconnect(callbacks.stopped);
}

Status MqttChat::FindServer(const Callbacks& callbacks) {
  if (connection_ == nullptr) RETURN_IF_ERROR(Reconnect(callbacks.stopped));
  // Reads everything that has arrived, because a server's last message may be followed by the end
  // of the connection.
  while (true) {
    const auto arrived = connection_->Receive(Now(), callbacks.stopped);
    if (!arrived.ok() && IsLoss(arrived.status())) {
      RETURN_IF_ERROR(Recover(arrived.status(), callbacks));
      continue;
    }
    if (!arrived.ok()) {
      if (arrived.status().reason() != "cancelled") connection_ = nullptr;
      return arrived.status();
    }
    if (arrived->empty()) return AllAreOffline() ? Offline() : OkStatus();
    for (const mqtt::Publish& message : arrived->messages)
      Note(message);  // answers are from earlier questions
  }
}

bool MqttChat::Note(const mqtt::Publish& message) {
  const std::optional<bool> online = dialect_->OnlineIn(message);
  if (online.has_value()) servers_[message.topic] = *online;
  return online.has_value();
}

bool MqttChat::AllAreOffline() const {
  return !servers_.empty() && std::none_of(servers_.begin(), servers_.end(),
                                           [](const auto& server) { return server.second; });
}

Status MqttChat::Offline() const {
  return Unavailable("unavailable", "the server is offline, as " + servers_.begin()->first +
                                        " says; the question was not taken");
}

Status MqttChat::Ask(const MqttQuestion& asked, const Callbacks& callbacks) {
  MqttQuestion question = asked;
  if (question.id.empty()) question.id = RandomName("m-");
  ASSIGN_OR_RETURN(const MqttSend said, dialect_->Ask(question));
  Duration hold{0};
  while (true) {
    const Status status = AskOnce(question, said, hold, callbacks);
    const auto wanted = status.retry_after();
    if (status.reason() != "rate_limit_exceeded" || !wanted || *wanted > options_.longest_hold)
      return status;
    hold = *wanted;
    if (callbacks.on_hold) callbacks.on_hold(hold);
  }
}

Status MqttChat::AskOnce(const MqttQuestion& question, const MqttSend& said, Duration hold,
                         const Callbacks& callbacks) {
  const std::unique_ptr<MqttReply> reply = dialect_->Reply(question);
  RETURN_IF_ERROR(FindServer(callbacks));
  connection_->HoldUntil(Now() + hold);
  RETURN_IF_ERROR(connection_->Send(Expiring(said, kQuestionExpiryS)));
  TimePoint heard = Now() + hold;
  const Duration first = dialect_->has_acceptance() ? options_.acceptance : options_.silence;
  Duration patience = first;
  TimePoint doubt = dialect_->has_acceptance() ? heard + options_.absence : TimePoint::max();
  bool unheard = false, offline = false;
  while (true) {
    auto arrived = connection_->Receive(std::min(heard + patience, doubt), callbacks.stopped);
    if (!arrived.ok()) {
      const Status lost = arrived.status();
      if (lost.reason() == "cancelled") return Cancel(*reply);
      if (!IsLoss(lost)) {
        connection_ = nullptr;
        return lost;
      }
      RETURN_IF_ERROR(Recover(lost, callbacks));
      RETURN_IF_ERROR(connection_->Send(Expiring(reply->AfterLoss(), kQuestionExpiryS)));
      if (std::exchange(offline, false)) {  // a server is back
        heard = Now();
        patience = first;
      }
      continue;
    }
    for (auto& [message, why] : arrived->refused) {
      if (why.code() != StatusCode::kNotFound) return std::move(why).WithContext(message.topic);
      // Some brokers report this wrongly: if the question was accepted, there was a subscriber.
      if (reply->accepted()) continue;
      unheard = true;
      patience = std::min(patience, options_.absence);
    }
    for (const mqtt::Publish& message : arrived->messages) {
      if (Note(message)) {
        if (!AllAreOffline()) continue;
        if (callbacks.on_notice) callbacks.on_notice("the server has gone offline");
        if (reply->accepted()) continue;  // the next process continues the answer
        offline = true;
        heard = Now();
        patience = std::min(patience, options_.absence);
        continue;
      }
      MqttReply::Update update = reply->Take(message);
      if (!update.reasoning.empty() && callbacks.on_reasoning)
        callbacks.on_reasoning(update.reasoning);
      if (!update.text.empty()) callbacks.on_text(update.text);
      if (update.ended) return update.status;
      if (update.send.has_value())
        RETURN_IF_ERROR(connection_->Send(Expiring(*std::move(update.send), kWordExpiryS)));
      heard = Now();
      if (!reply->accepted()) continue;
      patience = options_.silence;
      doubt = TimePoint::max();
    }
    if (Now() >= doubt) {
      doubt = TimePoint::max();
      if (callbacks.on_notice && patience > options_.absence)
        callbacks.on_notice("no server has taken the question yet");
    }
    if (Now() < heard + patience) continue;
    if (offline && AllAreOffline() && !reply->accepted()) return Offline();
    if (unheard && !reply->accepted())
      return Unavailable("unavailable", "no server listens to " + said.topic);
    if (patience < options_.silence) {
      return Unavailable("unavailable", "no server has taken the question for " +
                                            std::to_string(patience / seconds(1)) +
                                            " s: it is away, or listens to other topics than " +
                                            said.topic);
    }
    return Unavailable("unavailable", "the server has been silent for " +
                                          std::to_string(patience / seconds(1)) + " s");
  }
}

Status MqttChat::Cancel(MqttReply& reply) {
  if (connection_->DropUnsent() > 0 && !reply.accepted()) return StoppedStatus();  // not sent
  const std::optional<MqttSend> word = reply.Cancel();
  if (!word.has_value()) return StoppedStatus();
  const Status status = Exchange(
      *word, kCancelPatience,
      [&](const mqtt::Publish& message) { return reply.Take(message).ended; }, nullptr);
  if (!status.ok() && IsLoss(status)) connection_ = nullptr;
  return StoppedStatus();
}

Status MqttChat::Exchange(const MqttSend& message, Duration patience,
                          const std::function<bool(const mqtt::Publish&)>& take,
                          const Stopped& stopped) {
  RETURN_IF_ERROR(connection_->Send(Expiring(message, kWordExpiryS)));
  const TimePoint until = Now() + patience;
  while (Now() < until) {
    ASSIGN_OR_RETURN(const MqttConnection::Arrivals arrived, connection_->Receive(until, stopped));
    for (const auto& refused : arrived.refused) {
      if (refused.second.code() != StatusCode::kNotFound) return refused.second;
    }
    for (const mqtt::Publish& each : arrived.messages) {
      if (!Note(each) && take(each)) return OkStatus();
    }
    if (AllAreOffline()) return Offline();
  }
  return Unavailable("unavailable", "the server does not answer");
}

Result<std::vector<MqttItem>> MqttChat::History(const Stopped& stopped) {
  const std::string id = RandomName("m-");
  const std::optional<MqttSend> word = dialect_->AskHistory(id);
  if (!word.has_value())
    return Status(StatusCode::kUnimplemented, "unsupported", "this server does not tell it");
  RETURN_IF_ERROR(FindServer({.on_text = {}, .on_hold = {}, .stopped = stopped}));
  std::optional<Result<std::vector<MqttItem>>> history;
  RETURN_IF_ERROR(Exchange(
      *word, kWordPatience,
      [&](const mqtt::Publish& message) {
        history = dialect_->HistoryIn(message, id);
        return history.has_value();
      },
      stopped));
  return *std::move(history);
}

Status MqttChat::Clear(const Stopped& stopped) {
  const std::string id = RandomName("m-");
  const MqttSend word = dialect_->Clear(id);
  RETURN_IF_ERROR(FindServer({.on_text = {}, .on_hold = {}, .stopped = stopped}));
  std::optional<Status> cleared;
  RETURN_IF_ERROR(Exchange(
      word, kWordPatience,
      [&](const mqtt::Publish& message) {
        cleared = dialect_->ClearedIn(message, id);
        return cleared.has_value();
      },
      stopped));
  return *std::move(cleared);
}

Status MqttChat::GoOnWith(std::unique_ptr<MqttDialect> dialect) {
  dialect_ = std::move(dialect);
  return Reconnect(nullptr);
}

}  // namespace tutti::client
