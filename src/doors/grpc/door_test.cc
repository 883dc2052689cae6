// The door itself: keys, health, reflection, deadlines, handlers, limits, TLS, drain.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tutti/v1/tutti.pb.h>

#include <fstream>
#include <thread>

#include "doors/grpc/router.h"
#include "doors/grpc/testing/door_fixture.h"
#include "temp_folder.h"

namespace tutti::rpc {
namespace {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;
using kserve::testing::FakeEncoding;
using testing::CallOptions;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kInference;
using testing::kTutti;
using ::testing::Not;
using testing::Outcome;
using testing::TestClient;

constexpr int kCancelled = 1, kInvalid = 3, kLate = 4, kNotFound = 5, kUnavailable = 14,
              kUnauthenticated = 16;
const std::string kHealth = "/grpc.health.v1.Health/";

HealthCheckRequest About(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

v1::EmbedRequest OneText(const std::string& text = "a") {
  v1::EmbedRequest request;
  request.add_texts(text);
  return request;
}

// A blocking TCP connection that speaks no HTTP/2.
class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { close(fd_); }
  bool connected() const { return connected_; }
  void Send(const std::string& bytes) {
    (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Whether the other side closes within the time.
  bool Closed(int timeout_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                            end - std::chrono::steady_clock::now())
                            .count();
      pollfd p{fd_, POLLIN, 0};
      if (left <= 0 || poll(&p, 1, static_cast<int>(left)) <= 0) return false;
      char bytes[4096];
      if (recv(fd_, bytes, sizeof bytes, 0) <= 0) return true;
    }
  }

 private:
  const int fd_;
  bool connected_ = false;
};

class GrpcDoorTest : public testing::DoorTest {
 protected:
  Outcome Embed(const CallOptions& options = {}) {
    v1::EmbedResponse response;
    return client_->Unary(kTutti + "Embed", OneText(), &response, options);
  }
  // SERVING 1, NOT_SERVING 2; minus the code of an error.
  int Check(const std::string& service, const CallOptions& options = {}) {
    HealthCheckResponse response;
    const Outcome outcome = client_->Unary(kHealth + "Check", About(service), &response, options);
    return outcome.ok() ? static_cast<int>(response.status()) : -outcome.code;
  }
};

// --- the key ---

class KeyTest : public GrpcDoorTest {
 protected:
  void SetUp() override {
    GrpcOptions options;
    options.api_key = "sk-test-0123456789";
    StartDoor(options);
  }
  static CallOptions Bearer(const std::string& value) {
    CallOptions options;
    options.metadata = {{"authorization", value}};
    return options;
  }
};

TEST_F(KeyTest, EveryMethodButHealthAsksForTheKey) {
  for (const Method& method : Methods()) {
    const std::string path(method.path);
    for (const CallOptions& options : {CallOptions(), Bearer("Bearer wrong")}) {
      const auto call = client_->Start(path, options);
      (void)call->WriteBytes("");
      call->WritesDone();
      if (method.open && !method.watches) {
        (void)call->Read(nullptr);
        EXPECT_EQ(call->Finish().code, 0) << path;
      } else if (method.open) {
        EXPECT_TRUE(call->Read(nullptr)) << path;
      } else {
        EXPECT_FALSE(call->Read(nullptr)) << path;
        const Outcome outcome = call->Finish();
        EXPECT_EQ(outcome.code, kUnauthenticated) << path;
        EXPECT_EQ(outcome.Trailer("tutti-error-code"), "invalid_api_key");
        EXPECT_FALSE(outcome.Trailer("x-request-id").empty());
      }
    }
  }
  // A method that is none tells nothing either.
  EXPECT_EQ(client_->UnaryBytes("/no.Such/Method", "", nullptr).code, kUnauthenticated);
  EXPECT_EQ(
      client_->UnaryBytes("/no.Such/Method", "", nullptr, Bearer("Bearer sk-test-0123456789")).code,
      12);
}

TEST_F(KeyTest, OneKeyAsABearerIsTakenAndNothingElse) {
  EXPECT_TRUE(Embed(Bearer("Bearer sk-test-0123456789")).ok());
  EXPECT_TRUE(Embed(Bearer("bearer sk-test-0123456789")).ok());
  for (const std::string& wrong :
       {std::string("sk-test-0123456789"), std::string("Bearer"), std::string("Bearer "),
        std::string("Basic sk-test-0123456789"), std::string("Bearer  sk-test-0123456789"),
        std::string("Bearer sk-test-012345678"), "Bearer " + std::string(5000, 'k')}) {
    EXPECT_EQ(Embed(Bearer(wrong)).code, kUnauthenticated) << wrong;
  }
  CallOptions two = Bearer("Bearer sk-test-0123456789");
  two.metadata.push_back(two.metadata[0]);
  EXPECT_EQ(Embed(two).code, kUnauthenticated);
  EXPECT_EQ(inference_.encodings(), 2u);
  door_->Stop();
  EXPECT_THAT(lines_->Joined(), Not(HasSubstr("sk-test")));
}

TEST_F(KeyTest, HealthOfTheServerIsOpenAndThatOfAModelIsNot) {
  EXPECT_EQ(Check(""), 1);
  EXPECT_EQ(Check("tutti.v1.Tutti"), 1);
  EXPECT_EQ(Check("minilm"), -kUnauthenticated);
  EXPECT_EQ(Check("nobody"), -kUnauthenticated);
  EXPECT_EQ(Check("minilm", Bearer("Bearer sk-test-0123456789")), 1);
  EXPECT_EQ(Check("nobody", Bearer("Bearer sk-test-0123456789")), -kNotFound);
}

// Which addresses are of this machine alone; the rule itself is access/bind_rule's.
TEST(GrpcBindTest, ANetworkIsServedWithKeyAndTlsOnly) {
  GrpcOptions options;
  EXPECT_TRUE(CheckBind(options).ok());
  for (const char* const local : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    options.host = local;
    EXPECT_TRUE(CheckBind(options).ok()) << local;
  }
  for (const char* const open : {"0.0.0.0", "::", "192.168.1.7"}) {
    options = GrpcOptions();
    options.host = open;
    EXPECT_EQ(CheckBind(options).reason(), "invalid_value") << open;
    options.api_key = "k";
    EXPECT_FALSE(CheckBind(options).ok()) << open;
    options.tls_cert_file = options.tls_key_file = "x.pem";
    EXPECT_TRUE(CheckBind(options).ok()) << open;
  }
  options.host = "example.com";
  EXPECT_FALSE(CheckBind(options).ok());
}

TEST_F(GrpcDoorTest, APortThatIsTakenIsToldAtStart) {
  StartDoor();
  GrpcOptions options;
  options.port = door_->port();
  GrpcDoor second(options,
                  {&inference_, &inference_, repository_.get(), nullptr, nullptr, &clock_});
  const Status status = second.Start();
  EXPECT_EQ(status.reason(), "io_error");
  EXPECT_EQ(status.param(), "grpc-port");
  EXPECT_EQ(door_->address(), "grpc://127.0.0.1:" + std::to_string(door_->port()));
}

// --- health and reflection ---

TEST_F(GrpcDoorTest, HealthKnowsServicesAndModels) {
  StartDoor();
  for (const char* const service :
       {"", "inference.GRPCInferenceService", "tutti.v1.Tutti", "minilm", "simple"}) {
    EXPECT_EQ(Check(service), 1) << service;
  }
  EXPECT_EQ(Check("nobody"), -kNotFound);
  inference_.is_live = false;
  EXPECT_EQ(Check("simple"), 2);
}

TEST_F(GrpcDoorTest, AWatchTellsOfLoadingThenServing) {
  inference_.is_started = false;
  StartDoor();
  const auto server = client_->Start(kHealth + "Watch");
  const auto model = client_->Start(kHealth + "Watch");
  const auto nobody = client_->Start(kHealth + "Watch");
  ASSERT_TRUE(server->Write(About("")));
  ASSERT_TRUE(model->Write(About("minilm")));
  ASSERT_TRUE(nobody->Write(About("nobody")));
  HealthCheckResponse response;
  for (const auto& watch : {&server, &model, &nobody}) {
    ASSERT_TRUE((*watch)->Read(&response));  // at once
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  }
  inference_.is_started = true;
  ASSERT_TRUE(server->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(model->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(nobody->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_EQ(door_->active_requests(), 0);  // a drain does not wait for them
}

TEST_F(GrpcDoorTest, ReflectionDescribesEveryServiceUnderBothVersions) {
  StartDoor();
  for (const std::string version : {"v1", "v1alpha"}) {
    const auto call =
        client_->Start("/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo");
    ServerReflectionRequest request;
    request.set_list_services("*");
    ASSERT_TRUE(call->Write(request));
    ServerReflectionResponse response;
    ASSERT_TRUE(call->Read(&response));
    std::vector<std::string> services;
    for (const auto& service : response.list_services_response().service()) {
      services.push_back(service.name());
    }
    EXPECT_THAT(services,
                ElementsAre("grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                            "grpc.reflection.v1alpha.ServerReflection",
                            "inference.GRPCInferenceService", "tutti.v1.Tutti"));
    for (const std::string& service : services) {
      request.set_file_containing_symbol(service);
      ASSERT_TRUE(call->Write(request));
      ASSERT_TRUE(call->Read(&response));
      // The files build, and hold the service with all methods of the table.
      google::protobuf::DescriptorPool pool;
      const auto& files = response.file_descriptor_response().file_descriptor_proto();
      ASSERT_GT(files.size(), 0) << service;
      for (int i = files.size(); i-- > 0;) {
        google::protobuf::FileDescriptorProto file;
        ASSERT_TRUE(file.ParseFromString(files[i]));
        ASSERT_NE(pool.BuildFile(file), nullptr) << file.name();
      }
      const auto* described = pool.FindServiceByName(service);
      ASSERT_NE(described, nullptr) << service;
      for (const Method& method : Methods()) {
        const std::string prefix = "/" + service + "/";
        if (!method.path.starts_with(prefix)) continue;
        EXPECT_NE(described->FindMethodByName(std::string(method.path.substr(prefix.size()))),
                  nullptr)
            << method.path;
      }
      for (int i = 0; i < described->method_count(); ++i) {
        EXPECT_NE(FindMethod("/" + service + "/" + described->method(i)->name()), nullptr);
      }
    }
    request.set_file_containing_symbol("no.such.Symbol");
    ASSERT_TRUE(call->Write(request));
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.error_response().error_code(), kNotFound);
    request.set_file_by_filename("tutti/v1/tutti.proto");
    ASSERT_TRUE(call->Write(request));
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.file_descriptor_response().file_descriptor_proto_size(), 1);
    call->WritesDone();
    EXPECT_FALSE(call->Read(&response));
    EXPECT_TRUE(call->Finish().ok());
  }
}

// --- deadlines and cancels ---

TEST_F(GrpcDoorTest, AnExpiredDeadlineReachesNoModel) {
  GrpcOptions options;
  options.handlers = 1;
  StartDoor(options);
  // A prompt that is being read holds the one handler until the others are too late.
  v1::GenerateRequest first;
  first.set_prompt("x");
  const auto holder = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(holder->Write(first));
  ASSERT_NE(inference_.Generation(0), nullptr);
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(Embed(impatient).code, kLate);
  EXPECT_EQ(Infer(TextRequest("minilm", "text", {"a"}), nullptr, impatient).code, kLate);
  EXPECT_TRUE(Eventually([&] { return door_->active_requests() == 1; }));
  inference_.Generation(0)->Answer({"a"});
  EXPECT_TRUE(Embed().ok());
  EXPECT_EQ(inference_.encodings(), 1u);
  // A timeout that KServe carries counts too, from the request's arrival.
  inference::ModelInferRequest request = TextRequest("minilm", "text", {"a"});
  (*request.mutable_parameters())["timeout"].set_int64_param(60'000'000);
  ASSERT_TRUE(Infer(request).ok());
  const Duration left = inference_.Encoding(1)->request.deadline - clock_.Now();
  EXPECT_GT(left, std::chrono::seconds(10));
  EXPECT_LE(left, std::chrono::seconds(61));
}

TEST_F(GrpcDoorTest, ADeadlineThatPassesFreesTheRequest) {
  StartDoor();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  CallOptions options;
  options.timeout = std::chrono::milliseconds(100);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Embed(options).code, kLate);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(Eventually([&] { return inference_.Encoding(0)->cancelled.load(); }));
  EXPECT_TRUE(Eventually([&] { return door_->active_requests() == 0; }));
}

TEST_F(GrpcDoorTest, AThousandCancelsLeaveNothingBehind) {
  StartDoor();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto amount = static_cast<size_t>(1000 / support::kSlower);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      TestClient client(door_->port());
      for (size_t i = 0; i < amount / 4; ++i) {
        const auto call = client.Start(kTutti + "Embed");
        if (i % 3 != 0) (void)call->Write(OneText());
        if (i % 3 == 2) usleep(500);
        call->Cancel();
        EXPECT_EQ(call->Finish().code, kCancelled);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return door_->active_requests() == 0; }));
  for (size_t i = 0; i < inference_.encodings(); ++i) {
    EXPECT_TRUE(Eventually([&] { return inference_.Encoding(i)->cancelled.load(); })) << i;
  }
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>& encoding) {
    encoding->Answer();
    return OkStatus();
  };
  EXPECT_TRUE(Embed().ok());
}

