// The unary calls of KServe v2: their responses, and their errors for bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/grpc/testing/server_fixture.h"
#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using testing::CallOptions;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::Outcome;

using testing::kInvalid;
using testing::kNotFound;

constexpr int kDenied = 7, kExhausted = 8, kUnimplemented = 12;

class KserveCallsTest : public testing::ServerTest {
 protected:
  void SetUp() override { StartServer(); }

  static std::vector<int32_t> Numbers(const std::string& raw) {
    std::vector<int32_t> values;
    for (size_t i = 0; i < raw.size() / 4; ++i) {
      values.push_back(kserve::ElementAt<int32_t>(raw, i));
    }
    return values;
  }
  std::string Error(const inference::ModelInferRequest& request, int code = kInvalid) {
    const Outcome outcome = Infer(request);
    EXPECT_EQ(outcome.code, code) << outcome.message;
    EXPECT_FALSE(outcome.details.empty());
    return outcome.message;
  }
};

TEST_F(KserveCallsTest, ServerAndModelsSayWhatTheyAre) {
  inference::ServerLiveResponse live;
  EXPECT_TRUE(
      client_->Unary(testing::kInference + "ServerLive", inference::ServerLiveRequest(), &live)
          .ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(
      client_->Unary(testing::kInference + "ServerReady", inference::ServerReadyRequest(), &ready)
          .ok());
  EXPECT_TRUE(ready.ready());
  inference::ServerMetadataResponse server;
  EXPECT_TRUE(client_
                  ->Unary(testing::kInference + "ServerMetadata",
                          inference::ServerMetadataRequest(), &server)
                  .ok());
  EXPECT_EQ(server.name(), "tutti");
  EXPECT_EQ(server.version(), "1.2.3");
  EXPECT_THAT(server.extensions(), Contains("statistics"));

  inference::ModelReadyRequest which;
  which.set_name("simple");
  inference::ModelReadyResponse model_ready;
  EXPECT_TRUE(client_->Unary(testing::kInference + "ModelReady", which, &model_ready).ok());
  EXPECT_TRUE(model_ready.ready());
  which.set_name("nope");
  EXPECT_TRUE(client_->Unary(testing::kInference + "ModelReady", which, &model_ready).ok());
  EXPECT_FALSE(model_ready.ready());

  inference::ModelMetadataRequest about;
  about.set_name("simple");
  inference::ModelMetadataResponse metadata;
  EXPECT_TRUE(client_->Unary(testing::kInference + "ModelMetadata", about, &metadata).ok());
  EXPECT_EQ(metadata.name(), "simple");
  EXPECT_EQ(metadata.versions(0), "1");
  ASSERT_EQ(metadata.inputs_size(), 2);
  EXPECT_EQ(metadata.inputs(0).datatype(), "INT32");
  EXPECT_EQ(metadata.inputs(0).shape(0), -1);
  EXPECT_EQ(metadata.inputs(0).shape(1), 16);
  about.set_name("wrong_model_name");
  const Outcome unknown = client_->Unary(testing::kInference + "ModelMetadata", about, &metadata);
  EXPECT_EQ(unknown.code, kNotFound);
  EXPECT_EQ(unknown.message, "Request for unknown model: 'wrong_model_name' is not found");
  EXPECT_EQ(unknown.Trailer("tutti-error-code"), "model_not_found");
}

TEST_F(KserveCallsTest, EveryInputOfAConfigurationIsInTheMetadata) {
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(client_
                  ->Unary(testing::kInference + "RepositoryIndex",
                          inference::RepositoryIndexRequest(), &index)
                  .ok());
  ASSERT_EQ(index.models_size(), 12);
  for (const auto& model : index.models()) {
    EXPECT_EQ(model.state(), "READY");
    inference::ModelConfigRequest request;
    request.set_name(model.name());
    inference::ModelConfigResponse response;
    ASSERT_TRUE(client_->Unary(testing::kInference + "ModelConfig", request, &response).ok());
    inference::ModelMetadataRequest about;
    about.set_name(model.name());
    inference::ModelMetadataResponse metadata;
    ASSERT_TRUE(client_->Unary(testing::kInference + "ModelMetadata", about, &metadata).ok());
    EXPECT_EQ(response.config().name(), model.name());
    ASSERT_EQ(response.config().input_size(), metadata.inputs_size());
    for (int i = 0; i < metadata.inputs_size(); ++i) {
      EXPECT_EQ(response.config().input(i).name(), metadata.inputs(i).name());
    }
    EXPECT_EQ(response.config().output_size(), metadata.outputs_size());
  }
  inference::ModelConfigRequest request;
  inference::ModelConfigResponse response;
  request.set_name("repeat_int32");
  ASSERT_TRUE(client_->Unary(testing::kInference + "ModelConfig", request, &response).ok());
  EXPECT_TRUE(response.config().model_transaction_policy().decoupled());
  request.set_name("simple_sequence");
  ASSERT_TRUE(client_->Unary(testing::kInference + "ModelConfig", request, &response).ok());
  EXPECT_EQ(response.config().sequence_batching().max_sequence_idle_microseconds(), 60'000'000u);
  request.set_name("simple_dyna_sequence");
  ASSERT_TRUE(client_->Unary(testing::kInference + "ModelConfig", request, &response).ok());
  EXPECT_EQ(response.config().sequence_batching().oldest().max_candidate_sequences(), 1024);
  request.set_name("minilm");
  ASSERT_TRUE(client_->Unary(testing::kInference + "ModelConfig", request, &response).ok());
  EXPECT_EQ(response.config().max_batch_size(), 0);
  EXPECT_EQ(response.config().dynamic_batching().max_queue_delay_microseconds(), 2500u)
      << "what the operator chose, not what is chosen unless they do";
}

TEST_F(KserveCallsTest, RawAndTypedContentsAreTheSame) {
  inference::ModelInferResponse raw, typed;
  inference::ModelInferRequest request = Simple(5, "my-id");
  ASSERT_TRUE(Infer(request, &raw).ok());
  EXPECT_EQ(raw.id(), "my-id");
  EXPECT_EQ(raw.model_name(), "simple");
  EXPECT_EQ(raw.model_version(), "1");
  ASSERT_EQ(raw.raw_output_contents_size(), 2);
  EXPECT_EQ(Numbers(raw.raw_output_contents(0)).at(15), 21);
  EXPECT_EQ(Numbers(raw.raw_output_contents(1)).at(0), 4);
  for (int i = 0; i < 2; ++i) {
    for (const int32_t value : Numbers(request.raw_input_contents(i))) {
      request.mutable_inputs(i)->mutable_contents()->add_int_contents(value);
    }
  }
  request.clear_raw_input_contents();
  ASSERT_TRUE(Infer(request, &typed).ok());
  EXPECT_EQ(raw.SerializeAsString(), typed.SerializeAsString());
}

TEST_F(KserveCallsTest, EachTypeHasItsContents) {
  inference::ModelInferRequest request;
  request.set_model_name("simple_int8");
  for (const char* const name : {"INPUT0", "INPUT1"}) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype("INT8");
    input.add_shape(1);
    input.add_shape(16);
    for (int i = 0; i < 16; ++i) input.mutable_contents()->add_int_contents(i - 8);
  }
  inference::ModelInferResponse response;
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(static_cast<int8_t>(response.raw_output_contents(0)[0]), -16);
  request.mutable_inputs(0)->mutable_contents()->set_int_contents(3, 128);
  EXPECT_THAT(Error(request), HasSubstr("does not fit 'INT8'"));

  inference::ModelInferRequest text;
  text.set_model_name("simple_identity");
  auto& input = *text.add_inputs();
  input.set_name("INPUT0");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.add_shape(2);
  input.mutable_contents()->add_bytes_contents("a");
  input.mutable_contents()->add_bytes_contents("");
  ASSERT_TRUE(Infer(text, &response).ok());
  EXPECT_EQ(response.raw_output_contents(0).size(), 9u);
}

