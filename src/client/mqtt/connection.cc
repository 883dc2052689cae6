#include "client/mqtt/connection.h"

#include <algorithm>

#include "base/loopback.h"
#include "mqtt/message_packet.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};  // how often `stopped` is asked

Status CheckText(const std::optional<std::string>& text, const char* what) {
  if (!text.has_value() || mqtt::IsMqttText(*text)) return OkStatus();
  return InvalidArgument("invalid_value",
                         std::string(what) + " must be UTF-8 of at most 65,535 bytes");
}

Status CheckLogin(const MqttOptions& options) {
  const MqttLogin& login = options.session.login;
  RETURN_IF_ERROR(CheckText(login.user, "the user name"));
  if (login.password.has_value() && login.password->size() > 65'535)
    return InvalidArgument("invalid_value", "the password is longer than 65,535 bytes");
  if (login.password.has_value() && !options.address.tls && !IsLoopback(options.address.host)) {
    return InvalidArgument("invalid_value", "a password for another machine needs TLS: mqtts://" +
                                                options.address.host);
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<MqttConnection>> MqttConnection::Open(const MqttOptions& options,
                                                             const Stopped& stopped) {
  RETURN_IF_ERROR(CheckLogin(options));
  ASSIGN_OR_RETURN(std::unique_ptr<MqttTransport> transport,
                   OpenMqttTransport(options.address, options.ca_file));
  return Over(std::move(transport), options, ProgramClock(), stopped);
}

Result<std::unique_ptr<MqttConnection>> MqttConnection::Over(
    std::unique_ptr<MqttTransport> transport, const MqttOptions& options, const Clock& clock,
    const Stopped& stopped) {
  std::unique_ptr<MqttConnection> connection(
      new MqttConnection(std::move(transport), options, clock));
  RETURN_IF_ERROR(connection->LogIn(stopped));
  return connection;
}

MqttConnection::~MqttConnection() {
  session_.Goodbye(out_);
  if (!out_.empty()) (void)transport_->Send(out_);  // errors do not matter: the connection ends
}

Status MqttConnection::LogIn(const Stopped& stopped) {
  session_.Open(clock_.Now(), out_);
  const TimePoint until = clock_.Now() + options_.patience;
  while (!session_.connected()) {
    if (clock_.Now() >= until) {
      return Unavailable("unreachable",
                         mqtt::UrlOf(options_.address) + ": no answer within the limit of time");
    }
    RETURN_IF_ERROR(Turn(until, stopped));
  }
  return OkStatus();
}

Status MqttConnection::Subscribe(const std::string& filter, const Stopped& stopped, bool retained) {
  session_.Subscribe(filter, retained, clock_.Now(), out_);
  const TimePoint until = clock_.Now() + options_.patience;
  while (!session_.subscribed().has_value()) {
    if (clock_.Now() >= until)
      return Unavailable("unreachable", "no answer to a subscription within the limit of time");
    RETURN_IF_ERROR(Turn(until, stopped));
  }
  return *session_.subscribed();
}

Result<MqttConnection::Arrivals> MqttConnection::Receive(TimePoint until, const Stopped& stopped) {
  do {
    const Status status = Turn(arrived_.empty() ? until : clock_.Now(), stopped);
    TakeRefusals();
    // Messages received before the connection broke are returned first.
    if (!status.ok() && arrived_.empty()) return status;
  } while (arrived_.empty() && clock_.Now() < until);
  return std::exchange(arrived_, {});
}

Status MqttConnection::Flush(Duration patience, const Stopped& stopped) {
  const TimePoint until = clock_.Now() + patience;
  while (session_.unsent() + session_.unacknowledged() > 0) {
    if (clock_.Now() >= until)
      return Unavailable("unreachable", "no acknowledgement within the limit of time");
    RETURN_IF_ERROR(Turn(until, stopped));
  }
  TakeRefusals();
  return arrived_.refused.empty() ? OkStatus() : arrived_.refused.front().second;
}

Status MqttConnection::Turn(TimePoint until, const Stopped& stopped) {
  if (stopped && stopped()) return {StatusCode::kCancelled, "cancelled", "the request was stopped"};
  if (broken_.ok()) broken_ = Exchange(until);
  return broken_;
}

Status MqttConnection::Exchange(TimePoint until) {
  const TimePoint now = clock_.Now();
  session_.Pump(now, out_);
  RETURN_IF_ERROR(session_.Ping(now, out_));
  RETURN_IF_ERROR(SendOut());
  const TimePoint next = std::min({until, session_.due(), now + kLook});
  const auto wait = std::max<int64_t>(std::chrono::ceil<milliseconds>(next - now).count(), 0);
  ASSIGN_OR_RETURN(const std::string bytes, transport_->Receive(milliseconds(wait)));
  RETURN_IF_ERROR(session_.On(bytes, clock_.Now(), out_, arrived_.messages));
  session_.Pump(clock_.Now(), out_);
  return SendOut();
}

Status MqttConnection::SendOut() {
  if (out_.empty()) return OkStatus();
  return transport_->Send(std::exchange(out_, {}));
}

void MqttConnection::TakeRefusals() {
  while (auto refused = session_.TakeRefused()) arrived_.refused.push_back(*std::move(refused));
}

}  // namespace tutti::client
