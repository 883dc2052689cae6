// ModelStreamInfer: order, failures, decoupled models, many at once, cancels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "server/grpc/testing/server_fixture.h"

namespace tutti::rpc {
namespace {

using inference::ModelStreamInferResponse;
using testing::CallOptions;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::TestCall;

const std::string kStream = testing::kInference + "ModelStreamInfer";

class StreamTest : public testing::ServerTest {
 protected:
  void SetUp() override { StartServer(); }

  static bool Final(const ModelStreamInferResponse& response) {
    const auto& parameters = response.infer_response().parameters();
    const auto found = parameters.find("triton_final_response");
    return found != parameters.end() && found->second.bool_param();
  }
  static std::string Text(const ModelStreamInferResponse& response) {
    if (response.infer_response().raw_output_contents_size() == 0) return "";
    const std::string& raw = response.infer_response().raw_output_contents(0);
    const auto elements = kserve::SplitBytes(raw, 1);
    return elements.has_value() ? std::string(elements->front()) : "?";
  }
  static inference::ModelInferRequest Repeat(int count, uint32_t delay_ms, const std::string& id) {
    inference::ModelInferRequest request;
    request.set_model_name("repeat_int32");
    request.set_id(id);
    const auto add = [&](const char* name, const char* type, const std::vector<uint32_t>& values) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype(type);
      input.add_shape(static_cast<int64_t>(values.size()));
      std::string raw;
      for (const uint32_t value : values) kserve::AppendElement(value, &raw);
      request.add_raw_input_contents(raw);
    };
    std::vector<uint32_t> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(static_cast<uint32_t>(100 + i));
    add("IN", "INT32", numbers);
    add("DELAY", "UINT32", std::vector<uint32_t>(static_cast<size_t>(count), delay_ms));
    add("WAIT", "UINT32", {0});
    return request;
  }
  // A chat request that streams.
  static inference::ModelInferRequest Chat(const std::string& id) {
    inference::ModelInferRequest request = TextRequest("chat", "text_input", {"prompt"}, id);
    auto& stream = *request.add_inputs();
    stream.set_name("stream");
    stream.set_datatype("BOOL");
    stream.add_shape(1);
    request.add_raw_input_contents(std::string(1, '\1'));
    return request;
  }
};

TEST_F(StreamTest, ManyRequestsAreAnsweredInTheirOrder) {
  const auto call = client_->Start(kStream);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(call->Write(Simple(i, std::to_string(i))));
    ModelStreamInferResponse response;
    if (i % 2 == 1) continue;  // two may be on their way
    ASSERT_TRUE(call->Read(&response));
  }
  call->WritesDone();
  ModelStreamInferResponse response;
  int last = 99, count = 0;
  while (call->Read(&response)) {
    EXPECT_EQ(response.error_message(), "");
    EXPECT_TRUE(Final(response));
    const int id = std::stoi(response.infer_response().id());
    EXPECT_EQ(id, ++last);
    const std::string& raw = response.infer_response().raw_output_contents(0);
    EXPECT_EQ(kserve::ElementAt<int32_t>(raw, 0), id + 1);
    ++count;
  }
  EXPECT_EQ(count, 100);
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, ASlowRequestIsOvertakenByNoneOfItsKind) {
  std::vector<std::shared_ptr<kserve::testing::FakeEncoding>> held;
  inference_.on_encode = [&](const std::shared_ptr<kserve::testing::FakeEncoding>& encoding) {
    held.push_back(encoding);
    return OkStatus();
  };
  const auto call = client_->Start(kStream);
  ASSERT_TRUE(call->Write(TextRequest("minilm", "text", {"slow"}, "1")));
  ASSERT_TRUE(call->Write(Simple(0, "2")));
  const auto slow = inference_.Encoding(0);
  ASSERT_NE(slow, nullptr);
  usleep(20'000);
  slow->Answer();
  ModelStreamInferResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "1");
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "2");
}