// --- refusals ---

TEST_F(GrpcDoorTest, RefusalsSayWhenToComeBack) {
  StartDoor();
  const auto refuse_with = [&](const Status& status) {
    inference_.on_encode = [status](const std::shared_ptr<FakeEncoding>&) { return status; };
    return Embed();
  };
  const Outcome full = refuse_with(Unavailable("queue_full", "the queue is full")
                                       .WithRetryAfter(std::chrono::milliseconds(1500)));
  EXPECT_EQ(full.code, kUnavailable);
  EXPECT_EQ(full.message, "the queue is full");
  EXPECT_EQ(full.Trailer("tutti-error-code"), "queue_full");
  EXPECT_THAT(full.details, HasSubstr("type.googleapis.com/google.rpc.RetryInfo"));
  // RetryInfo{retry_delay{seconds: 1, nanos: 500000000}}, in its bytes.
  EXPECT_THAT(full.details, HasSubstr(std::string("\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01")));
  const Outcome rate = refuse_with(ResourceExhausted("tenant_rate", "too fast"));
  EXPECT_EQ(rate.code, 8);
  EXPECT_THAT(rate.details, HasSubstr("RetryInfo"));
  const Outcome quota = refuse_with(ResourceExhausted("request_too_large", "too large"));
  EXPECT_EQ(quota.code, 8);
  EXPECT_THAT(quota.details, Not(HasSubstr("RetryInfo")));
  const Outcome bad =
      refuse_with(InvalidArgument("context_length_exceeded", "600 tokens").WithParam("input[3]"));
  EXPECT_EQ(bad.code, kInvalid);
  EXPECT_THAT(bad.details, HasSubstr("texts[3]"));
  EXPECT_THAT(bad.details, HasSubstr("context_length_exceeded"));
  // What was not meant for clients stays here.
  const Outcome internal = refuse_with(Internal("at 0x7fff, /etc/passwd"));
  EXPECT_EQ(internal.code, 13);
  EXPECT_THAT(internal.message, Not(HasSubstr("passwd")));
  EXPECT_EQ(refuse_with(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "late")).code,
            kLate);
}

