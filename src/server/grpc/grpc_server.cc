// clang-format off: first
#include "server/grpc/grpc_library.h"
// clang-format on
#include <google/protobuf/stubs/logging.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <semaphore>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "server/access/client_certificate.h"
#include "server/access/listen_rules.h"
#include "server/grpc/acceptor.h"
#include "server/grpc/grpc_server.h"
#include "server/grpc/reactor.h"
#include "server/grpc/server_context.h"

namespace tutti::rpc {
namespace {

Result<std::string> ReadPem(const char* option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return BadValue(option, "--" + std::string(option) + " " + path + " cannot be read");
  }
  return std::move(text).str();
}

// What the TLS files held when they were read.
struct TlsTexts {
  std::string certificate, key, authorities;
  bool client_required = false;
  bool operator==(const TlsTexts&) const = default;
};

using Memory = std::unique_ptr<BIO, void (*)(BIO*)>;

Memory MemoryOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
}

// A key with a password is refused: nobody could type it while a server reloads.
int NoPassword(char*, int, int, void*) { return 0; }

// Puts a chain of PEM certificates, the server's own first, into the context.
bool UseChain(SSL_CTX* context, const std::string& text) {
  const Memory memory = MemoryOf(text);
  if (memory == nullptr) return false;
  for (bool first = true;; first = false) {
    const std::unique_ptr<X509, void (*)(X509*)> certificate(
        PEM_read_bio_X509_AUX(memory.get(), nullptr, &NoPassword, nullptr), X509_free);
    if (certificate == nullptr) {
      const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
      ERR_clear_error();
      return !first && at_end;
    }
    const bool used = first ? SSL_CTX_use_certificate(context, certificate.get()) == 1
                            : SSL_CTX_add1_chain_cert(context, certificate.get()) == 1;
    if (!used) return false;
  }
}

bool UseKey(SSL_CTX* context, const std::string& text) {
  const Memory memory = MemoryOf(text);
  if (memory == nullptr) return false;
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, &NoPassword, nullptr), EVP_PKEY_free);
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
         SSL_CTX_check_private_key(context) == 1;
}

// The library would detect a bad certificate only with the first connection, and would not report
// it.
Status CheckCertificate(const TlsTexts& tls, const GrpcOptions& options) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_server_method()),
                                                             SSL_CTX_free);
  if (context == nullptr) return OutOfMemory();
  if (!UseChain(context.get(), tls.certificate)) {
    return BadValue("tls-cert",
                    "--tls-cert " + options.tls_cert_file + " holds no PEM certificate");
  }
  if (!UseKey(context.get(), tls.key)) {
    return BadValue("tls-key", "--tls-key " + options.tls_key_file +
                                   " holds no PEM key of the certificate in --tls-cert");
  }
  return OkStatus();
}

