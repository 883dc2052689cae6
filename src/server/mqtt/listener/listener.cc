#include "server/mqtt/listener/listener.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "mqtt/message_packet.h"
#include "mqtt/topics.h"
#include "server/access/listen_rules.h"
#include "server/mqtt/listener/connection.h"
#include "server/mqtt/listener/loop.h"
#include "server/net/acceptor.h"
#include "server/net/tls.h"
#include "server/net/transport.h"

namespace tutti::mqtt::listener {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxPayloadBytes = 16 << 20;  // of one message
constexpr int kSendBufferBytes = 64 << 10;     // the default grows to MiB if a client stalls
constexpr Duration kGoodbye = std::chrono::seconds(1);

// One port: accepts its connections and passes them to the loop. Used by the io thread, except
// Listen(), which is called before the thread runs.
class Port {
 public:
  // `tls`: null for plain TCP. `websocket`: the rule for WebSocket handshakes, which outlives the
  // loop's connections; null: MQTT without WebSocket.
  Port(Loop& loop, std::shared_ptr<sockets::TlsContext> tls, const access::WebRule* websocket)
      : loop_(loop),
        tls_(std::move(tls)),
        websocket_(websocket),
        acceptor_(loop.context(),
                  {.has_room = [this] { return loop_.connections() < loop_.limits.connections; },
                   .take = [this](tcp::acceptor& from) { return Take(from); }}) {}

  // Error: io_error, naming the option `param`.
  Status Listen(const boost::asio::ip::address& address, int port, const char* param) {
    Status status = acceptor_.Listen(tcp::endpoint(address, static_cast<uint16_t>(port)),
                                     address.to_string(), param);
    return status.ok() ? status : std::move(status).WithContext("MQTT");
  }
  int number() const { return acceptor_.bound().port(); }  // after Listen()

  // For connections that are accepted from now on. Null for plain TCP.
  void UseTls(std::shared_ptr<sockets::TlsContext> tls) { tls_ = std::move(tls); }

  // Continues accepting, unless it already does or there are too many connections.
  void Accept() { acceptor_.Accept(); }
  void Close() { acceptor_.Close(); }

 private:
  error_code Take(tcp::acceptor& from) {
    tcp::socket socket(loop_.context());
    error_code ec;
    from.accept(socket, ec);
    if (!ec) Admit(std::move(socket));
    return ec;
  }

  void Admit(tcp::socket socket) {
    error_code ec;
    const auto endpoint = socket.remote_endpoint(ec);
    if (ec) return;
    const std::string address = endpoint.address().to_string();
    if (!loop_.Enter(address)) return;  // closed with the socket
    sockets::Tune(socket, loop_.limits.reader_stall, kSendBufferBytes);
    auto connection = std::make_shared<Connection>(
        loop_,
        websocket_ != nullptr ? MakeWebSocket(std::move(socket), tls_, *websocket_)
                              : sockets::MakeTransport(std::move(socket), tls_),
        address);
    loop_.Add(connection);
    connection->Start();
  }

  Loop& loop_;
  std::shared_ptr<sockets::TlsContext> tls_;
  const access::WebRule* const websocket_;
  sockets::Acceptor acceptor_;
};

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
                                       .has_key = true,  // every client must log in
                                       .tls_cert_file = options.tls_cert_file,
                                       .tls_key_file = options.tls_key_file,
                                       .tls_client_ca_file = options.tls_client_ca_file}));
    ASSIGN_OR_RETURN(const std::shared_ptr<sockets::TlsContext> tls, sockets::LoadTlsOf(options));
    if (options.port >= 0) {
      plain = std::make_unique<Port>(loop, tls, nullptr);
      RETURN_IF_ERROR(plain->Listen(address, options.port, "mqtt-port"));
    }
    if (options.websocket_port >= 0) {
      web_rule.emplace(options.cors_origins, options.allowed_hosts, address.is_loopback());
      websocket = std::make_unique<Port>(loop, tls, &*web_rule);
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
  WakeCount closed;                         // a connection is gone
  bool running = false;                     // owner
  std::optional<access::WebRule> web_rule;  // outlives the connections
  Loop loop;
  std::unique_ptr<Port> plain, websocket;  // io thread, after Start()
};