// --- handlers ---

TEST_F(GrpcDoorTest, CallsBeyondTheHandlersWaitTheirTurnWithoutAThread) {
  GrpcOptions options;
  options.handlers = 2;
  StartDoor(options);
  // Generations whose prompts are being read hold their handlers.
  v1::GenerateRequest request;
  request.set_prompt("x");
  std::vector<std::unique_ptr<testing::TestCall>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(client_->Start(kTutti + "Generate"));
    ASSERT_TRUE(calls.back()->Write(request));
  }
  ASSERT_NE(inference_.Generation(1), nullptr);
  usleep(50'000);
  EXPECT_EQ(inference_.generations(), 2u);
  EXPECT_EQ(Check("minilm"), 1);  // what is not prepared does not wait
  // One that leaves gives up its place in the line.
  calls[3]->Cancel();
  EXPECT_EQ(calls[3]->Finish().code, kCancelled);
  ASSERT_TRUE(Eventually([&] { return door_->active_requests() == 5; }));
  for (size_t k = 0; k < 5; ++k) {
    const auto generation = inference_.Generation(k);
    ASSERT_NE(generation, nullptr) << k;
    EXPECT_LE(inference_.generations(), k + 2);
    generation->Answer({"done"});
  }
  for (int i = 0; i < 6; ++i) {
    if (i == 3) continue;
    v1::GenerateResponse response;
    EXPECT_TRUE(calls[static_cast<size_t>(i)]->Read(&response)) << i;
    EXPECT_EQ(response.text(), "done");
  }
  EXPECT_EQ(inference_.generations(), 5u);
}