// Nothing: without TLS.
Result<std::optional<TlsTexts>> ReadTls(const GrpcOptions& options) {
  if (options.tls_cert_file.empty()) return std::optional<TlsTexts>();
  TlsTexts tls;
  ASSIGN_OR_RETURN(tls.certificate, ReadPem("tls-cert", options.tls_cert_file));
  ASSIGN_OR_RETURN(tls.key, ReadPem("tls-key", options.tls_key_file));
  RETURN_IF_ERROR(CheckCertificate(tls, options));
  if (!options.tls_client_ca_file.empty()) {
    ASSIGN_OR_RETURN(tls.authorities, access::ReadClientAuthorities(options.tls_client_ca_file));
    tls.client_required = options.tls_client_required;
  }
  return std::optional<TlsTexts>(std::move(tls));
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const std::optional<TlsTexts>& tls) {
  if (!tls.has_value()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions ssl(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  if (!tls->authorities.empty()) {
    ssl.pem_root_certs = tls->authorities;
    ssl.client_certificate_request =
        tls->client_required ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  ssl.pem_key_cert_pairs.push_back({.private_key = tls->key, .cert_chain = tls->certificate});
  return grpc::SslServerCredentials(ssl);
}

int Millis(Duration duration) { return static_cast<int>(WholeMillis(duration)); }

// The libraries log malformed bytes of clients to standard error, without a rate limit.
void SilenceLibraries() {
  gpr_set_log_function([](gpr_log_func_args*) {});
  google::protobuf::SetLogHandler(nullptr);
}

// The library hangs if the system refuses it a thread. At its start it creates 6 threads and two
// groups of one per core. So this function first starts as many threads at once, and a few for this
// server, to see whether the system allows them. Each of them allocates memory, so that the
// allocator's per-thread memory is mapped when the library's threads start; otherwise it might
// leave no room for the last of their stacks.
Status CheckThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  constexpr int kOurs = 4;  // acceptor, hand-on, pump, and one starting at the same time
  const int most = 6 + 2 * std::clamp(cores, 2, 16) + kOurs;
  std::latch enough(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(most));
  Status status;
  try {
    for (int i = 0; i < most; ++i) {
      threads.emplace_back([&enough] {
        void* volatile block = std::malloc(64);
        std::free(block);
        enough.wait();
      });
    }
  } catch (const std::system_error& error) {
    status = Unavailable("io_error", "the gRPC server cannot be started: only " +
                                         std::to_string(threads.size()) + " of " +
                                         std::to_string(most) + " threads start: " + error.what());
  }
  enough.count_down();
  return status;
}

// One or two messages of the maximum size are not abuse.
AbuseLimits AbuseOf(const GrpcLimits& limits) {
  AbuseLimits abuse = limits.abuse;
  abuse.all_bytes = std::max<int64_t>(abuse.all_bytes, 2 * int64_t{limits.message_bytes});
  return abuse;
}

// Keeps the library's threads for the rest of the process: the last user would join a thread that
// may sleep for ten more seconds after a large answer.
void HoldLibrary() {
  static const bool held = (grpc_init(), true);
  (void)held;
}

void SetLimits(const GrpcLimits& limits, const grpc::ResourceQuota& quota,
               grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(limits.message_bytes);
  builder->SetMaxSendMessageSize(-1);
  const auto set = [&](const char* name, int value) { builder->AddChannelArgument(name, value); };
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams);
  set(GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes);
  // A message of 8 MiB can inflate to thousands of times its size, so this server inflates messages
  // itself (protocol/http1/compression.h).
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(limits.handshake));
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Millis(limits.idle));
  // The library processes what it has read even if the connection is shut down meanwhile.
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 32 << 10);
  // Pings detect a vanished peer.
  set(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // The account of a connection shuts it down if it pings too much (abuse_limits.h). The library
  // itself answers each excess ping with a GOAWAY of 500 bytes, held for as long as the peer does
  // not read: two MiB of pings took 63 MiB.
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder->SetResourceQuota(quota);
}

}  // namespace

Status CheckBind(const GrpcOptions& options) {
  ASSIGN_OR_RETURN(const bool loopback, IsLoopback(options.host));
  return access::CheckBind({.host = options.host,
                            .loopback = loopback,
                            .has_key = options.has_keys,
                            .tls_cert_file = options.tls_cert_file,
                            .tls_key_file = options.tls_key_file,
                            .tls_client_ca_file = options.tls_client_ca_file});
}

// One server of the library. Its credentials cannot be changed, so that other certificates need
// another one; the connections of both are accepted by the same Acceptor.
class LibraryServer {
 public:
  static Result<std::shared_ptr<LibraryServer>> Start(GrpcContext& context,
                                                      const grpc::ResourceQuota& quota,
                                                      std::optional<TlsTexts> tls) {
    auto made = std::shared_ptr<LibraryServer>(new LibraryServer(context, std::move(tls)));
    grpc::ServerBuilder builder;
    SetLimits(context.options.limits, quota, &builder);
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    made->connections_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, CredentialsOf(made->tls_));
    builder.RegisterCallbackGenericService(&made->service_);
    made->server_ = builder.BuildAndStart();
    if (made->server_ == nullptr)
      return Unavailable("io_error", "the gRPC server could not be started");
    return made;
  }

  ~LibraryServer() {
    if (server_ != nullptr) End();
  }

  const std::optional<TlsTexts>& tls() const { return tls_; }

  void Take(int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    connections_->HandleNewConnection(&connection);
  }

  // Notifies clients (GOAWAY), waits for their calls, and cancels those that remain at the end.
  // One thread calls this, once.
  void Shutdown(Duration limit) {
    stopped_ = true;
    server_->Shutdown(std::chrono::system_clock::now() + limit);
  }

  // Ends the calls that a Shutdown() of another thread waits for.
  void CancelCalls() { grpc_server_cancel_all_calls(server_->c_server()); }

  // Cancels what a Shutdown() did not, and waits until nothing runs.
  void End() {
    if (!stopped_) Shutdown(Duration::zero());
    server_->Wait();
  }

 private:
  LibraryServer(GrpcContext& context, std::optional<TlsTexts> tls)
      : tls_(std::move(tls)), service_(context) {}

  const std::optional<TlsTexts> tls_;
  CallService service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  bool stopped_ = false;
};