TEST_F(KserveCallsTest, DataThatIsNotWhatItSaysIsRefused) {
  inference::ModelInferRequest request = Simple();
  request.mutable_raw_input_contents(0)->resize(63);
  EXPECT_EQ(Error(request),
            "input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 64, got 63");
  request = Simple();
  request.mutable_inputs(1)->mutable_contents()->add_int_contents(1);
  EXPECT_THAT(Error(request), HasSubstr("contents field must not be specified when using raw"));
  request = Simple();
  request.mutable_raw_input_contents()->RemoveLast();
  EXPECT_THAT(Error(request), HasSubstr("unable to find data for input tensor 'INPUT1'"));
  request = Simple();
  request.add_raw_input_contents("more");
  EXPECT_THAT(Error(request), HasSubstr("expected 2 raw_input_contents"));
  request = Simple();
  request.clear_raw_input_contents();
  EXPECT_THAT(Error(request), HasSubstr("unable to find data"));
  for (int i = 0; i < 2; ++i) {
    request.mutable_inputs(i)->mutable_contents()->add_int64_contents(1);
  }
  EXPECT_THAT(Error(request), HasSubstr("of type 'INT64', expected datatype 'INT32'"));
  request = Simple();
  request.mutable_inputs(0)->set_datatype("FP32");
  EXPECT_THAT(Error(request), HasSubstr("data-type is 'FP32', but model 'simple' expects 'INT32'"));
  request.mutable_inputs(0)->set_datatype(std::string(100'000, 'x'));
  EXPECT_THAT(Error(request), HasSubstr("data-type is 'INVALID'"));
  request = Simple();
  request.mutable_inputs(0)->set_shape(0, int64_t{1} << 62);
  EXPECT_THAT(Error(request), HasSubstr("batch size does not match"));
  request = Simple();
  for (int i = 0; i < 10'000; ++i) request.mutable_inputs(0)->add_shape(1);
  EXPECT_THAT(Error(request), HasSubstr("10002 dimensions"));
  request = Simple();
  for (int i = 0; i < 100'000; ++i) request.add_outputs()->set_name("OUTPUT0");
  EXPECT_THAT(Error(request), HasSubstr("100000"));
  request = TextRequest("minilm", "text", {"abc"});
  request.mutable_raw_input_contents(0)->at(1) = '\x7f';
  EXPECT_THAT(Error(request), HasSubstr("expecting string of length"));
  EXPECT_THAT(Error(TextRequest("minilm", "text", {})), HasSubstr("1 to 2048 texts"));
  EXPECT_THAT(Error(TextRequest("minilm", "text", std::vector<std::string>(2049, "a"))),
              HasSubstr("not 2049"));
  request = Simple();
  request.set_model_name("");
  EXPECT_EQ(Error(request, kNotFound), "Request for unknown model: '' is not found");
  request.set_model_name(std::string(10'000, 'm'));
  EXPECT_LT(Error(request, kNotFound).size(), 200u);
  request = Simple();
  request.set_model_version("wrong_specification");
  EXPECT_THAT(Error(request), HasSubstr("failed to get model version from specified version "
                                        "string 'wrong_specification'"));
  EXPECT_EQ(Infer(Simple()).code, 0);
}

TEST_F(KserveCallsTest, MessagesThatAreNoneOfTheMethodAreRefused) {
  inference::ModelInferResponse response;
  for (const std::string& bytes : {std::string("\xff\xff\xff"), std::string(1000, '\x0b'),
                                   std::string("\x0a\xff\xff\xff\xff\x0f")}) {
    const Outcome outcome =
        client_->UnaryBytes(testing::kInference + "ModelInfer", bytes, &response);
    EXPECT_EQ(outcome.code, kInvalid) << outcome.message;
  }
  // No message at all.
  const auto call = client_->Start(testing::kInference + "ModelInfer");
  call->WritesDone();
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(call->Finish().code, kInvalid);
}

TEST_F(KserveCallsTest, WhatIsNotOfferedSaysSo) {
  inference::SystemSharedMemoryUnregisterRequest all;
  inference::SystemSharedMemoryUnregisterResponse none;
  EXPECT_TRUE(
      client_->Unary(testing::kInference + "SystemSharedMemoryUnregister", all, &none).ok());
  inference::CudaSharedMemoryUnregisterRequest cuda;
  inference::CudaSharedMemoryUnregisterResponse no_cuda;
  EXPECT_TRUE(
      client_->Unary(testing::kInference + "CudaSharedMemoryUnregister", cuda, &no_cuda).ok());
  all.set_name("region");
  EXPECT_EQ(client_->Unary(testing::kInference + "SystemSharedMemoryUnregister", all, &none).code,
            kUnimplemented);
  for (const char* const method :
       {"SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "CudaSharedMemoryStatus",
        "CudaSharedMemoryRegister", "TraceSetting", "LogSettings", "NoSuchMethod"}) {
    const Outcome outcome = client_->UnaryBytes(testing::kInference + method, "", nullptr);
    EXPECT_EQ(outcome.code, kUnimplemented) << method;
  }
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("simple");
  inference::RepositoryModelLoadResponse loaded;
  const Outcome refused =
      client_->Unary(testing::kInference + "RepositoryModelLoad", load, &loaded);
  EXPECT_EQ(refused.code, kDenied);
  EXPECT_THAT(refused.message, HasSubstr("failed to load"));
  inference::ModelInferRequest request = Simple();
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  EXPECT_THAT(Error(request), HasSubstr("shared_memory_region is not offered"));
  request = Simple();
  request.add_outputs()->set_name("OUTPUT0");
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  EXPECT_THAT(Error(request), HasSubstr("classification is not offered"));
}

TEST_F(KserveCallsTest, ParametersOfTheWrongKindAreRefused) {
  inference::ModelInferRequest request = Simple();
  (*request.mutable_parameters())["sequence_start"].set_int64_param(1);
  EXPECT_THAT(Error(request), HasSubstr("'sequence_start' parameter, expected bool_param"));
  request = Simple();
  (*request.mutable_parameters())["anything"];
  EXPECT_THAT(Error(request), HasSubstr("invalid value type for 'anything'"));
  request = Simple();
  (*request.mutable_parameters())["triton_x"].set_bool_param(true);
  EXPECT_THAT(Error(request), HasSubstr("reserved"));
  request = Simple();
  for (int i = 0; i < 1000; ++i) {
    (*request.mutable_parameters())["p" + std::to_string(i)].set_bool_param(true);
  }
  EXPECT_THAT(Error(request), HasSubstr("at most 64 parameters"));
}

TEST_F(KserveCallsTest, CompressedMessagesAreReadWithinTheirBound) {
  for (const char* const coding : {"gzip", "deflate"}) {
    CallOptions options;
    options.compression = coding;
    inference::ModelInferResponse response;
    inference::ModelInferRequest request =
        TextRequest("simple_identity", "INPUT0", {std::string(100'000, 'a')});
    request.mutable_inputs(0)->clear_shape();
    request.mutable_inputs(0)->add_shape(1);
    request.mutable_inputs(0)->add_shape(1);
    const Outcome outcome = Infer(request, &response, options);
    EXPECT_TRUE(outcome.ok()) << coding << " " << outcome.message;
    EXPECT_EQ(response.raw_output_contents(0), request.raw_input_contents(0));
    // 8 MiB and more of one letter are a few kilobytes on the wire.
    std::string bomb;
    kserve::AppendBytesElement(std::string(9 << 20, 'a'), &bomb);
    *request.mutable_raw_input_contents(0) = bomb;
    const Outcome refused = Infer(request, &response, options);
    EXPECT_EQ(refused.code, kExhausted) << refused.message;
    EXPECT_EQ(refused.Trailer("tutti-error-code"), "request_too_large");
  }
}

TEST_F(KserveCallsTest, AMessageIsEightMebibytesAtMost) {
  inference::ModelInferRequest request = TextRequest("simple_identity", "INPUT0", {""});
  request.mutable_inputs(0)->clear_shape();
  request.mutable_inputs(0)->add_shape(1);
  request.mutable_inputs(0)->add_shape(1);
  std::string raw;
  kserve::AppendBytesElement(std::string((8 << 20) - 200, 'a'), &raw);
  *request.mutable_raw_input_contents(0) = raw;
  inference::ModelInferResponse response;
  EXPECT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(response.raw_output_contents(0).size(), raw.size());
  raw.clear();
  kserve::AppendBytesElement(std::string(8 << 20, 'a'), &raw);
  *request.mutable_raw_input_contents(0) = raw;
  EXPECT_EQ(Infer(request, &response).code, kExhausted);
  EXPECT_TRUE(Infer(Simple()).ok());
}

TEST_F(KserveCallsTest, AModelOfTextsIsAskedThroughTensors) {
  inference::ModelInferResponse response;
  ASSERT_TRUE(Infer(TextRequest("minilm", "text", {"one", "two"}, "7"), &response).ok());
  EXPECT_EQ(response.id(), "7");
  EXPECT_EQ(response.outputs(0).name(), "embedding");
  EXPECT_EQ(response.outputs(0).shape(0), 2);
  EXPECT_EQ(response.outputs(0).shape(1), 4);
  EXPECT_EQ(kserve::ElementAt<float>(response.raw_output_contents(0), 4), 3.0f);
  inference::ModelStatisticsRequest which;
  which.set_name("minilm");
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(client_->Unary(testing::kInference + "ModelStatistics", which, &statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  EXPECT_EQ(statistics.model_stats(0).inference_stats().success().count(), 1u);
}

TEST_F(KserveCallsTest, StatisticsOfTheTestModelsAreExact) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Infer(Simple()).ok());
  inference::ModelInferRequest bad = Simple();
  bad.mutable_raw_input_contents(0)->clear();
  EXPECT_FALSE(Infer(bad).ok());
  inference::ModelStatisticsRequest which;
  which.set_name("simple");
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(client_->Unary(testing::kInference + "ModelStatistics", which, &statistics).ok());
  const auto& model = statistics.model_stats(0);
  EXPECT_EQ(model.inference_count(), 3u);
  EXPECT_EQ(model.execution_count(), 3u);
  EXPECT_EQ(model.inference_stats().success().count(), 3u);
  EXPECT_EQ(model.inference_stats().fail().count(), 1u);
  ASSERT_EQ(model.batch_stats_size(), 1);
  EXPECT_EQ(model.batch_stats(0).batch_size(), 1u);
  EXPECT_EQ(model.batch_stats(0).compute_infer().count(), 3u);
}

}  // namespace
}  // namespace tutti::rpc