TEST_F(StreamTest, AFailedRequestLeavesTheStreamToTheOthers) {
  const auto call = client_->Start(kStream);
  inference::ModelInferRequest bad = Simple(0, "bad");
  bad.mutable_raw_input_contents(0)->clear();
  ASSERT_TRUE(call->Write(bad));
  inference::ModelInferRequest unknown = Simple(0, "unknown");
  unknown.set_model_name("nobody");
  ASSERT_TRUE(call->Write(unknown));
  ASSERT_TRUE(call->Write(Simple(4, "good")));
  call->WritesDone();
  ModelStreamInferResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("input byte size mismatch"));
  EXPECT_EQ(response.infer_response().id(), "bad");
  ASSERT_TRUE(call->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("Request for unknown model"));
  EXPECT_EQ(response.infer_response().id(), "unknown");
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "good");
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, AStreamMayAskToEndWithItsFirstError) {
  CallOptions options;
  options.metadata = {{"triton_grpc_error", "true"}};
  const auto call = client_->Start(kStream, options);
  inference::ModelInferRequest unknown = Simple();
  unknown.set_model_name("nobody");
  ASSERT_TRUE(call->Write(unknown));
  ModelStreamInferResponse response;
  EXPECT_FALSE(call->Read(&response));
  const Outcome outcome = call->Finish();
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.message, HasSubstr("Request for unknown model"));
}

TEST_F(StreamTest, ADecoupledModelAnswersAsOftenAsItLikes) {
  const auto call = client_->Start(kStream);
  ASSERT_TRUE(call->Write(Repeat(5, 1, "r")));
  ModelStreamInferResponse response;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.infer_response().id(), "r");
    EXPECT_EQ(kserve::ElementAt<int32_t>(response.infer_response().raw_output_contents(0), 0),
              100 + i);
    EXPECT_FALSE(Final(response));
  }
  inference::ModelInferRequest told = Repeat(2, 0, "t");
  (*told.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  ASSERT_TRUE(call->Write(told));
  ASSERT_TRUE(call->Write(Repeat(0, 0, "nothing")));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(call->Read(&response));
  ASSERT_TRUE(call->Read(&response));
  EXPECT_TRUE(Final(response));
  EXPECT_EQ(response.infer_response().outputs_size(), 0);
  call->WritesDone();
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
  // One response is what a unary call has place for.
  inference::ModelInferResponse one;
  EXPECT_TRUE(Infer(Repeat(1, 0, "u"), &one).ok());
  EXPECT_EQ(one.outputs_size(), 2);
  EXPECT_TRUE(Infer(Repeat(0, 0, "u"), &one).ok());
  EXPECT_EQ(one.outputs_size(), 0);
  const Outcome several = Infer(Repeat(2, 0, "u"));
  EXPECT_EQ(several.code, 3);
  EXPECT_THAT(several.message, HasSubstr("decoupled transaction policy"));
}

TEST_F(StreamTest, RequestsToDecoupledModelsTakeTurns) {
  const auto call = client_->Start(kStream);
  ASSERT_TRUE(call->Write(Repeat(20, 1, "a")));
  ASSERT_TRUE(call->Write(Repeat(20, 1, "b")));
  call->WritesDone();
  ModelStreamInferResponse response;
  std::map<std::string, int> count;
  std::string order;
  while (call->Read(&response)) {
    ++count[response.infer_response().id()];
    order += response.infer_response().id();
  }
  EXPECT_EQ(count["a"], 20);
  EXPECT_EQ(count["b"], 20);
  // Neither response waits for the whole of the other.
  EXPECT_LT(order.find('b'), order.rfind('a'));
}

TEST_F(StreamTest, TextComesAsItIsMade) {
  const auto call = client_->Start(kStream);
  ASSERT_TRUE(call->Write(Chat("c")));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Started();
  generation->Token("Hel");
  generation->Wake();
  ModelStreamInferResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(Text(response), "Hel");
  EXPECT_FALSE(Final(response));
  generation->Token("lo");
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  std::string rest;
  do {
    ASSERT_TRUE(call->Read(&response));
    rest += Text(response);
  } while (!Final(response));
  EXPECT_EQ(rest, "lo");
}