Listener::Listener(ListenerOptions options, Dependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), dependencies)) {}
Listener::~Listener() { Stop(); }

Status Listener::Start() { return impl_->Start(); }
void Listener::Stop() { impl_->Stop(); }
int Listener::port() const { return impl_->plain == nullptr ? -1 : impl_->plain->number(); }
int Listener::websocket_port() const {
  return impl_->websocket == nullptr ? -1 : impl_->websocket->number();
}
void Listener::Revoke(std::string credential) {
  Impl* const impl = impl_.get();
  impl->loop.inbox()->Post([impl, credential = std::move(credential)] {
    impl->loop.ForEach([&](Connection& connection) { connection.Revoke(credential); });
  });
}

Result<std::function<void()>> Listener::LoadTls(const ListenerOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<sockets::TlsContext> tls, sockets::LoadTlsOf(options));
  if ((tls != nullptr) != !impl_->options.tls_cert_file.empty())
    return BadValue("tls-cert", "TLS can be turned on and off by a restart only");
  return std::function<void()>([impl = impl_.get(), tls = std::move(tls)] {
    impl->loop.inbox()->Post([impl, tls] {
      if (impl->plain != nullptr) impl->plain->UseTls(tls);
      if (impl->websocket != nullptr) impl->websocket->UseTls(tls);
    });
  });
}

int Listener::connections() const { return impl_->loop.connections(); }

void Listener::ListClients(size_t max, std::function<void(ClientList)> done) {
  Impl* const impl = impl_.get();
  impl->loop.inbox()->Post([impl, max, done = std::move(done)] {
    std::vector<const Peer*> peers;
    impl->loop.ForEach([&](const Connection& connection) {
      if (connection.peer().open()) peers.push_back(&connection.peer());
    });
    const size_t listed = std::min(max, peers.size());
    std::partial_sort(peers.begin(), peers.begin() + static_cast<ptrdiff_t>(listed), peers.end(),
                      [](const Peer* a, const Peer* b) { return a->opened() > b->opened(); });
    ClientList list;
    list.left_out = peers.size() - listed;
    peers.resize(listed);
    for (const Peer* peer : peers) {
      const Session& session = *peer->session();
      list.clients.push_back({.client_id = session.client_id,
                              .user = session.principal.user,
                              .tenant = session.principal.tenant,
                              .version = peer->version(),
                              .since = peer->opened(),
                              .subscriptions = session.subscriptions.size()});
    }
    done(std::move(list));
  });
}

Status Listener::Publish(Message message, Published done) {
  if (message.payload.size() > kMaxPayloadBytes)
    return InvalidArgument("invalid_value", "the payload has more than 16 MiB");
  RETURN_IF_ERROR(CheckMessage(message, SIZE_MAX));
  const size_t bytes = message.topic.size() + message.payload.size();
  Hub& hub = impl_->loop.hub;
  return impl_->loop.inbox()->Offer(
      bytes, [&hub, done = std::move(done), message = std::move(message)]() mutable {
        const size_t subscribers = hub.Publish(std::move(message), nullptr);
        if (!done) return;
        done(subscribers > 0 ? OkStatus()
                             : NotFound("not_found", "nobody has subscribed to this topic"));
      });
}

Status Listener::Subscribe(std::string filter, Sink sink) {
  if (!IsTopicFilter(filter) || SharedFilterOf(filter)) {
    return InvalidArgument("invalid_value", "no topic filter");
  }
  impl_->loop.hub.AddSink(std::move(filter), std::move(sink));
  return OkStatus();
}

}  // namespace tutti::mqtt::listener
