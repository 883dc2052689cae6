#include "server/http/connection/http_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <new>

#include "base/memory_reserve.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "server/access/listen_rules.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/io_loop.h"
#include "server/http/server_context.h"
#include "server/net/acceptor.h"
#include "server/net/tls.h"
#include "server/net/transport.h"

namespace tutti::http {

using boost::asio::ip::tcp;
using boost::system::error_code;

Status CheckBind(const HttpOptions& options) {
  ASSIGN_OR_RETURN(const auto address, sockets::ParseAddress(options.host));
  return access::CheckBind({.host = options.host,
                            .loopback = address.is_loopback(),
                            .has_key = options.has_keys,
                            .tls_cert_file = options.tls_cert_file,
                            .tls_key_file = options.tls_key_file,
                            .tls_client_ca_file = options.tls_client_ca_file});
}

struct HttpServer::Impl {
  Impl(HttpOptions o, Dependencies d) : options(std::move(o)), deps(d) {}

  Status Start() {
    RETURN_IF_ERROR(CheckBind(options));
    ASSIGN_OR_RETURN(const auto address, sockets::ParseAddress(options.host));
    ASSIGN_OR_RETURN(tls, sockets::LoadTlsOf(options));
    secure = tls != nullptr;
    context = std::make_unique<ServerContext>(options, deps, address.is_loopback());
    const int threads = std::clamp(options.io_threads, 1, 4);
    for (int i = 0; i < threads; ++i)
      loops.push_back(std::make_shared<IoLoop>(*deps.clock, deps.log));
    accept_loop = loops.front();
    ASSIGN_OR_RETURN(bound, Listen(address, options.port, "port"));
    if (options.ollama_port != 0) {
      ASSIGN_OR_RETURN(ollama_bound, Listen(address, options.ollama_port, "ollama-port"));
    }
    context->on_closed = [this] {
      {
        const MutexLock lock(mutex);
        closed.NotifyAll();
      }
      // Without the retry, no connection might ever be accepted again. The post needs a hundred
      // bytes, so the io thread may wait for them.
      UntilMemory([this] { Accept(); });
    };
    running = true;  // from the first thread on: Stop() ends those there are, should one be refused
    for (boost::asio::thread_pool* helper : helpers())
      boost::asio::post(*helper, [] { NameThread("tutti-helper"); });
    for (const auto& loop : loops) loop->Start();
    Accept();
    return OkStatus();
  }

  Result<tcp::endpoint> Listen(const boost::asio::ip::address& address, int port,
                               const char* param) {
    auto acceptor = std::make_unique<sockets::Acceptor>(
        accept_loop->context(),
        sockets::Acceptor::Owner{
            .has_room = [this] { return context->connections.load() < options.max_connections; },
            .take = [this](tcp::acceptor& from) { return Take(from); }});
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
    RETURN_IF_ERROR(acceptor->Listen(endpoint, options.host, param));
    acceptors.push_back(std::move(acceptor));
    return acceptors.back()->bound();
  }

  std::array<boost::asio::thread_pool*, 3> helpers() const {
    return {&context->json_helper, &context->tokenizer_helper, &context->answer_helper};
  }

  void Accept() {
    boost::asio::post(accept_loop->context(), [this] {
      for (const auto& acceptor : acceptors) acceptor->Accept();
    });
  }

  // On the accept loop.
  error_code Take(tcp::acceptor& from) {
    const std::shared_ptr<IoLoop> loop = loops[next_loop++ % loops.size()];
    tcp::socket socket(loop->context());
    error_code ec;
    from.accept(socket, ec);
    if (!ec) Hand(loop, std::move(socket));
    return ec;
  }

  void Hand(const std::shared_ptr<IoLoop>& loop, tcp::socket socket) {
    error_code ignored;
    sockets::Tune(socket, options.limits.reader_stall, options.send_buffer_bytes);
    const std::string peer = socket.remote_endpoint(ignored).address().to_string(ignored);
    auto connection = std::make_shared<Connection>(
        loop, *context, sockets::MakeTransport(std::move(socket), tls), peer);
    context->connections.fetch_add(1);  // here, so that the next accept already sees it
    try {
      boost::asio::post(loop->context(), [this, loop, connection] { Start(*loop, connection); });
    } catch (const std::bad_alloc&) {
      context->connections.fetch_sub(1);
      throw;
    }
  }

