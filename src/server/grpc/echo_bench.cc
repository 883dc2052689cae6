// Overhead of the gRPC server over the gRPC library: the identity model compared with a bare echo
// on the library's callback API, on the same machine, one call at a time. The bench checks answers
// first.
//
// The gate (row N30) is the difference of the medians of 64 bytes (`p50_us`): at most 50 us.
// clang-format off: first
#include "server/grpc/grpc_library.h"
// clang-format on
#include <benchmark/benchmark.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <inference/grpc_service.pb.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "protocol/kserve/testing/fake_models.h"
#include "server/grpc/grpc_server.h"
#include "services/auth/testing/one_key.h"

namespace tutti::rpc {
namespace {

class EchoService final : public grpc::Service {
 public:
  EchoService() {
    AddMethod(new grpc::internal::RpcServiceMethod("/bench.Echo/Echo",
                                                   grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(
        0, new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
               [](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                  grpc::ByteBuffer* response) {
                 *response = *request;
                 auto* reactor = context->DefaultReactor();
                 reactor->Finish(grpc::Status::OK);
                 return reactor;
               }));
  }
};

struct Echo {
  Echo() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
  }
  EchoService service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

struct Server {
  Server()
      : repository({.test_models = true}, {&inference, &inference, &clock}),
        server(FreePort(), {&inference, &known.authority(), &inference, &repository, nullptr,
                            nullptr, &clock}) {
    CHECK(server.Start().ok());
  }
  static GrpcOptions FreePort() {
    GrpcOptions options;
    options.port = 0;
    return options;
  }
  SteadyClock clock;
  kserve::testing::FakeInference inference{kserve::testing::FakeModels()};
  auth::testing::OneKey known;
  kserve::Repository repository;
  GrpcServer server;
};

// A unary call over a channel of its own, without what TestClient does for tests.
class Caller {
 public:
  Caller(int port, std::string method)
      : stub_(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                  grpc::InsecureChannelCredentials())),
        method_(std::move(method)) {}

  grpc::ByteBuffer Ask(const grpc::ByteBuffer& request) {
    grpc::ClientContext context;
    auto call = stub_.PrepareUnaryCall(&context, method_, request, &queue_);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, &queue_);
    void* tag = nullptr;
    bool ok = false;
    CHECK(queue_.Next(&tag, &ok) && ok && status.ok()) << status.error_message();
    return response;
  }

 private:
  grpc::GenericStub stub_;
  const std::string method_;
  grpc::CompletionQueue queue_;
};

std::string IdentityRequest(size_t bytes) {
  inference::ModelInferRequest request;
  request.set_model_name("simple_identity");
  auto& input = *request.add_inputs();
  input.set_name("INPUT0");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.add_shape(1);
  std::string raw;
  kserve::AppendBytesElement(std::string(bytes, 'x'), &raw);
  request.add_raw_input_contents(raw);
  return request.SerializeAsString();
}

void Measure(benchmark::State& state, Caller& caller, const std::string& message) {
  const grpc::Slice slice(message);
  const grpc::ByteBuffer request(&slice, 1);
  CHECK_GE(caller.Ask(request).Length() + 200, message.size());
  std::vector<double> took;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(caller.Ask(request));
    took.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::sort(took.begin(), took.end());
  state.counters["p50_us"] = took[took.size() / 2];
  state.counters["p99_us"] = took[took.size() * 99 / 100];
}

void BM_BareEcho(benchmark::State& state) {
  static Echo echo;
  Caller caller(echo.port, "/bench.Echo/Echo");
  Measure(state, caller, IdentityRequest(static_cast<size_t>(state.range(0))));
}
void BM_Identity(benchmark::State& state) {
  static Server server;
  Caller caller(server.server.port(), "/inference.GRPCInferenceService/ModelInfer");
  Measure(state, caller, IdentityRequest(static_cast<size_t>(state.range(0))));
}

// Alternating, so that a machine that changes its pace changes it for both.
BENCHMARK(BM_BareEcho)->Arg(64)->Iterations(4000)->Repetitions(1);
BENCHMARK(BM_Identity)->Arg(64)->Iterations(4000)->Repetitions(1);
BENCHMARK(BM_BareEcho)->Arg(64)->Iterations(4001);
BENCHMARK(BM_Identity)->Arg(64)->Iterations(4001);
BENCHMARK(BM_BareEcho)->Arg(1 << 20)->Iterations(200);
BENCHMARK(BM_Identity)->Arg(1 << 20)->Iterations(200);

}  // namespace
}  // namespace tutti::rpc
