#include "doors/http/http_door.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <new>

#include "base/memory_reserve.h"
#include "base/mutex.h"
#include "doors/access/bind_rule.h"
#include "doors/http/connection.h"
#include "doors/http/door_context.h"
#include "doors/http/io_loop.h"
#include "doors/http/transport.h"

namespace tutti::http {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr Duration kAcceptPause =
    std::chrono::milliseconds(50);  // after a failure such as no descriptors

Result<boost::asio::ip::address> ParseAddress(const std::string& host) {
  error_code ec;
  const auto address = boost::asio::ip::make_address(access::AddressOf(host), ec);
  if (ec) return access::BadHost();
  return address;
}

void Tune(tcp::socket& socket, const HttpOptions& options) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  if (options.send_buffer_bytes > 0) {
    socket.set_option(boost::asio::socket_base::send_buffer_size(options.send_buffer_bytes),
                      ignored);
  }
  // A peer that vanished; a little later than our own rule for readers, which knows why and counts
  // it.
  const Duration patience = options.limits.reader_stall + std::chrono::seconds(5);
  const auto ms = static_cast<unsigned>(
      std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

}  // namespace

Status CheckBind(const HttpOptions& options) {
  ASSIGN_OR_RETURN(const auto address, ParseAddress(options.host));
  return access::CheckBind({.host = options.host,
                            .loopback = address.is_loopback(),
                            .has_key = options.has_keys,
                            .tls_cert_file = options.tls_cert_file,
                            .tls_key_file = options.tls_key_file});
}

struct HttpDoor::Impl {
  Impl(HttpOptions o, Dependencies d) : options(std::move(o)), deps(d) {}

  Status Start() {
    RETURN_IF_ERROR(CheckBind(options));
    ASSIGN_OR_RETURN(const auto address, ParseAddress(options.host));
    if (!options.tls_cert_file.empty()) {
      ASSIGN_OR_RETURN(tls, TlsContext::Load(options.tls_cert_file, options.tls_key_file));
    }
    context = std::make_unique<DoorContext>(options, deps, address.is_loopback());
    const int threads = std::clamp(options.io_threads, 1, 4);
    for (int i = 0; i < threads; ++i)
      loops.push_back(std::make_shared<IoLoop>(*deps.clock, deps.log));
    accept_loop = loops.front();
    acceptor = std::make_unique<tcp::acceptor>(accept_loop->context());
    retry = std::make_unique<boost::asio::steady_timer>(accept_loop->context());
    RETURN_IF_ERROR(Listen(tcp::endpoint(address, static_cast<uint16_t>(options.port))));
    context->on_closed = [this] {
      {
        const MutexLock lock(mutex);
        closed.NotifyAll();
      }
      // Without this nobody might be accepted again: a hundred bytes, worth an io thread's waiting.
      UntilMemory([this] { boost::asio::post(accept_loop->context(), [this] { Accept(); }); });
    };
    running = true;  // from the first thread on: Stop() ends those there are, should one be refused
    for (const auto& loop : loops) loop->Start();
    boost::asio::post(accept_loop->context(), [this] { Accept(); });
    return OkStatus();
  }

  Status Listen(const tcp::endpoint& endpoint) {
    error_code ec;
    acceptor->open(endpoint.protocol(), ec);
    if (!ec) acceptor->set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) acceptor->bind(endpoint, ec);
    if (!ec) acceptor->listen(kBacklog, ec);
    if (!ec) acceptor->non_blocking(true, ec);
    if (!ec) bound = acceptor->local_endpoint(ec);
    if (!ec) return OkStatus();
    // Not a bad value: it depends on what else runs here, and on who asks.
    return Unavailable("io_error", "cannot listen on " + options.host + " port " +
                                       std::to_string(options.port) + ": " + ec.message())
        .WithParam("port");
  }

