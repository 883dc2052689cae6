// The handler of a WebSocket: frames in and out, authentication, pings, age and drain. A dialect
// handles the messages (socket_host.h): the Responses API for GET /v1/responses with an upgrade,
// chat for GET /v1/ws.
#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/websocket/frame.h"
#include "server/http/connection/connection.h"
#include "server/http/handler.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/response_feed.h"
#include "server/http/websocket/chat_dialect.h"
#include "server/http/websocket/responses_dialect.h"
#include "server/http/websocket/socket_host.h"
#include "server/http/websocket/socket_upgrade.h"
#include "services/auth/authenticator.h"

namespace tutti::http {
namespace {

template <typename Dialect>
class SocketHandler final : public Handler, private SocketHost {
 public:
  explicit SocketHandler(Connection& connection)
      : connection_(connection),
        limits_(connection.context().options.socket),
        reader_(protocol::FrameLimits()),
        share_(&connection.context().memory_budget),
        dialect_(connection, *this) {}

  void Start() override {
    if (const Status may = CheckUpgrade(connection_.request()); !may.ok())
      return connection_.RespondError(may);
    if (connection_.context().draining.load()) return connection_.RespondError(Draining());
    if (const Status may = dialect_.Open(); !may.ok()) return connection_.RespondError(may);
    identified_ = !connection_.request_context().decision().asks_later;
    if (identified_) {
      if (const Status may = dialect_.Identified(); !may.ok()) return connection_.RespondError(may);
    }
    began_ = heard_ = Now();
    connection_.BeginTunnel(UpgradeHeaders(connection_.request()));
    if (identified_) dialect_.Begin();
  }

  size_t OnBytes(std::string_view bytes) override {
    heard_ = Now();
    asked_ = false;
    std::string_view rest = bytes;
    while (!closing_ && !parsing_) {
      const std::optional<protocol::FrameEvent> event = reader_.Next(&rest);
      if (!event.has_value()) break;
      OnFrame(*event);
    }
    if (closing_) return bytes.size();
    if (!identified_ && reader_.held() > limits_.auth_bytes)
      Close(4401, "the first message must authenticate, in at most 16 KiB");
    if (!share_.GrowTo(static_cast<int64_t>(reader_.held())))
      Close(protocol::kCloseTryAgainLater, "too many large messages are being read");
    share_.ShrinkTo(static_cast<int64_t>(reader_.held()));
    return bytes.size() - rest.size();
  }

  void Pump() override { dialect_.Pump(); }

  TimePoint Due() const override {
    if (closing_ || began_ == TimePoint()) return TimePoint::max();
    TimePoint due = heard_ + (asked_ ? limits_.silent_time : limits_.ping_time);
    if (!identified_) due = std::min(due, began_ + limits_.auth_time);
    return std::min(due, leaving_.ok() ? began_ + limits_.age : leave_by_);
  }

  void OnTimer(TimePoint now) override {
    if (!identified_ && now >= began_ + limits_.auth_time)
      return Close(4401, "authentication timeout");
    if (leaving_.ok() && now >= began_ + limits_.age) {
      const Status old =
          InvalidArgument("websocket_connection_limit_reached",
                          "this connection is too old to begin anything: open another one");
      dialect_.SendError(old, {});
      Leave(old, 4400);
    }
    if (now >= leave_by_) return Close(leave_code_, leaving_.reason());
    if (now >= heard_ + limits_.silent_time)
      return Close(protocol::kClosePolicy, "no answer to a ping");
    if (!asked_ && now >= heard_ + limits_.ping_time) {
      asked_ = true;
      std::string frame;
      protocol::AppendPing(&frame);
      Write(frame);
    }
  }

  // Replaces an earlier reason for leaving; the server's own limit ends the wait.
  void OnDrain() override {
    leaving_ = Draining();
    leave_code_ = protocol::kCloseGoingAway;
    leave_by_ = TimePoint::max();
    Idle();
  }

 private:
  using Understood = typename Dialect::Understood;

  TimePoint Now() const { return connection_.loop()->clock().Now(); }

  // --- frames ---