TEST_F(GrpcDoorTest, EncodingsWhoseTextsAreStillBeingReadHoldTheirHandlers) {
  GrpcOptions options;
  options.handlers = 2;
  StartDoor(options);
  inference_.prepares = false;
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const v1::EmbedRequest embed = OneText();
  const inference::ModelInferRequest infer = TextRequest("minilm", "text", {"a"});
  v1::EmbedResponse embedded;
  inference::ModelInferResponse inferred;
  struct Way {
    std::string method;
    const google::protobuf::MessageLite& request;
    google::protobuf::MessageLite& response;
  };
  const Way ways[] = {{kTutti + "Embed", embed, embedded},
                      {kInference + "ModelInfer", infer, inferred}};
  size_t told = 0;
  for (const auto& [method, request, response] : ways) {
    std::vector<std::unique_ptr<testing::TestCall>> calls;
    for (int i = 0; i < 4; ++i) {
      calls.push_back(client_->Start(method));
      ASSERT_TRUE(calls.back()->Write(request));
    }
    ASSERT_NE(inference_.Encoding(told + 1), nullptr) << method;
    usleep(50'000);
    EXPECT_EQ(inference_.encodings(), told + 2) << method;
    // One that is prepared makes room for the next, though its vector is not there yet.
    inference_.Encoding(told)->Prepared();
    ASSERT_NE(inference_.Encoding(told + 2), nullptr) << method;
    usleep(50'000);
    EXPECT_EQ(inference_.encodings(), told + 3) << method;
    for (size_t k = told; k < told + 4; ++k) {
      ASSERT_NE(inference_.Encoding(k), nullptr) << method;
      inference_.Encoding(k)->Answer();
    }
    for (const auto& call : calls) {
      EXPECT_TRUE(call->Read(&response)) << method;
      EXPECT_TRUE(call->Finish().ok()) << method;
    }
    told += 4;
  }
}

TEST_F(GrpcDoorTest, TheLineForAHandlerIsBounded) {
  GrpcOptions options;
  options.handlers = 1;
  options.limits.waiting_calls = 2;
  StartDoor(options);
  v1::GenerateRequest request;
  request.set_prompt("x");
  std::vector<std::unique_ptr<testing::TestCall>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(client_->Start(kTutti + "Generate"));
    ASSERT_TRUE(calls.back()->Write(request));
    usleep(10'000);
  }
  const Outcome refused = Embed();
  EXPECT_EQ(refused.code, kUnavailable);
  EXPECT_EQ(refused.Trailer("tutti-error-code"), "queue_full");
  EXPECT_THAT(refused.details, HasSubstr("RetryInfo"));
  for (size_t k = 0; k < 3; ++k) inference_.Generation(k)->Answer({"a"});
  EXPECT_TRUE(Embed().ok());
}

// Row U04: 64 calls at once with 10 handlers; memory over many calls is judged in the e2e tests.
TEST_F(GrpcDoorTest, SixtyFourCallsOnTenHandlersAllFinish) {
  StartDoor();
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    std::thread([generation] {
      usleep(2000);
      generation->Answer({"a", "b"});
    }).detach();
    return OkStatus();
  };
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&] {
      v1::GenerateRequest request;
      request.set_prompt("x");
      CallOptions options;
      options.timeout = std::chrono::seconds(60);
      const auto call = client_->Start(kTutti + "Generate", options);
      (void)call->Write(request);
      call->WritesDone();
      std::string text;
      v1::GenerateResponse response;
      while (call->Read(&response)) text += response.text();
      if (call->Finish().ok() && text == "ab") ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 64);
}

