// GET /v1/responses with an upgrade: the Responses API over WebSocket. Frames in and out, who asks,
// lanes, pings, age and drain.
#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "doors/http/connection.h"
#include "doors/http/exchange.h"
#include "doors/http/socket_lane.h"
#include "doors/http/socket_upgrade.h"
#include "services/auth/who_asks.h"
#include "wire/socket_message.h"
#include "wire/websocket_frame.h"

namespace tutti::http {
namespace {

using Verb = wire::SocketMessage::Verb;

struct Understood {
  std::string stream_id;
  Result<wire::SocketMessage> message = Internal("nothing was read");
};

Understood ParseMessage(std::string_view text, const wire::ParseOptions& options) {
  Understood understood;
  understood.message = wire::ParseSocketMessage(text, options, &understood.stream_id);
  return understood;
}

class SocketExchange final : public Exchange, private SocketHost {
 public:
  explicit SocketExchange(Connection& connection)
      : connection_(connection),
        limits_(connection.context().options.socket),
        reader_(wire::FrameLimits()),
        share_(&connection.context().memory_budget) {}

  void Start() override {
    if (const Status may = CheckUpgrade(connection_.request()); !may.ok())
      return connection_.RespondError(may);
    if (connection_.context().draining.load())
      return connection_.RespondError(ResponseCursor::Interrupted());
    began_ = heard_ = Now();
    identified_ = !connection_.decision().asks_later;
    connection_.BeginTunnel(UpgradeHeaders(connection_.request()));
  }

  size_t OnBytes(std::string_view bytes) override {
    heard_ = Now();
    asked_ = false;
    std::string_view rest = bytes;
    while (!closing_ && !parsing_) {
      const std::optional<wire::FrameEvent> event = reader_.Next(&rest);
      if (!event.has_value()) break;
      OnFrame(*event);
    }
    if (closing_) return bytes.size();
    if (!identified_ && reader_.held() > limits_.auth_bytes)
      Close(4401, "the first message says who asks, in at most 16 KiB");
    if (!share_.GrowTo(static_cast<int64_t>(reader_.held())))
      Close(wire::kCloseTryAgainLater, "too many large messages are being read");
    share_.ShrinkTo(static_cast<int64_t>(reader_.held()));
    return bytes.size() - rest.size();
  }

  // Lane by lane, a few events each, so that none waits for another's to end.
  void Pump() override {
    bool any = true;
    while (any && !closing_ && HasRoom()) {
      any = false;
      auto lane = lanes_.upper_bound(last_pumped_);
      for (size_t i = lanes_.size(); i > 0 && HasRoom(); --i) {
        if (lane == lanes_.end()) lane = lanes_.begin();
        last_pumped_ = lane->first;
        any |= lane->second->Pump();
        ++lane;
      }
    }
  }

  TimePoint Due() const override {
    if (closing_ || began_ == TimePoint()) return TimePoint::max();
    TimePoint due = heard_ + (asked_ ? limits_.silent_time : limits_.ping_time);
    if (!identified_) due = std::min(due, began_ + limits_.auth_time);
    return std::min(due, began_ + limits_.age + (aged_ ? limits_.age_grace : Duration::zero()));
  }

  void OnTimer(TimePoint now) override {
    if (!identified_ && now >= began_ + limits_.auth_time)
      return Close(4401, "nobody said in time who asks");
    if (now >= began_ + limits_.age) OnAge(now);
    if (now >= heard_ + limits_.silent_time)
      return Close(wire::kClosePolicy, "no answer to a ping");
    if (!asked_ && now >= heard_ + limits_.ping_time) {
      asked_ = true;
      std::string frame;
      wire::AppendPing(&frame);
      Write(frame);
    }
  }

  void OnDrain() override {
    draining_ = true;
    CloseIfDone();
  }

 private:
  TimePoint Now() const { return connection_.loop()->clock().Now(); }

  // --- frames ---

  void OnFrame(const wire::FrameEvent& event) {
    std::string frame;
    switch (event.kind) {
      case wire::FrameEvent::Kind::kText:
        return OnText(event.payload);
      case wire::FrameEvent::Kind::kPing:
        if (TooManyPings()) return Close(wire::kClosePolicy, "too many pings");
        wire::AppendPong(event.payload, &frame);
        return Write(frame);
      case wire::FrameEvent::Kind::kPong:
        if (TooManyPings()) Close(wire::kClosePolicy, "too many pongs");
        return;
      case wire::FrameEvent::Kind::kClose:
        return Close(event.code, "");
      case wire::FrameEvent::Kind::kFault:
        return Close(event.code, event.payload);
    }
  }

