// The channel against a small server of the library: answers, refusals, silence, many threads.
// clang-format off: first, as a library below it defines macros that base/mutex.h defines too
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#undef GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS
// clang-format on

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "client/grpc/grpc_channel.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// "/t/Echo" gives the message back, "/t/Refuse" an error with a trailer, "/t/Key" the key that
// came, "/t/Never" nothing.
class Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Reactor(grpc::GenericCallbackServerContext* call) : call_(call) {
    if (call->method() == "/t/Refuse") {
      call->AddTrailingMetadata("tutti-error-code", "queue_full");
      Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"});
    } else if (call->method() == "/t/Unknown") {
      Finish({grpc::StatusCode::UNIMPLEMENTED, "what?"});
    } else if (call->method() != "/t/Never") {
      StartRead(&message_);
    }
  }

 private:
  void OnReadDone(bool) override {
    if (call_->method() == "/t/Key") {
      const auto found = call_->client_metadata().find("authorization");
      const grpc::Slice slice(found == call_->client_metadata().end()
                                  ? std::string()
                                  : std::string(found->second.data(), found->second.size()));
      message_ = grpc::ByteBuffer(&slice, 1);
    }
    StartWriteAndFinish(&message_, {}, grpc::Status::OK);
  }
  void OnCancel() override {
    if (call_->method() == "/t/Never") Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

  grpc::GenericCallbackServerContext* const call_;
  grpc::ByteBuffer message_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  std::set<std::string> peers() {
    const std::lock_guard lock(mutex_);
    return peers_;
  }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    {
      const std::lock_guard lock(mutex_);
      peers_.insert(call->peer());
    }
    return new Reactor(call);
  }
  std::mutex mutex_;
  std::set<std::string> peers_;
};

class GrpcChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    url_ = "grpc://127.0.0.1:" + std::to_string(port);
  }
  void TearDown() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::unique_ptr<GrpcChannel> Open(const std::string& key = "",
                                    milliseconds patience = milliseconds(60'000)) {
    auto channel = GrpcChannel::Open(url_, key, patience);
    EXPECT_TRUE(channel.ok()) << channel.status();
    return *std::move(channel);
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string url_;
};

TEST_F(GrpcChannelTest, AMessageGoesAndAnAnswerComesWhateverItsSize) {
  const auto channel = Open();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{3} << 20}) {
    const std::string message(size, 'x');
    const Result<std::string> answer = channel->Call("/t/Echo", message);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(*answer == message) << size;
  }
}

TEST_F(GrpcChannelTest, ARefusalHasItsCodeAndTheServersReason) {
  const auto channel = Open();
  const Status refused = channel->Call("/t/Refuse", "x").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.reason(), "queue_full");
  EXPECT_EQ(refused.message(), "no room");
  EXPECT_EQ(channel->Call("/t/Unknown", "x").status().code(), StatusCode::kUnimplemented);
}

TEST_F(GrpcChannelTest, ACallEndsWithinThePatience) {
  const auto channel = Open("", milliseconds(200));
  EXPECT_EQ(channel->Call("/t/Never", "x").status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(GrpcChannelTest, TheKeyGoesWithEachCall) {
  EXPECT_EQ(*Open("sk-1")->Call("/t/Key", "x"), "Bearer sk-1");
  EXPECT_EQ(*Open()->Call("/t/Key", "x"), "");
}

TEST_F(GrpcChannelTest, ManyThreadsShareOneConnection) {
  const auto channel = Open();
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(t * 1000 + i);
        const Result<std::string> answer = channel->Call("/t/Echo", text);
        if (answer.ok() && *answer == text) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
  EXPECT_EQ(channel->connections(), 1);
  EXPECT_EQ(service_.peers().size(), 1u) << "as the server sees them";
  const auto second = Open();
  EXPECT_EQ(second->connections(), 2) << "another channel has one of its own";
}

TEST(GrpcUrl, IsHostAndPortAndNothingElse) {
  for (const char* url :
       {"", "grpc://", "grpc://host", "http://127.0.0.1:1", "grpcs://127.0.0.1:1", "127.0.0.1:0",
        "127.0.0.1:65536", "127.0.0.1:8x", "h ost:1", ":8081", "grpc://127.0.0.1:8081/path"}) {
    const auto channel = GrpcChannel::Open(url, "", milliseconds(100));
    EXPECT_EQ(channel.status().code(), StatusCode::kInvalidArgument) << url;
  }
}

TEST(GrpcUrl, WhereNobodyListensThatIsSaid) {
  const auto channel = GrpcChannel::Open("127.0.0.1:1", "", milliseconds(200));
  EXPECT_EQ(channel.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(channel.status().message(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace tutti::client