// Servers with earlier certificates, until their last call has ended. Used under a mutex.
class RetiredServers {
 public:
  RetiredServers() { servers_.reserve(kMost); }
  ~RetiredServers() { End(); }

  // Clients are told to connect again once new connections have ended their handshakes, which a
  // shutdown would cut. Their calls end as they began, within `limit`. Without a thread for it,
  // they stay connected.
  void Add(std::shared_ptr<LibraryServer> server, Duration limit) {
    std::erase_if(servers_, [](Retired& one) {
      const bool ended = one.wait->ended.load();
      if (ended) one.thread.join();
      return ended;
    });
    // Certificates may be replaced each minute, and calls may last for a day.
    if (servers_.size() >= kMost) {
      servers_.front().End();
      servers_.erase(servers_.begin());
    }
    Retired one{.server = std::move(server), .wait = std::make_shared<Wait>()};
    try {
      one.thread = std::thread([server = one.server, wait = one.wait, limit] {
        NameThread("tutti-grpc-old");
        (void)wait->hurry.try_acquire_for(std::min<Duration>(kHandshakes, limit));
        server->Shutdown(limit);
        wait->ended.store(true);
      });
    } catch (const std::system_error&) {
    }
    servers_.push_back(std::move(one));
  }

  // Handshakes are waited for no longer.
  void Hurry() {
    for (const Retired& one : servers_) one.wait->hurry.release();
  }

  // Whether all calls have ended, of those that are waited for.
  bool AllEnded() const {
    return std::all_of(servers_.begin(), servers_.end(), [](const Retired& one) {
      return one.wait->ended.load() || !one.thread.joinable();
    });
  }

  // Ends all calls that are left.
  void End() {
    for (Retired& one : servers_) one.End();
    servers_.clear();
  }

 private:
  static constexpr size_t kMost = 8;
  static constexpr Duration kHandshakes = std::chrono::seconds(1);
  struct Wait {
    std::counting_semaphore<> hurry{0};
    std::atomic<bool> ended{false};
  };
  struct Retired {
    std::shared_ptr<LibraryServer> server;
    std::shared_ptr<Wait> wait;
    std::thread thread = {};

    void End() {
      if (!thread.joinable()) return server->End();
      wait->hurry.release();
      while (!wait->ended.load()) {  // the thread may not have begun
        server->CancelCalls();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      thread.join();
    }
  };
  std::vector<Retired> servers_;
};

struct GrpcServer::Impl {
  Impl(GrpcOptions options, const Dependencies& deps)
      : context(std::move(options), deps),
        acceptor({.most = context.options.limits.connections,
                  .message_bytes = context.options.limits.message_bytes,
                  .abuse = AbuseOf(context.options.limits),
                  .penalties = context.options.limits.penalties,
                  .on_abuse = [this](std::string_view peer,
                                     std::string_view why) { NoteAbuse(peer, why); }},
                 context.accounts, *deps.clock, [this](int fd) { Take(fd); }) {}

  // Called on the thread that passes connections to the library (acceptor.h), which may use the
  // thread to read from them. The library closes connections that it cannot serve.
  void Take(int fd) { Current()->Take(fd); }

  std::shared_ptr<LibraryServer> Current() const {
    const MutexLock lock(mutex);
    return server;
  }

  // Called on the acceptor's thread. Without memory for a log line, the line is dropped.
  void NoteAbuse(std::string_view peer, std::string_view why) {
    try {
      if (telemetry::ServerMetrics* const metrics = context.deps.metrics)
        metrics->ConnectionReset(telemetry::ServerKind::kGrpc);
      if (context.deps.log == nullptr) return;
      const std::optional<int64_t> untold = abuse_lines.Next(context.deps.clock->Now());
      if (!untold.has_value()) return;
      context.deps.log->Warn("grpc.connection_reset",
                             {{"peer", peer}, {"why", why}, {"suppressed", *untold}});
    } catch (const std::bad_alloc&) {
    }
  }

