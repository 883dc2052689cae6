#include "app/servers.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "app/version.h"

namespace tutti::app {
namespace {

constexpr size_t kFormBytes = 64 << 10;  // of a form, around its file

Result<http::HttpOptions> HttpOptionsFrom(const Settings& settings, const std::string& api_key,
                                          bool has_keys) {
  http::HttpOptions options;
  options.host = settings.Text("host");
  options.port = static_cast<int>(settings.Int("port"));
  options.io_threads = static_cast<int>(settings.Int("http.io_threads"));
  options.max_connections = static_cast<int>(settings.Int("http.max_connections"));
  options.prep_threads = static_cast<int>(settings.Int("prep-threads"));
  options.api_key = api_key;
  options.has_keys = has_keys;
  options.tls_cert_file = settings.Text("tls-cert");
  options.tls_key_file = settings.Text("tls-key");
  options.tls_client_ca_file = settings.Text("tls-client-ca");
  options.tls_client_required = settings.Text("tls-client-auth") == "required";
  options.cors_origins = SplitList(settings.Text("cors-origin"));
  options.allowed_hosts = SplitList(settings.Text("allowed-hosts"));
  options.strict = settings.On("strict");
  if (const auto keepalive = settings.OptionalNumber("http.keepalive_s")) {
    options.keepalive = FromSeconds(*keepalive);
  }
  options.queue_full_status =
      static_cast<int>(std::strtol(settings.Text("http.queue_full_status").c_str(), nullptr, 10));
  options.access_log = settings.On("http.access_log");
  options.version = kVersion;
  options.limits.upload_bytes = static_cast<size_t>(settings.Int("files.file_bytes")) + kFormBytes;
  RETURN_IF_ERROR(http::CheckBind(options));
  return options;
}

Result<rpc::GrpcOptions> GrpcOptionsFrom(const Settings& settings, bool has_keys) {
  rpc::GrpcOptions options;
  options.host = settings.Text("host");
  options.port = static_cast<int>(settings.Int("grpc-port"));
  options.handlers = static_cast<int>(settings.Int("grpc.handlers"));
  options.has_keys = has_keys;
  options.tls_cert_file = settings.Text("tls-cert");
  options.tls_key_file = settings.Text("tls-key");
  options.tls_client_ca_file = settings.Text("tls-client-ca");
  options.tls_client_required = settings.Text("tls-client-auth") == "required";
  options.access_log = settings.On("http.access_log");
  options.limits.message_bytes = static_cast<int>(settings.Int("grpc.message_bytes"));
  if (options.port != 0) RETURN_IF_ERROR(rpc::CheckBind(options));
  return options;
}

}  // namespace

Servers::Servers(const http::HttpOptions& http, const rpc::GrpcOptions& grpc, bool with_grpc,
                 const kserve::RepositoryOptions& repository, const Dependencies& dependencies)
    : deps_(dependencies),
      chat_(deps_.chat, deps_.state->sessions()),
      repository_(
          repository,
          {.inference = &deps_.state->inference(), .health = deps_.health, .clock = deps_.clock}),
      http_(http, {.inference = &deps_.state->inference(),
                   .authority = &deps_.state->authority(),
                   .health = deps_.health,
                   .metrics = deps_.metrics,
                   .serving = deps_.server_metrics,
                   .log = deps_.log,
                   .clock = deps_.clock,
                   .repository = &repository_,
                   .responses = &deps_.state->responses(),
                   .sessions = &deps_.state->sessions(),
                   .chat = &chat_,
                   .jobs = &deps_.state->jobs(),
                   .files = &deps_.state->files(),
                   .batches = &deps_.state->batches(),
                   .idempotency_keys = &deps_.state->idempotency_keys()}) {
  if (!with_grpc) return;
  grpc_ = std::make_unique<rpc::GrpcServer>(
      grpc, rpc::GrpcServer::Dependencies{.inference = &deps_.state->inference(),
                                          .authority = &deps_.state->authority(),
                                          .health = deps_.health,
                                          .repository = &repository_,
                                          .metrics = deps_.server_metrics,
                                          .log = deps_.log,
                                          .clock = deps_.clock});
}

Result<std::unique_ptr<Servers>> Servers::Create(const Settings& settings,
                                                 const Dependencies& dependencies) {
  // A server that refuses anonymous local callers has keys or users.
  const bool has_keys = !dependencies.state->authority().IsOpen(/*loopback=*/true);
  ASSIGN_OR_RETURN(http::HttpOptions http,
                   HttpOptionsFrom(settings, dependencies.configured_key, has_keys));
  http.tells_cache = dependencies.tells_cache;
  ASSIGN_OR_RETURN(const rpc::GrpcOptions grpc, GrpcOptionsFrom(settings, has_keys));
  if (grpc.port != 0 && grpc.port == http.port) {
    return InvalidArgument("invalid_value",
                           "--grpc-port and --port are both " + std::to_string(http.port) +
                               "; give one of them another, or --grpc-port 0 for no gRPC")
        .WithParam("grpc-port");
  }
  const kserve::RepositoryOptions repository{.server_version = kVersion,
                                             .test_models = settings.On("kserve.test_models")};
  return std::unique_ptr<Servers>(
      new Servers(http, grpc, grpc.port != 0, repository, dependencies));
}

Status Servers::Start() {
  RETURN_IF_ERROR(http_.Start());
  deps_.log->Info("http.listening", {{"address", http_.address()}});
  if (deps_.state->authority().IsOpen(/*loopback=*/true)) {
    deps_.log->Info("auth.open",
                    {{"why", "no keys exist; every client on this machine is served"}});
  }
  if (grpc_ == nullptr) return OkStatus();
  RETURN_IF_ERROR(grpc_->Start());
  deps_.log->Info("grpc.listening", {{"address", grpc_->address()}});
  return OkStatus();
}

std::string Servers::further_addresses() const {
  return grpc_ == nullptr ? std::string() : " and " + grpc_->address();
}

int Servers::active_requests() const {
  return http_.active_requests() + (grpc_ == nullptr ? 0 : grpc_->active_requests());
}

void Servers::Drain(Duration limit) {
  if (grpc_ == nullptr) {
    http_.Drain(limit);
    return;
  }
  const Clock& clock = *deps_.clock;
  const TimePoint end = clock.Now() + limit;
  std::jthread grpc;
  try {
    grpc = std::jthread([&] { grpc_->Drain(limit); });
  } catch (const std::system_error&) {  // the system refused a thread: one after the other
  }
  http_.Drain(limit);
  if (!grpc.joinable()) grpc_->Drain(std::max(end - clock.Now(), Duration::zero()));
}

void Servers::Stop() {
  if (grpc_ != nullptr) grpc_->Stop();
  http_.Stop();
}

}  // namespace tutti::app