// --- what the library and the acceptor bound ---

TEST_F(GrpcDoorTest, ConnectionsAreBoundedAndOneThatEndsMakesRoom) {
  GrpcOptions options;
  options.limits.connections = 3;
  StartDoor(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto live = [](TestClient& client, int timeout_ms) {
    CallOptions call;
    call.timeout = std::chrono::milliseconds(timeout_ms);
    inference::ServerLiveResponse response;
    return client.Unary(kInference + "ServerLive", inference::ServerLiveRequest(), &response, call)
        .ok();
  };
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(door_->port()));
    EXPECT_TRUE(live(*clients.back(), testing::kPatienceMs));
  }
  EXPECT_EQ(door_->open_connections(), 3);
  TestClient fourth(door_->port());
  EXPECT_FALSE(live(fourth, 300));
  clients.pop_back();
  EXPECT_TRUE(Eventually([&] { return live(fourth, 1000); }));
  EXPECT_EQ(door_->open_connections(), 3);
}

TEST_F(GrpcDoorTest, AConnectionThatSpeaksNoHttp2IsClosed) {
  GrpcOptions options;
  options.limits.handshake = std::chrono::milliseconds(300);
  StartDoor(options);
  RawConnection wrong(door_->port()), half(door_->port()), silent(door_->port());
  ASSERT_TRUE(wrong.connected());
  wrong.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  half.Send("PRI * HTTP/2.0\r\n");
  EXPECT_TRUE(wrong.Closed(testing::kPatienceMs));
  EXPECT_TRUE(half.Closed(testing::kPatienceMs));
  EXPECT_TRUE(silent.Closed(testing::kPatienceMs));
  EXPECT_TRUE(Embed().ok());
  EXPECT_TRUE(Eventually([&] { return door_->open_connections() == 1; }));
}

