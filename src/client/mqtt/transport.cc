#include "client/mqtt/transport.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

#include "base/clock.h"
#include "mqtt/link/link.h"

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

}  // namespace tutti::client