  Status Start() {
    RETURN_IF_ERROR(CheckBind(context.options));
    RETURN_IF_ERROR(CheckThreads());
    SilenceLibraries();
    HoldLibrary();
    quota.emplace("tutti").Resize(static_cast<size_t>(context.options.limits.library_bytes));
    ASSIGN_OR_RETURN(std::optional<TlsTexts> tls, ReadTls(context.options));
    RETURN_IF_ERROR(acceptor.Listen(context.options.host, context.options.port));
    ASSIGN_OR_RETURN(std::shared_ptr<LibraryServer> started,
                     LibraryServer::Start(context, *quota, std::move(tls)));
    {
      const MutexLock lock(mutex);
      server = std::move(started);
    }
    context.pump.Start();
    acceptor.Start();
    return OkStatus();
  }

  Result<std::function<void()>> PrepareReload(const GrpcOptions& options) {
    ASSIGN_OR_RETURN(std::optional<TlsTexts> tls, ReadTls(options));
    const std::shared_ptr<LibraryServer> now = Current();
    if (now == nullptr || now->tls() == tls) return std::function<void()>([] {});
    if (!now->tls().has_value() || !tls.has_value() ||
        now->tls()->authorities.empty() != tls->authorities.empty()) {
      return BadValue("tls-cert",
                      "TLS and client certificates can be turned on and off by a restart only");
    }
    ASSIGN_OR_RETURN(std::shared_ptr<LibraryServer> next,
                     LibraryServer::Start(context, *quota, std::move(tls)));
    return std::function<void()>([this, next] {
      const MutexLock lock(mutex);
      if (server == nullptr || context.draining.load()) return;
      retired.Add(server, context.options.limits.deadline_cap);
      server = next;
    });
  }

  bool Drain(Duration limit) {
    std::shared_ptr<LibraryServer> current;
    {
      const MutexLock lock(mutex);
      if (server == nullptr) return true;
      context.draining.store(true);  // a reload replaces no certificate any more
      current = server;
    }
    acceptor.StopListening();
    context.pump.SweepSoon();  // streams without a request end, and watches of health
    const TimePoint end = context.deps.clock->Now() + limit;
    const bool idle = context.active.load() == 0;
    current->Shutdown(limit);
    const MutexLock lock(mutex);
    retired.Hurry();
    while (!retired.AllEnded() && context.deps.clock->Now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    retired.End();
    return idle || context.deps.clock->Now() < end;
  }

  void Stop() {
    const std::shared_ptr<LibraryServer> current = Current();
    if (current == nullptr) return;
    acceptor.Stop();
    current->End();
    const MutexLock lock(mutex);
    retired.End();
    context.pump.Stop();
    server.reset();
  }

  GrpcContext context;
  // All servers of the library share it. Made by Start(), because it starts the library.
  std::optional<grpc::ResourceQuota> quota;
  mutable Mutex mutex;
  std::shared_ptr<LibraryServer> server GUARDED_BY(mutex);  // that gets new connections
  RetiredServers retired GUARDED_BY(mutex);
  LogPace abuse_lines;
  Acceptor acceptor;
};

GrpcServer::GrpcServer(GrpcOptions options, Dependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), dependencies)) {}

GrpcServer::~GrpcServer() { Stop(); }

Status GrpcServer::Start() { return impl_->Start(); }
int GrpcServer::port() const { return impl_->acceptor.port(); }

std::string GrpcServer::address() const {
  return access::AddressUrl(impl_->context.options.tls_cert_file.empty() ? "grpc" : "grpcs",
                            impl_->acceptor.address(), port());
}

Result<std::function<void()>> GrpcServer::PrepareReload(const GrpcOptions& options) {
  return impl_->PrepareReload(options);
}

bool GrpcServer::Drain(Duration limit) { return impl_->Drain(limit); }
void GrpcServer::Stop() { impl_->Stop(); }
int GrpcServer::open_connections() const { return impl_->acceptor.connections(); }
int GrpcServer::active_requests() const { return impl_->context.active.load(); }

}  // namespace tutti::rpc