  bool TooManyPings() {
    if (Now() >= pings_since_ + std::chrono::seconds(1)) {
      pings_since_ = Now();
      pings_ = 0;
    }
    return ++pings_ > limits_.pings_per_s;
  }

  void Write(std::string_view frame) {
    if (!closing_) connection_.Send(frame);
  }

  void Close(int code, std::string_view why) {
    if (closing_) return;
    std::string frame;
    wire::AppendClose(code, why, &frame);
    connection_.Send(frame);
    closing_ = true;
    connection_.EndStream();
  }

  // --- messages ---

  void OnText(const std::string& text) {
    if (!identified_ && text.size() > limits_.auth_bytes)
      return Close(4401, "the first message says who asks, in at most 16 KiB");
    const HttpOptions& options = connection_.context().options;
    const wire::ParseOptions parse{options.strict, Now(), options.limits.deadline_cap};
    BudgetShare share(&connection_.context().memory_budget);
    if (!share.GrowTo(static_cast<int64_t>(text.size())))
      return Close(wire::kCloseTryAgainLater, "too many large messages are being read");
    if (text.size() <= kInlineJsonBytes)
      return OnUnderstood(ParseMessage(text, parse), std::move(share));
    parsing_ = true;  // what follows waits, so that the order stays
    auto held = std::make_shared<BudgetShare>(std::move(share));
    connection_.Offload(connection_.context().json_helper,
                        [this, text, parse, held]() -> Connection::Continuation {
                          auto understood = std::make_shared<Understood>(ParseMessage(text, parse));
                          return [this, understood, held] {
                            parsing_ = false;
                            OnUnderstood(std::move(*understood), std::move(*held));
                            connection_.ReadOn();
                          };
                        });
  }

  void OnUnderstood(Understood understood, BudgetShare share) {
    if (!identified_) return OnFirst(understood.message);
    if (!understood.message.ok()) {
      SayError(understood.message.status(), Connection::Origin::kDoor, understood.stream_id);
      if (++bad_messages_ >= limits_.bad_messages) Close(4400, "too many bad messages");
      return;
    }
    bad_messages_ = 0;
    wire::SocketMessage& message = *understood.message;
    switch (message.verb) {
      case Verb::kPing:
        return Say(wire::SocketPong(message.id));
      case Verb::kAuth:
        return SayError(InvalidArgument("invalid_value", "who asks is known already"),
                        Connection::Origin::kDoor, "");
      case Verb::kCancel:
        return Cancel(message.response_id);
      case Verb::kCreate:
      case Verb::kSubscribe:
        return Accept(std::move(message), std::move(share));
    }
  }

  // Of who did not say it at the upgrade.
  void OnFirst(const Result<wire::SocketMessage>& message) {
    if (!message.ok() || message->verb != Verb::kAuth)
      return Refuse(Status(StatusCode::kUnauthenticated, "invalid_api_key",
                           "the first message must be of type auth"));
    const auth::Authority& authority = *connection_.context().deps.authority;
    Result<auth::PrincipalRef> who = authority.FromBearer(message->token, std::time(nullptr));
    if (!who.ok()) return Refuse(who.status());
    if (const Status may = auth::MayUse(**who, connection_.decision().route->rule); !may.ok())
      return Refuse(may);
    identified_ = true;
    connection_.Identify(*std::move(who));
  }

  // The error, and with its code the end.
  void Refuse(const Status& why) {
    const wire::ErrorRow& row = wire::FindError(why);
    SayError(why, Connection::Origin::kDoor, "");
    Close(row.websocket, row.code);
  }

  void Cancel(const std::string& response_id) {
    connection_.context().deps.responses->Cancel(
        connection_.tenant(), response_id,
        [here = connection_.Return(),
         this](Result<std::shared_ptr<responses::Response>> cancelled) {
          here([this, status = cancelled.status()] {
            if (!status.ok()) SayError(status, Connection::Origin::kDoor, "");
          });
        });
  }

