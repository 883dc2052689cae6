// clang-format off: first
#include "server/grpc/grpc_library.h"
// clang-format on
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include "server/grpc/testing/test_client.h"

namespace tutti::rpc::testing {
namespace {

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

class Call final : public TestCall {
 public:
  Call(grpc::GenericStub& stub, const std::string& method, const CallOptions& options) {
    for (const auto& [name, value] : options.metadata) context_.AddMetadata(name, value);
    context_.set_deadline(std::chrono::system_clock::now() + options.timeout);
    if (options.compression == "gzip") context_.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    if (options.compression == "deflate") {
      context_.set_compression_algorithm(GRPC_COMPRESS_DEFLATE);
    }
    stream_ = stub.PrepareCall(&context_, method, &queue_);
    stream_->StartCall(&queue_);
    started_ = Wait();
  }
  ~Call() override {
    if (!finished_) {
      context_.TryCancel();
      (void)Finish();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const google::protobuf::MessageLite& message) override {
    return WriteBytes(message.SerializeAsString());
  }
  bool WriteBytes(const std::string& message) override {
    if (!started_) return false;
    stream_->Write(BufferOf(message), &queue_);
    return Wait();
  }
  void WritesDone() override {
    if (!started_) return;
    stream_->WritesDone(&queue_);
    (void)Wait();
  }
  bool Read(google::protobuf::MessageLite* message) override {
    if (!started_) return false;
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, &queue_);
    if (!Wait()) return false;
    grpc::ProtoBufferReader reader(&buffer);
    return message == nullptr || message->ParseFromZeroCopyStream(&reader);
  }
  Outcome Finish() override {
    finished_ = true;
    grpc::Status status;
    stream_->Finish(&status, &queue_);
    (void)Wait();
    Outcome outcome;
    outcome.code = status.error_code();
    outcome.message = status.error_message();
    outcome.details = status.error_details();
    for (const auto& [name, value] : context_.GetServerInitialMetadata()) {
      outcome.headers.emplace(std::string(name.data(), name.size()),
                              std::string(value.data(), value.size()));
    }
    for (const auto& [name, value] : context_.GetServerTrailingMetadata()) {
      outcome.trailers.emplace(std::string(name.data(), name.size()),
                               std::string(value.data(), value.size()));
    }
    return outcome;
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  // One operation at a time is under way.
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool started_ = false, finished_ = false;
};

}  // namespace

struct TestClient::Impl {
  explicit Impl(std::shared_ptr<grpc::Channel> channel) : stub(std::move(channel)) {}
  grpc::GenericStub stub;
};

TestClient::TestClient(int port, const std::string& certificate)
    : TestClient(port, certificate, {}) {}

TestClient::TestClient(int port, const std::string& certificate, const Identity& own) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // a reader that stops takes 64 KiB
  auto credentials = grpc::InsecureChannelCredentials();
  if (!certificate.empty()) {
    credentials = grpc::SslCredentials({certificate, own.key, own.cert});
    arguments.SetSslTargetNameOverride("localhost");
  }
  impl_ = std::make_unique<Impl>(
      grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), credentials, arguments));
}

TestClient::~TestClient() = default;

std::unique_ptr<TestCall> TestClient::Start(const std::string& method, const CallOptions& options) {
  return std::make_unique<Call>(impl_->stub, method, options);
}

Outcome TestClient::Unary(const std::string& method, const google::protobuf::MessageLite& request,
                          google::protobuf::MessageLite* response, const CallOptions& options) {
  return UnaryBytes(method, request.SerializeAsString(), response, options);
}

Outcome TestClient::UnaryBytes(const std::string& method, const std::string& request,
                               google::protobuf::MessageLite* response,
                               const CallOptions& options) {
  const auto call = Start(method, options);
  if (call->WriteBytes(request)) call->WritesDone();
  (void)call->Read(response);
  return call->Finish();
}

}  // namespace tutti::rpc::testing