  void OnFrame(const protocol::FrameEvent& event) {
    std::string frame;
    switch (event.kind) {
      case protocol::FrameEvent::Kind::kText:
        return OnText(event.payload);
      case protocol::FrameEvent::Kind::kPing:
        if (TooManyPings()) return Close(protocol::kClosePolicy, "too many pings");
        protocol::AppendPong(event.payload, &frame);
        return Write(frame);
      case protocol::FrameEvent::Kind::kPong:
        if (TooManyPings()) Close(protocol::kClosePolicy, "too many pongs");
        return;
      case protocol::FrameEvent::Kind::kClose:
        return Close(event.code, "");
      case protocol::FrameEvent::Kind::kFault:
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

  // --- messages ---

  void OnText(const std::string& text) {
    if (!identified_ && text.size() > limits_.auth_bytes)
      return Close(4401, "the first message must authenticate, in at most 16 KiB");
    const HttpOptions& options = connection_.context().options;
    const protocol::ParseOptions parse{options.strict, Now(), options.limits.deadline_cap};
    BudgetShare share(&connection_.context().memory_budget);
    if (!share.GrowTo(static_cast<int64_t>(text.size())))
      return Close(protocol::kCloseTryAgainLater, "too many large messages are being read");
    if (text.size() <= kInlineJsonBytes)
      return OnUnderstood(Dialect::Understand(text, parse), std::move(share));
    parsing_ = true;  // later messages wait, to keep the order
    auto held = std::make_shared<BudgetShare>(std::move(share));
    connection_.Offload(
        connection_.context().json_helper, [this, text, parse, held]() -> Connection::Continuation {
          auto understood = std::make_shared<Understood>(Dialect::Understand(text, parse));
          return [this, understood, held] {
            parsing_ = false;
            OnUnderstood(std::move(*understood), std::move(*held));
            connection_.ReadOn();
          };
        });
  }

  void OnUnderstood(Understood understood, BudgetShare share) {
    if (!identified_) return OnFirst(understood);
    if (const auto& who = connection_.request_context().decision().principal; who != nullptr) {
      const Status still =
          connection_.context().deps.authority->StillValid(*who, std::time(nullptr));
      if (!still.ok()) return Refuse(still);
    }
    if (understood.message.ok()) {
      bad_messages_ = 0;
      return dialect_.Take(*std::move(understood.message), std::move(understood.tag),
                           std::move(share));
    }
    dialect_.SendError(understood.message.status(), understood.tag);
    if (Dialect::EndsIt(understood.message.status()))
      return Close(4400, understood.message.status().reason());
    if (++bad_messages_ >= limits_.bad_messages) Close(4400, "too many bad messages");
  }

  // Handles the first message of a client that did not authenticate in the upgrade request.
  void OnFirst(const Understood& understood) {
    const std::string* const token =
        understood.message.ok() ? Dialect::TokenOf(*understood.message) : nullptr;
    if (token == nullptr) {
      return Refuse(Status(StatusCode::kUnauthenticated, "invalid_api_key",
                           "the first message must be of type auth"));
    }
    const auth::Authenticator& authority = *connection_.context().deps.authority;
    Result<auth::PrincipalRef> who = authority.FromBearer(*token, std::time(nullptr));
    if (!who.ok()) return Refuse(who.status());
    if (const Status may =
            auth::MayUse(**who, connection_.request_context().decision().route->rule);
        !may.ok())
      return Refuse(may);
    connection_.request_context().Identify(*std::move(who));
    if (const Status may = dialect_.Identified(); !may.ok()) return Refuse(may);
    identified_ = true;
    dialect_.Begin();
  }

  // The error, and with its code the end.
  void Refuse(const Status& why) {
    const protocol::ErrorRow& row = protocol::FindError(why);
    dialect_.SendError(why, {});
    Close(row.websocket, row.code);
  }

  // --- SocketHost ---

  void Send(std::string_view json) override {
    std::string frame;
    protocol::AppendText(json, &frame);
    Write(frame);
  }

  bool HasRoom() const override {
    return !closing_ && connection_.unsent() < connection_.context().options.limits.unsent_bytes;
  }

  const Status& leaving() const override { return leaving_; }

  void Leave(const Status& why, int code) override {
    if (!leaving_.ok()) return;
    leaving_ = why;
    leave_code_ = code;
    leave_by_ = Now() + limits_.age_grace;
    connection_.Reschedule();
    Idle();
  }

  void Close(int code, std::string_view why) override {
    if (closing_) return;
    std::string frame;
    protocol::AppendClose(code, why, &frame);
    connection_.Send(frame);
    closing_ = true;
    connection_.EndStream();
  }

  void Idle() override {
    if (closing_ || leaving_.ok() || !dialect_.idle()) return;
    Close(leave_code_, leave_code_ == protocol::kCloseGoingAway ? "the server is shutting down"
                                                                : leaving_.reason());
  }

  Connection& connection_;
  const SocketLimits& limits_;
  protocol::FrameReader reader_;
  BudgetShare share_;  // of what the reader holds
  TimePoint began_, heard_;
  bool identified_ = false, asked_ = false;  // asked: a ping waits for any answer
  bool parsing_ = false, closing_ = false;
  // The reason why no new request is accepted, the close code, and the latest time of the close.
  Status leaving_;
  int leave_code_ = 0;
  TimePoint leave_by_ = TimePoint::max();
  TimePoint pings_since_;
  int pings_ = 0, bad_messages_ = 0;
  Dialect dialect_;
};

}  // namespace

std::unique_ptr<Handler> MakeSocketHandler(RouteId route, Connection& connection) {
  if (route == RouteId::kChatSocket)
    return std::make_unique<SocketHandler<ChatDialect>>(connection);
  return std::make_unique<SocketHandler<ResponsesDialect>>(connection);
}

}  // namespace tutti::http