TEST_F(GrpcDoorTest, AConnectionResetForAbuseIsLoggedAndCounted) {
  GrpcOptions options;
  options.limits.abuse.calls = 3;
  StartDoor(options);
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  std::vector<std::unique_ptr<testing::TestCall>> calls;
  EXPECT_TRUE(Eventually([&] {
    calls.push_back(client_->Start(kTutti + "Embed"));
    (void)calls.back()->Write(OneText());
    return lines_->Joined().find("grpc.connection_reset") != std::string::npos;
  }));
  EXPECT_THAT(lines_->Joined(),
              ContainsRegex("WARN grpc.connection_reset peer=ipv4:127.0.0.1:[0-9]+ why=calls "
                            "untold=0\n"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("tutti_connections_reset_total{door=\"grpc\"} "));
}

TEST_F(GrpcDoorTest, MetadataIsBounded) {
  StartDoor();
  CallOptions options;
  options.metadata = {{"x-large", std::string(40 << 10, 'a')}};
  // Refused by the client once it has seen the server's settings; before, the connection goes.
  const int code = Embed(options).code;
  EXPECT_TRUE(code == 8 || code == kUnavailable) << code;
  options.metadata = {{"x-large", std::string(10 << 10, 'a')}};
  EXPECT_TRUE(Eventually([&] { return Embed(options).ok(); }));
  EXPECT_EQ(inference_.encodings(), 1u);
}

TEST_F(GrpcDoorTest, AReaderThatTakesNothingIsGivenUp) {
  GrpcOptions options;
  options.limits.reader_stall = std::chrono::milliseconds(200);
  StartDoor(options);
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  const auto generation = inference_.Generation(0);
  generation->Started();
  for (int i = 0; i < 200; ++i) {
    generation->Token(std::string(4096, 'x'));
    generation->Wake();
  }
  EXPECT_TRUE(Eventually([&] { return generation->cancelled.load(); }, 30'000));
}

// --- TLS ---

struct Pem {
  std::string cert, key, text;
};

Pem MakeCertificate(const support::TempFolder& folder, const std::string& name) {
  Pem pem{folder.File(name + ".crt"), folder.File(name + ".key"), ""};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, X509_get_subject_name(cert));
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(cert, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(cert, key, EVP_sha256());
  FILE* out = std::fopen(pem.cert.c_str(), "w");
  PEM_write_X509(out, cert);
  std::fclose(out);
  out = std::fopen(pem.key.c_str(), "w");
  PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  X509_free(cert);
  EVP_PKEY_free(key);
  std::ifstream file(pem.cert);
  pem.text.assign(std::istreambuf_iterator<char>(file), {});
  return pem;
}

TEST_F(GrpcDoorTest, TheSameCallsAreThereBehindACertificate) {
  const support::TempFolder folder;
  const Pem pem = MakeCertificate(folder, "a");
  GrpcOptions options;
  options.tls_cert_file = pem.cert;
  options.tls_key_file = pem.key;
  StartDoor(options);
  EXPECT_EQ(door_->address(), "grpcs://127.0.0.1:" + std::to_string(door_->port()));
  TestClient secure(door_->port(), pem.text);
  v1::EmbedResponse response;
  const Outcome outcome = secure.Unary(kTutti + "Embed", OneText(), &response);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(500);
  EXPECT_FALSE(Embed(impatient).ok());  // a client that speaks no TLS
}

TEST_F(GrpcDoorTest, FilesThatAreNoCertificateAreToldAtStart) {
  const support::TempFolder folder;
  const Pem a = MakeCertificate(folder, "a"), b = MakeCertificate(folder, "b");
  const auto start = [&](const std::string& cert, const std::string& key) {
    GrpcOptions options;
    options.port = 0;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    GrpcDoor door(options, {&inference_, &inference_, nullptr, nullptr, nullptr, &clock_});
    return door.Start().reason();
  };
  EXPECT_EQ(start(a.cert, a.key), "");
  EXPECT_EQ(start(folder.File("none"), a.key), "invalid_value");
  EXPECT_EQ(start(a.cert, folder.File("none")), "invalid_value");
  EXPECT_EQ(start(a.key, a.cert), "invalid_value");
  EXPECT_EQ(start(a.cert, b.key), "invalid_value");
}

// --- the end ---

TEST_F(GrpcDoorTest, ADrainLetsCallsFinishAndTakesNoOthers) {
  StartDoor();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto running = client_->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  ASSERT_NE(inference_.Encoding(0), nullptr);
  const auto watch = client_->Start(kHealth + "Watch");
  ASSERT_TRUE(watch->Write(About("")));
  HealthCheckResponse status;
  ASSERT_TRUE(watch->Read(&status));
  const auto idle = client_->Start(kInference + "ModelStreamInfer");
  ASSERT_TRUE(idle->Write(Simple()));
  ASSERT_TRUE(idle->Read(nullptr));
  std::atomic<bool> clean{false}, drained{false};
  std::thread drain([&] {
    clean = door_->Drain(std::chrono::seconds(60));
    drained = true;
  });
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&status));
  EXPECT_EQ(watch->Finish().code, kUnavailable);
  EXPECT_FALSE(idle->Read(nullptr));
  EXPECT_EQ(idle->Finish().Trailer("tutti-error-code"), "draining");
  usleep(50'000);
  EXPECT_FALSE(drained.load());
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(300);
  EXPECT_FALSE(
      TestClient(door_->port()).Unary(kTutti + "Embed", OneText(), nullptr, impatient).ok());
  inference_.Encoding(0)->Answer();
  v1::EmbedResponse response;
  EXPECT_TRUE(running->Read(&response));
  EXPECT_TRUE(running->Finish().ok());
  drain.join();
  EXPECT_TRUE(clean.load());
}

TEST_F(GrpcDoorTest, ADrainThatTakesTooLongCancels) {
  StartDoor();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto running = client_->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  ASSERT_NE(inference_.Encoding(0), nullptr);
  EXPECT_FALSE(door_->Drain(std::chrono::milliseconds(200)));
  EXPECT_TRUE(inference_.Encoding(0)->cancelled.load());
  EXPECT_FALSE(running->Finish().ok());
}

TEST_F(GrpcDoorTest, StopEndsWhatRunsAndMayComeTwice) {
  StartDoor();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto running = client_->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  const auto encoding = inference_.Encoding(0);
  ASSERT_NE(encoding, nullptr);
  door_->Stop();
  EXPECT_TRUE(encoding->cancelled.load());
  encoding->Answer();  // too late, and nobody is woken
  door_->Stop();
  EXPECT_FALSE(running->Finish().ok());
}

TEST_F(GrpcDoorTest, ALineAndAMetricTellOfEachCall) {
  StartDoor();
  CallOptions options;
  options.metadata = {{"x-request-id", "abc-1"}};
  EXPECT_TRUE(Embed(options).ok());
  options.metadata = {{"x-request-id", "bad id\""}};
  const Outcome outcome = Embed(options);
  EXPECT_THAT(outcome.Trailer("x-request-id"), HasSubstr("grpc-"));
  EXPECT_TRUE(Eventually([&] {
    return lines_->Joined().find("grpc.request id=abc-1 method=/tutti.v1.Tutti/Embed code=0") !=
           std::string::npos;
  })) << lines_->Joined();
  EXPECT_THAT(metrics_.Expose(), HasSubstr("door=\"grpc\""));
}

TEST_F(GrpcDoorTest, CallsCountAsWhatTheirModelsDoAndTellWhereTheTimeWent) {
  StartDoor();
  EXPECT_TRUE(Embed().ok());
  v1::ScoreRequest pairs;
  pairs.set_query("a");
  pairs.add_documents("ab");
  v1::ScoreResponse scores;
  EXPECT_TRUE(client_->Unary(kTutti + "Score", pairs, &scores).ok());
  EXPECT_TRUE(Infer(TextRequest("minilm", "text", {"a"})).ok());
  EXPECT_TRUE(Infer(TextRequest("classes", "text", {"a"})).ok());
  EXPECT_TRUE(Infer(Simple()).ok());
  EXPECT_EQ(Infer(TextRequest("minilm", "text", {""})).code, kInvalid);
  EXPECT_EQ(Infer(TextRequest("nobody", "text", {"a"})).code, kNotFound);
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"a"});
    return OkStatus();
  };
  EXPECT_TRUE(Infer(TextRequest("chat", "text_input", {"a"})).ok());
  const auto counted = [&](const char* op, int code, int count) {
    const std::string line = "tutti_requests_total{code=\"" + std::to_string(code) +
                             "\",door=\"grpc\",op=\"" + op + "\"} " + std::to_string(count) + "\n";
    return Eventually([&] { return metrics_.Expose().find(line) != std::string::npos; });
  };
  EXPECT_TRUE(counted("embed", 0, 2)) << metrics_.Expose();
  EXPECT_TRUE(counted("embed", kInvalid, 1)) << metrics_.Expose();
  EXPECT_TRUE(counted("score", 0, 2)) << metrics_.Expose();
  EXPECT_TRUE(counted("generate", 0, 1)) << metrics_.Expose();
  EXPECT_TRUE(counted("other", 0, 1)) << metrics_.Expose();
  EXPECT_TRUE(counted("other", kNotFound, 1)) << metrics_.Expose();
  // Of the four encodings, and of none that failed.
  for (const char* const stage : {"tokenize", "queue", "encode"}) {
    EXPECT_THAT(metrics_.Expose(),
                HasSubstr("tutti_stage_seconds_count{stage=\"" + std::string(stage) + "\"} 4\n"));
  }
}

TEST_F(GrpcDoorTest, AGenerationTellsWhereItsTimeWent) {
  StartDoor();
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"a"});
    return OkStatus();
  };
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  call->WritesDone();
  v1::GenerateResponse response;
  while (call->Read(&response)) continue;
  EXPECT_TRUE(call->Finish().ok());
  for (const char* const stage : {"tokenize", "queue", "prefill", "decode"}) {
    EXPECT_THAT(metrics_.Expose(),
                HasSubstr("tutti_stage_seconds_count{stage=\"" + std::string(stage) + "\"} 1\n"));
  }
}

}  // namespace
}  // namespace tutti::rpc