  // On the connection's loop.
  void Start(IoLoop& loop, const std::shared_ptr<Connection>& connection) {
    bool added = false;
    try {
      added = loop.Add(connection);
      if (added) return connection->Start();
    } catch (const std::bad_alloc&) {
      if (added) return connection->Abort();
    }
    context->connections.fetch_sub(1);
  }

  std::string AddressOf(const tcp::endpoint& endpoint) const {
    return access::AddressUrl(secure ? "https" : "http", endpoint.address().to_string(),
                              endpoint.port());
  }

  void StopAccepting() {
    if (!running) return;
    boost::asio::post(accept_loop->context(), [this] {
      for (const auto& acceptor : acceptors) acceptor->Close();
    });
  }

  bool Drain(Duration limit) {
    if (!running) return true;
    context->draining.store(true);
    StopAccepting();
    for (const auto& loop : loops) {
      boost::asio::post(loop->context(), [raw = loop.get()] {
        raw->ForEach([](Connection& connection) { connection.Drain(); });
      });
    }
    const TimePoint end = deps.clock->Now() + limit;
    const MutexLock lock(mutex);
    while (context->connections.load() > 0) {
      const Duration left = end - deps.clock->Now();
      if (left <= Duration::zero()) return context->active.load() == 0;
      closed.WaitFor(mutex, left);
    }
    return true;
  }

  void Stop() {
    if (!running) return;
    StopAccepting();
    running = false;
    for (const auto& loop : loops) {
      loop->Stop();
    }
    for (boost::asio::thread_pool* helper : helpers()) helper->stop();
    for (boost::asio::thread_pool* helper : helpers()) helper->join();
    for (const auto& loop : loops)
      loop->Sweep();  // continuations of work that outlived its connection
    acceptors.clear();
  }

  const HttpOptions options;
  const Dependencies deps;
  std::shared_ptr<sockets::TlsContext> tls;  // accept loop, after Start()
  bool secure = false;                       // constant after Start()
  std::unique_ptr<ServerContext> context;    // outlives the connections
  std::vector<std::shared_ptr<IoLoop>> loops;
  std::shared_ptr<IoLoop> accept_loop;
  std::vector<std::unique_ptr<sockets::Acceptor>> acceptors;  // accept loop, after Start()
  size_t next_loop = 0;                                       // accept loop
  tcp::endpoint bound, ollama_bound;
  bool running = false;  // owner
  Mutex mutex;
  CondVar closed;  // with mutex: context->connections went down
};

HttpServer::HttpServer(HttpOptions options, Dependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), dependencies)) {}

HttpServer::~HttpServer() { Stop(); }

Status HttpServer::Start() { return impl_->Start(); }
int HttpServer::port() const { return impl_->bound.port(); }

std::string HttpServer::address() const { return impl_->AddressOf(impl_->bound); }

std::string HttpServer::ollama_address() const {
  return impl_->options.ollama_port == 0 ? std::string() : impl_->AddressOf(impl_->ollama_bound);
}

bool HttpServer::Drain(Duration limit) { return impl_->Drain(limit); }
void HttpServer::Stop() { impl_->Stop(); }
Result<std::function<void()>> HttpServer::PrepareReload(const HttpOptions& options) {
  RETURN_IF_ERROR(CheckBind(options));
  ASSIGN_OR_RETURN(const std::shared_ptr<sockets::TlsContext> tls, sockets::LoadTlsOf(options));
  if ((tls != nullptr) != impl_->secure)
    return BadValue("tls-cert", "TLS can be turned on and off by a restart only");
  return std::function<void()>([impl = impl_.get(), tls, key = options.api_key] {
    impl->context->HideKey(key);
    boost::asio::post(impl->accept_loop->context(), [impl, tls] { impl->tls = tls; });
  });
}

int HttpServer::open_connections() const {
  return impl_->context == nullptr ? 0 : impl_->context->connections.load();
}
int HttpServer::active_requests() const {
  if (impl_->context == nullptr) return 0;
  // A watcher that leaves is counted down in two steps.
  return std::max(impl_->context->active.load() - impl_->context->watchers.load(), 0);
}

}  // namespace tutti::http