  void Accept(wire::SocketMessage message, BudgetShare share) {
    const std::string stream_id = message.stream_id;
    const auto refuse = [&](const Status& why) {
      SayError(why, Connection::Origin::kDoor, stream_id);
    };
    const auth::PrincipalRef& who = connection_.decision().principal;
    if (who != nullptr) {
      const Status still =
          connection_.context().deps.authority->StillValid(*who, std::time(nullptr));
      if (!still.ok()) return Refuse(still);
    }
    if (aged_) return refuse(TooOld());
    if (draining_) return refuse(ResponseCursor::Interrupted());
    SocketLane* const lane = LaneOf(stream_id);
    if (lane == nullptr) {
      return refuse(InvalidArgument("websocket_stream_limit_reached",
                                    "at most " + std::to_string(limits_.lanes) +
                                        " values of stream_id are answered at once")
                        .WithParam("stream_id"));
    }
    if (message.verb == Verb::kCreate) {
      std::string& id = message.call.request.request_id;
      if (id.empty()) id = "req-" + connection_.loop()->RandomId(24);
    }
    if (const Status added = lane->Add(std::move(message), std::move(share)); !added.ok())
      return refuse(added);
    lane->Next();
  }

  // A new one in place of the one that has been idle longest, if there are too many; null: none is.
  SocketLane* LaneOf(const std::string& stream_id) {
    const auto found = lanes_.find(stream_id);
    if (found != lanes_.end()) return found->second.get();
    if (lanes_.size() >= limits_.lanes) {
      auto oldest = lanes_.end();
      for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
        if (lane->second->idle() &&
            (oldest == lanes_.end() || lane->second->idle_since() < oldest->second->idle_since()))
          oldest = lane;
      }
      if (oldest == lanes_.end()) return nullptr;
      lanes_.erase(oldest);
    }
    SocketHost& host = *this;
    return lanes_.emplace(stream_id, std::make_unique<SocketLane>(connection_, host, stream_id))
        .first->second.get();
  }

  // --- SocketHost ---

  void Say(std::string_view json) override {
    std::string frame;
    wire::AppendText(json, &frame);
    Write(frame);
  }

  void SayError(const Status& why, Connection::Origin origin, std::string_view stream_id) override {
    const wire::ErrorView error = connection_.Shown(why, origin);
    std::optional<wire::ContextNumbers> numbers;
    if (const auto excess = why.excess(); excess && error.code == "context_length_exceeded")
      numbers = {static_cast<int>(excess->asked), static_cast<int>(excess->most)};
    Say(wire::SocketError(error, stream_id, numbers));
  }

  bool HasRoom() const override {
    return !closing_ && connection_.unsent() < connection_.context().options.limits.unsent_bytes;
  }

  const ResponseStart::Messages* Remembered(const std::string& response_id) const override {
    for (const auto& [id, lane] : lanes_) {
      if (const auto* dialog = lane->Remembered(response_id)) return dialog;
    }
    return nullptr;
  }

  void LaneIdle() override { CloseIfDone(); }

  // --- the end ---

  Status TooOld() const {
    return InvalidArgument("websocket_connection_limit_reached",
                           "this connection is too old to begin anything: open another one");
  }

  void OnAge(TimePoint now) {
    if (!aged_) {
      aged_ = true;
      SayError(TooOld(), Connection::Origin::kDoor, "");
    }
    if (now >= began_ + limits_.age + limits_.age_grace)
      return Close(4400, "websocket_connection_limit_reached");
    CloseIfDone();
  }

  void CloseIfDone() {
    if (closing_ || (!draining_ && !aged_)) return;
    const bool idle = std::all_of(lanes_.begin(), lanes_.end(),
                                  [](const auto& lane) { return lane.second->idle(); });
    if (!idle) return;
    if (draining_) return Close(wire::kCloseGoingAway, "the server is shutting down");
    Close(4400, "websocket_connection_limit_reached");
  }

  Connection& connection_;
  const SocketLimits& limits_;
  wire::FrameReader reader_;
  BudgetShare share_;  // of what the reader holds
  TimePoint began_, heard_;
  bool identified_ = false, asked_ = false;  // asked: a ping waits for any answer
  bool parsing_ = false, aged_ = false, draining_ = false, closing_ = false;
  TimePoint pings_since_;
  int pings_ = 0, bad_messages_ = 0;
  std::map<std::string, std::unique_ptr<SocketLane>> lanes_;
  std::string last_pumped_;
};

}  // namespace

std::unique_ptr<Exchange> MakeSocketExchange(Connection& connection) {
  return std::make_unique<SocketExchange>(connection);
}

}  // namespace tutti::http
