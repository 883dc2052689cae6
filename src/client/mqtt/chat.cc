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
constexpr Duration kWordPatience = seconds(30);  // of what no model is asked for
constexpr Duration kFirstRetry = milliseconds(500), kMostRetry = seconds(8);

Status StoppedStatus() { return {StatusCode::kCancelled, "cancelled", "the answer was stopped"}; }

// A connection that broke may be made again; what the server or the user said stays said.
bool IsLoss(const Status& status) {
  return status.reason() == "unreachable" || status.reason() == "connection_closed";
}

const SteadyClock& TheClock() {
  static const SteadyClock clock;
  return clock;
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
               {.clock = &TheClock(),
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
    wait = std::min(wait * 2, kMostRetry);
  }
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
  if (connection_ == nullptr) RETURN_IF_ERROR(Reconnect(callbacks.stopped));
  connection_->HoldUntil(Now() + hold);
  RETURN_IF_ERROR(connection_->Send(said));
  TimePoint heard = Now() + hold;
  Duration patience = options_.silence;
  while (true) {
    auto arrived = connection_->Receive(heard + patience, callbacks.stopped);
    if (!arrived.ok()) {
      const Status lost = arrived.status();
      if (lost.reason() == "cancelled") return Cancel(*reply);
      if (!IsLoss(lost)) {
        connection_ = nullptr;
        return lost;
      }
      RETURN_IF_ERROR(Reconnect(callbacks.stopped));
      RETURN_IF_ERROR(connection_->Send(reply->AfterLoss()));
      continue;
    }
    for (auto& [message, why] : arrived->refused) {
      if (why.code() != StatusCode::kNotFound) return std::move(why).WithContext(message.topic);
      // Some brokers say so wrongly: whoever answers soon was there.
      if (!reply->accepted()) patience = std::min(patience, options_.absence);
    }
    for (const mqtt::Publish& message : arrived->messages) {
      const bool before = reply->accepted();
      MqttReply::Told told = reply->Take(message);
      if (!told.text.empty()) callbacks.on_text(told.text);
      if (told.ended) return told.status;
      if (told.say.has_value()) RETURN_IF_ERROR(connection_->Send(*std::move(told.say)));
      if (!before && reply->accepted()) patience = options_.silence;
      heard = Now();
    }
    if (Now() < heard + patience) continue;
    if (patience < options_.silence)
      return Unavailable("unavailable", "no server listens to " + said.topic);
    return Unavailable("unavailable", "the server has been silent for " +
                                          std::to_string(patience / seconds(1)) + " s");
  }
}

Status MqttChat::Cancel(MqttReply& reply) {
  if (connection_->DropUnsent() > 0 && !reply.accepted()) return StoppedStatus();  // unheard
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
  RETURN_IF_ERROR(connection_->Send(message));
  const TimePoint until = Now() + patience;
  while (Now() < until) {
    ASSIGN_OR_RETURN(const MqttConnection::Arrivals arrived, connection_->Receive(until, stopped));
    for (const auto& refused : arrived.refused) {
      if (refused.second.code() != StatusCode::kNotFound) return refused.second;
    }
    for (const mqtt::Publish& each : arrived.messages) {
      if (take(each)) return OkStatus();
    }
  }
  return Unavailable("unavailable", "the server does not answer");
}

Result<std::vector<MqttItem>> MqttChat::History(const Stopped& stopped) {
  const std::string id = RandomName("m-");
  const std::optional<MqttSend> word = dialect_->AskHistory(id);
  if (!word.has_value())
    return Status(StatusCode::kUnimplemented, "unsupported", "this server does not tell it");
  if (connection_ == nullptr) RETURN_IF_ERROR(Reconnect(stopped));
  std::optional<Result<std::vector<MqttItem>>> told;
  RETURN_IF_ERROR(Exchange(
      *word, kWordPatience,
      [&](const mqtt::Publish& message) {
        told = dialect_->HistoryIn(message, id);
        return told.has_value();
      },
      stopped));
  return *std::move(told);
}

Status MqttChat::Clear(const Stopped& stopped) {
  const std::string id = RandomName("m-");
  const MqttSend word = dialect_->Clear(id);
  if (connection_ == nullptr) RETURN_IF_ERROR(Reconnect(stopped));
  std::optional<Status> told;
  RETURN_IF_ERROR(Exchange(
      word, kWordPatience,
      [&](const mqtt::Publish& message) {
        told = dialect_->ClearedIn(message, id);
        return told.has_value();
      },
      stopped));
  return *std::move(told);
}

Status MqttChat::GoOnWith(std::unique_ptr<MqttDialect> dialect) {
  dialect_ = std::move(dialect);
  return Reconnect(nullptr);
}

}  // namespace tutti::client
