#include "client/mqtt/connection.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/system_error.hpp>

#include "base/url.h"
#include "mqtt/link/link.h"
#include "mqtt/message_packet.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOpenPatience{30'000};  // for the connection and the TLS handshake
constexpr milliseconds kSendPatience{30'000};
constexpr size_t kMaxReceived = 64 << 10;  // beyond it, bytes are left in the socket

// A Link whose handlers run while a call waits.
class LinkTransport final : public MqttTransport {
 public:
  LinkTransport(mqtt::Address address, std::shared_ptr<boost::asio::ssl::context> tls)
      : address_(std::move(address)), tls_(std::move(tls)) {
    link_ = mqtt::MakeLink(io_, address_, tls_.get(),
                           {.unreachable = "unreachable",
                            .tls = "tls_failed",
                            .lost = "unreachable",
                            .plain_beyond_loopback = true},
                           {.opened = [this] { open_ = true; },
                            .received = [this](std::string_view bytes) { Take(bytes); },
                            .sent = [] {},
                            .closed = [this](const Status& why) { lost_ = why; }});
  }
  ~LinkTransport() override {
    link_->Close();
    // Runs the handlers that hold the link.
    io_.restart();
    io_.poll();
  }

  Status Open() {
    link_->Open();
    if (!RunUntil([this] { return open_; }, kOpenPatience))
      return Gone("no connection within the limit of time");
    return lost_;
  }

  Status Send(std::string_view bytes) override {
    link_->Send(std::string(bytes));
    while (link_->unsent() > 0 && lost_.ok()) {
      const size_t unsent = link_->unsent();
      if (!RunUntil([&] { return link_->unsent() < unsent; }, kSendPatience))
        return Gone("the server takes no bytes");
    }
    return lost_;
  }

  Result<std::string> Receive(milliseconds wait) override {
    RunUntil([this] { return !received_.empty(); }, wait);
    if (received_.empty() && !lost_.ok()) return lost_;
    if (lost_.ok()) link_->SetReading(true);
    return std::exchange(received_, {});
  }

 private:
  void Take(std::string_view bytes) {
    received_ += bytes;
    if (received_.size() >= kMaxReceived) link_->SetReading(false);
  }

  // Runs handlers until `done` or the connection is lost; false: neither within `wait`.
  template <typename Done>
  bool RunUntil(const Done& done, milliseconds wait) {
    const SteadyClock clock;
    const TimePoint until = clock.Now() + wait;
    io_.restart();
    io_.poll();
    while (lost_.ok() && !done()) {
      const Duration left = until - clock.Now();
      if (left <= Duration::zero()) return false;
      io_.restart();
      io_.run_one_for(left);
    }
    return true;
  }

  Status Gone(const char* why) const {
    return Unavailable("unreachable", mqtt::UrlOf(address_) + ": " + why);
  }

  const mqtt::Address address_;
  const std::shared_ptr<boost::asio::ssl::context> tls_;
  boost::asio::io_context io_{1};
  std::shared_ptr<mqtt::Link> link_;
  bool open_ = false;
  Status lost_;  // not OK: why the link is of no further use
  std::string received_;
};

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

Result<std::unique_ptr<MqttTransport>> OpenMqttTransport(const mqtt::Address& address,
                                                         const std::string& ca_file) {
  std::shared_ptr<boost::asio::ssl::context> tls;
  if (address.tls) {
    ASSIGN_OR_RETURN(tls, mqtt::MakeLinkTls(ca_file));
  }
  try {  // an io_context needs file descriptors
    auto transport = std::make_unique<LinkTransport>(address, std::move(tls));
    RETURN_IF_ERROR(transport->Open());
    return std::unique_ptr<MqttTransport>(std::move(transport));
  } catch (const boost::system::system_error& error) {
    return Unavailable("unreachable", mqtt::UrlOf(address) + ": " + error.what());
  }
}

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