TEST_F(StreamTest, StreamsInterleaveAndCancelledOneLeavesOthers) {
  constexpr int kStreams = 8, kTokens = 50;
  std::vector<std::unique_ptr<TestCall>> calls;
  std::vector<std::shared_ptr<kserve::testing::FakeGeneration>> generations;
  for (int i = 0; i < kStreams; ++i) {
    calls.push_back(client_->Start(kStream));
    ASSERT_TRUE(calls.back()->Write(Chat(std::to_string(i))));
    generations.push_back(inference_.Generation(static_cast<size_t>(i)));
    ASSERT_NE(generations.back(), nullptr);
    generations.back()->Started();
  }
  std::thread writer([&] {  // the engine's part
    for (int t = 0; t < kTokens; ++t) {
      for (int i = 0; i < kStreams; ++i) {
        if (!generations[static_cast<size_t>(i)]->cancelled.load() || i != 3) {
          generations[static_cast<size_t>(i)]->Token(std::to_string(i) + ":" + std::to_string(t) +
                                                     ";");
        }
      }
      generations[0]->Wake();
      usleep(500);
    }
    for (const auto& generation : generations) {
      generation->ChoiceEnd();
      generation->End();
    }
    generations[0]->Wake();
  });
  ModelStreamInferResponse response;
  ASSERT_TRUE(calls[3]->Read(&response));
  calls[3]->Cancel();
  for (int i = 0; i < kStreams; ++i) {
    if (i == 3) continue;
    std::string text, wanted;
    do {
      ASSERT_TRUE(calls[static_cast<size_t>(i)]->Read(&response)) << i;
      EXPECT_EQ(response.error_message(), "");
      text += Text(response);
    } while (!Final(response));
    for (int t = 0; t < kTokens; ++t) wanted += std::to_string(i) + ":" + std::to_string(t) + ";";
    EXPECT_EQ(text, wanted);
  }
  writer.join();
  EXPECT_TRUE(Eventually([&] { return generations[3]->cancelled.load(); }));
}

TEST_F(StreamTest, AClientThatLeavesFreesAllItsRequests) {
  const auto call = client_->Start(kStream);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(call->Write(Chat(std::to_string(i))));
  ASSERT_NE(inference_.Generation(4), nullptr);
  EXPECT_EQ(server_->active_requests(), 1);
  call->Cancel();
  EXPECT_EQ(call->Finish().code, 1);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(Eventually([&] { return inference_.Generation(i)->cancelled.load(); }));
  }
  EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 0; }));
}

TEST_F(StreamTest, AStreamWithTooManyUnansweredRequestsIsNotReadOn) {
  client_.reset();
  server_->Stop();
  GrpcOptions options;
  options.limits.stream_requests = 4;
  options.handlers = 100;
  StartServer(options);
  const auto call = client_->Start(kStream);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(call->Write(Chat(std::to_string(i))));
  ASSERT_NE(inference_.Generation(3), nullptr);
  usleep(50'000);
  EXPECT_EQ(inference_.generations(), 4u);
  inference_.Generation(0)->Answer({"x"});
  EXPECT_NE(inference_.Generation(4), nullptr);
}

TEST_F(StreamTest, ManyThreadsMayHaveStreams) {
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"a", "b"});
    return OkStatus();
  };
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto call = client_->Start(kStream);
      for (int i = 0; i < 20; ++i) {
        const std::string id = std::to_string(t * 100 + i);
        ModelStreamInferResponse response;
        if (!call->Write(i % 2 == 0 ? Chat(id) : Simple(i, id)) || !call->Read(&response)) return;
        if (response.infer_response().id() == id && response.error_message().empty()) ++good;
      }
      call->WritesDone();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 160);
}

}  // namespace
}  // namespace tutti::rpc
