#include "server/mqtt/listener/listener.h"

#include <atomic>
#include <optional>
#include <utility>

#include "base/wake_count.h"
#include "mqtt/codec.h"
#include "mqtt/topics.h"
#include "server/access/bind_rule.h"
#include "server/access/web_rule.h"
#include "server/mqtt/listener/acceptor.h"
#include "server/mqtt/listener/connection.h"
#include "server/mqtt/listener/loop.h"
#include "server/net/address.h"
#include "server/net/tls.h"

namespace tutti::mqtt::listener {
namespace {

constexpr int kMaxWaiting = 16'384;             // messages for the io thread
constexpr int64_t kMaxWaitingBytes = 64 << 20;  // of them
constexpr size_t kMaxPayloadBytes = 16 << 20;   // of one
constexpr Duration kGoodbye = std::chrono::seconds(1);

// Whether it can be written to a subscriber, of either version.
Status CheckMessage(const Message& message) {
  Publish packet;
  packet.topic = message.topic;
  packet.qos = 1;
  packet.packet_id = 1;
  packet.properties.content_type = message.content_type;
  packet.properties.correlation_data = message.correlation_data;
  packet.properties.user = message.user_properties;
  const auto is_topic = [](const std::string& topic) { return IsTopicName(topic); };
  if (!is_topic(message.topic) || message.qos > 1 || message.payload.size() > kMaxPayloadBytes ||
      (!message.response_topic.empty() && !is_topic(message.response_topic))) {
    return InvalidArgument("invalid_value",
                           "no topic name, a QoS above 1, or a payload above 16 MiB");
  }
  return Encode(Version::k5, packet).status();
}

}  // namespace

struct Listener::Impl {
  Impl(ListenerOptions o, Dependencies d)
      : options(std::move(o)),
        deps(d),
        loop(options.limits, *deps.clock, *deps.authenticator, deps.log) {}

  Status Start() {
    ASSIGN_OR_RETURN(const auto address, sockets::ParseAddress(options.host));
    RETURN_IF_ERROR(access::CheckBind({.host = options.host,
                                       .loopback = address.is_loopback(),
                                       .has_key = true,  // nobody is served without a login
                                       .tls_cert_file = options.tls_cert_file,
                                       .tls_key_file = options.tls_key_file,
                                       .tls_client_ca_file = options.tls_client_ca_file}));
    std::shared_ptr<sockets::TlsContext> tls;
    if (!options.tls_cert_file.empty()) {
      ASSIGN_OR_RETURN(tls,
                       sockets::LoadServerTls({.cert_file = options.tls_cert_file,
                                               .key_file = options.tls_key_file,
                                               .client_ca_file = options.tls_client_ca_file,
                                               .client_required = options.tls_client_required}));
    }
    if (options.port >= 0) {
      plain = std::make_unique<Acceptor>(loop, tls, nullptr);
      RETURN_IF_ERROR(plain->Listen(address, options.port, "mqtt-port"));
    }
    if (options.websocket_port >= 0) {
      web_rule.emplace(options.cors_origins, options.allowed_hosts, address.is_loopback());
      websocket = std::make_unique<Acceptor>(loop, tls, &*web_rule);
      RETURN_IF_ERROR(websocket->Listen(address, options.websocket_port, "mqtt-websocket-port"));
    }
    loop.on_closed = [this] {
      closed.Raise();
      Accept();
    };
    running = true;
    loop.Start();
    loop.Do([this] { Accept(); });
    return OkStatus();
  }

  void Accept() {
    if (plain != nullptr) plain->Accept();
    if (websocket != nullptr) websocket->Accept();
  }

  void Stop() {
    if (!std::exchange(running, false)) return;
    loop.Do([this] {
      if (plain != nullptr) plain->Close();
      if (websocket != nullptr) websocket->Close();
      loop.ForEach([](Connection& connection) { connection.Shutdown(); });
    });
    const auto until = std::chrono::steady_clock::now() + kGoodbye;
    while (true) {
      const uint64_t seen = closed.count();
      if (loop.connections() == 0 || !closed.Wait(seen, until)) break;
    }
    loop.Stop();
  }

  const ListenerOptions options;
  const Dependencies deps;
  std::atomic<int> waiting{0};
  std::atomic<int64_t> waiting_bytes{0};
  WakeCount closed;                         // a connection is gone
  bool running = false;                     // owner
  std::optional<access::WebRule> web_rule;  // outlives the connections
  Loop loop;
  std::unique_ptr<Acceptor> plain, websocket;  // io thread, after Start()
};

Listener::Listener(ListenerOptions options, Dependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), dependencies)) {}
Listener::~Listener() { Stop(); }

Status Listener::Start() { return impl_->Start(); }
void Listener::Stop() { impl_->Stop(); }
int Listener::port() const { return impl_->plain == nullptr ? -1 : impl_->plain->port(); }
int Listener::websocket_port() const {
  return impl_->websocket == nullptr ? -1 : impl_->websocket->port();
}
void Listener::Revoke(std::string credential) {
  Impl* const impl = impl_.get();
  impl->loop.inbox()->Post([impl, credential = std::move(credential)] {
    impl->loop.ForEach([&](Connection& connection) { connection.Revoke(credential); });
  });
}

int Listener::connections() const { return impl_->loop.connections(); }

Status Listener::Publish(Message message, Published done) {
  RETURN_IF_ERROR(CheckMessage(message));
  const auto bytes = static_cast<int64_t>(message.topic.size() + message.payload.size());
  Impl* const impl = impl_.get();
  const auto release = [impl, bytes] {
    impl->waiting.fetch_sub(1);
    impl->waiting_bytes.fetch_sub(bytes);
  };
  const int waiting = impl->waiting.fetch_add(1);
  const int64_t before = impl->waiting_bytes.fetch_add(bytes);
  if (waiting >= kMaxWaiting || (waiting > 0 && before + bytes > kMaxWaitingBytes)) {
    release();
    return Unavailable("overloaded", "too many messages wait to be sent over MQTT");
  }
  const bool posted = impl->loop.inbox()->Post(
      [impl, release, done = std::move(done), message = std::move(message)]() mutable {
        release();
        const size_t subscribers = impl->loop.hub.Publish(std::move(message), nullptr);
        if (!done) return;
        done(subscribers > 0 ? OkStatus()
                             : NotFound("not_found", "nobody has subscribed to this topic"));
      });
  if (posted) return OkStatus();
  release();
  return Unavailable("draining", "the MQTT listener has stopped");
}

Status Listener::Subscribe(std::string filter, Sink sink) {
  if (!IsTopicFilter(filter) || SharedFilterOf(filter)) {
    return InvalidArgument("invalid_value", "no topic filter");
  }
  impl_->loop.hub.AddSink(std::move(filter), std::move(sink));
  return OkStatus();
}

}  // namespace tutti::mqtt::listener