  // On the accept loop. At most one accept waits, and none while the connections are at their
  // limit.
  void Accept() {
    if (accepting || !acceptor->is_open()) return;
    if (context->connections.load() >= options.max_connections) return;
    // Waited for apart from accepting: what asio allocates for an accepted socket it allocates
    // where nobody could catch that there is no memory.
    try {
      acceptor->async_wait(tcp::acceptor::wait_read, [this](error_code ec) {
        accepting = false;
        if (!acceptor->is_open()) return;
        if (ec || !TryTake()) return AcceptLater();
        Accept();
      });
      accepting = true;
    } catch (const std::bad_alloc&) {
      AcceptLater();
    }
  }

  void AcceptLater() {
    UntilMemory([this] {  // as on_closed
      retry->expires_after(kAcceptPause);
      retry->async_wait([this](error_code cancelled) {
        if (!cancelled) Accept();
      });
    });
  }

  // False when there is no memory, or no descriptor, for a connection; without memory the client
  // sees it closed.
  bool TryTake() {
    const std::shared_ptr<IoLoop> loop = loops[next_loop++ % loops.size()];
    try {
      tcp::socket socket(loop->context());
      error_code ec;
      acceptor->accept(socket, ec);
      if (!ec) Hand(loop, std::move(socket));
      return !ec || ec == boost::asio::error::would_block;  // a client that left meanwhile
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void Hand(const std::shared_ptr<IoLoop>& loop, tcp::socket socket) {
    error_code ignored;
    Tune(socket, options);
    const std::string peer = socket.remote_endpoint(ignored).address().to_string(ignored);
    std::shared_ptr<Transport> transport =
        tls != nullptr ? tls->Wrap(std::move(socket)) : MakePlainTransport(std::move(socket));
    auto connection = std::make_shared<Connection>(loop, *context, std::move(transport), peer);
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

  void StopAccepting() {
    if (!running) return;
    boost::asio::post(accept_loop->context(), [this] {
      error_code ignored;
      acceptor->close(ignored);
      retry->cancel();
    });
  }

  bool Drain(Duration limit) {
    if (!running) return true;
    context->draining.store(true);
    StopAccepting();
    for (const auto& loop : loops) {
      boost::asio::post(loop->context(), [raw = loop.get()] {
        raw->ForEach([](Connection& connection) { connection.CloseIfIdle(); });
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
    boost::asio::thread_pool* const helpers[] = {&context->json_helper, &context->tokenizer_helper,
                                                 &context->answer_helper};
    for (boost::asio::thread_pool* helper : helpers) helper->stop();
    for (boost::asio::thread_pool* helper : helpers) helper->join();
    for (const auto& loop : loops)
      loop->Sweep();  // continuations of work that outlived its connection
    acceptor.reset();
    retry.reset();
  }

  const HttpOptions options;
  const Dependencies deps;
  std::shared_ptr<TlsContext> tls;
  std::unique_ptr<DoorContext> context;  // outlives the connections
  std::vector<std::shared_ptr<IoLoop>> loops;
  std::shared_ptr<IoLoop> accept_loop;
  std::unique_ptr<tcp::acceptor> acceptor;           // accept loop, after Start()
  std::unique_ptr<boost::asio::steady_timer> retry;  // accept loop
  bool accepting = false;                            // accept loop
  size_t next_loop = 0;                              // accept loop
  tcp::endpoint bound;
  bool running = false;  // owner
  Mutex mutex;
  CondVar closed;  // with mutex: context->connections went down
};

HttpDoor::HttpDoor(HttpOptions options, Dependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), dependencies)) {}

HttpDoor::~HttpDoor() { Stop(); }

Status HttpDoor::Start() { return impl_->Start(); }
int HttpDoor::port() const { return impl_->bound.port(); }

std::string HttpDoor::address() const {
  return access::AddressUrl(impl_->tls != nullptr ? "https" : "http",
                            impl_->bound.address().to_string(), port());
}

bool HttpDoor::Drain(Duration limit) { return impl_->Drain(limit); }
void HttpDoor::Stop() { impl_->Stop(); }
int HttpDoor::open_connections() const {
  return impl_->context == nullptr ? 0 : impl_->context->connections.load();
}
int HttpDoor::active_requests() const {
  return impl_->context == nullptr ? 0 : impl_->context->active.load();
}

}  // namespace tutti::http
