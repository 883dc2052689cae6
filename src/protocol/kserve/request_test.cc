#include "protocol/kserve/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

namespace tutti::kserve {
namespace {

using ::testing::HasSubstr;

ModelConfig Simple() {
  ModelConfig config;
  config.name = "simple";
  config.max_batch_size = 8;
  config.inputs = {{"INPUT0", DataType::kInt32, {16}}, {"INPUT1", DataType::kInt32, {16}}};
  config.outputs = {{"OUTPUT0", DataType::kInt32, {16}}, {"OUTPUT1", DataType::kInt32, {16}}};
  return config;
}

ModelConfig Texts() {
  ModelConfig config;
  config.name = "texts";
  config.inputs = {{"text", DataType::kBytes, {-1}},
                   {"text", DataType::kBytes, {-1, 1}, false, true},
                   {"flag", DataType::kBool, {1}, true}};
  config.outputs = {{"out", DataType::kFp32, {-1}}};
  return config;
}

InferRequest Good(int64_t batch = 1) {
  InferRequest request;
  for (const char* const name : {"INPUT0", "INPUT1"}) {
    request.inputs.push_back(
        {name, DataType::kInt32, {batch, 16}, std::string(static_cast<size_t>(batch) * 64, '\0')});
  }
  return request;
}

InferRequest OneText(Shape shape, std::string data) {
  InferRequest request;
  request.inputs.push_back({"text", DataType::kBytes, std::move(shape), std::move(data)});
  return request;
}

std::string ErrorOf(const ModelConfig& config, const InferRequest& request) {
  const Status status = CheckRequest(config, request);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_LT(status.message().size(), 600u);
  return status.message();
}

TEST(RequestTest, ARequestThatFitsIsTaken) {
  EXPECT_EQ(ErrorOf(Simple(), Good()), "");
  EXPECT_EQ(ErrorOf(Simple(), Good(8)), "");
  InferRequest wanted = Good();
  wanted.outputs = {"OUTPUT1"};
  EXPECT_EQ(ErrorOf(Simple(), wanted), "");
  EXPECT_EQ(BatchOf(Simple(), Good(5)), 5);
}

TEST(RequestTest, BatchesAreHeldToTheModels) {
  EXPECT_EQ(ErrorOf(Simple(), Good(9)), "inference request batch-size must be <= 8 for 'simple'");
  EXPECT_THAT(ErrorOf(Simple(), Good(0)), HasSubstr("batch-size must be >= 1"));
  InferRequest uneven = Good(2);
  uneven.inputs[1].shape[0] = 1;
  EXPECT_THAT(ErrorOf(Simple(), uneven), HasSubstr("batch size does not match other inputs"));
  InferRequest shapeless = Good();
  shapeless.inputs[0].shape.clear();
  EXPECT_THAT(ErrorOf(Simple(), shapeless), HasSubstr("has no shape but model requires batch"));
  InferRequest negative = Good();
  for (Tensor& input : negative.inputs) input.shape[0] = -1;
  EXPECT_THAT(ErrorOf(Simple(), negative), HasSubstr("batch-size must be >= 1"));
}

TEST(RequestTest, ShapesTypesAndAmountsOfBytesAreTold) {
  InferRequest shape = Good();
  shape.inputs[0].shape = {1, 8};
  EXPECT_EQ(ErrorOf(Simple(), shape),
            "unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got [1,8]");
  shape.inputs[0].shape = {1, 16, 1};
  EXPECT_THAT(ErrorOf(Simple(), shape), HasSubstr("unexpected shape for input"));
  shape.inputs[0].shape.assign(10'000, 1);
  EXPECT_THAT(ErrorOf(Simple(), shape), HasSubstr("10000 dimensions"));
  InferRequest type = Good();
  type.inputs[1].type = DataType::kFp32;
  EXPECT_EQ(ErrorOf(Simple(), type),
            "inference input 'INPUT1' data-type is 'FP32', but model 'simple' expects 'INT32'");
  type.inputs[1].type = DataType::kInvalid;
  EXPECT_THAT(ErrorOf(Simple(), type), HasSubstr("data-type is 'INVALID'"));
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{65}, size_t{128}}) {
    InferRequest amount = Good();
    amount.inputs[0].data.resize(bytes);
    EXPECT_EQ(ErrorOf(Simple(), amount),
              "input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 64, got " +
                  std::to_string(bytes));
  }
}

TEST(RequestTest, ShapesWhoseProductWrapsAreNoShapes) {
  ModelConfig config = Texts();
  config.inputs[0].dims = {-1, -1};
  EXPECT_THAT(ErrorOf(config, OneText({int64_t{1} << 62, 4}, "")), HasSubstr("unexpected shape"));
  config.inputs[0].type = DataType::kInt64;
  InferRequest request = OneText({std::numeric_limits<int64_t>::max(), 1}, "");
  request.inputs[0].type = DataType::kInt64;
  EXPECT_THAT(ErrorOf(config, request), HasSubstr("Expected more than 2^64, got 0"));
  EXPECT_THAT(ErrorOf(config, OneText({-5, 1}, "")), HasSubstr("unexpected shape"));
}

TEST(RequestTest, InputsAreThoseOfTheModel) {
  InferRequest unknown = Good();
  unknown.inputs[1].name = std::string(10'000, 'x');
  EXPECT_THAT(ErrorOf(Simple(), unknown), HasSubstr("unexpected inference input 'xxx"));
  InferRequest missing = Good();
  missing.inputs.pop_back();
  EXPECT_EQ(ErrorOf(Simple(), missing),
            "expected 2 inputs but got 1 inputs for model 'simple'. Got input(s) ['INPUT0'], but "
            "missing required input(s) ['INPUT1']. Please provide all required input(s).");
  InferRequest twice = Good();
  twice.inputs[1].name = "INPUT0";
  EXPECT_THAT(ErrorOf(Simple(), twice), HasSubstr("'INPUT0' already exists in request"));
  InferRequest many = Good();
  for (int i = 0; i < 1000; ++i) many.inputs.push_back(many.inputs[0]);
  EXPECT_THAT(ErrorOf(Simple(), many), HasSubstr("but got 1002 inputs"));
  EXPECT_THAT(ErrorOf(Texts(), InferRequest()), HasSubstr("between 1 and 2 but got 0 inputs"));
}

TEST(RequestTest, OutputsAreThoseOfTheModel) {
  InferRequest unknown = Good();
  unknown.outputs = {"OUTPUT0", "OUTPUT7"};
  EXPECT_THAT(ErrorOf(Simple(), unknown), HasSubstr("unexpected inference output 'OUTPUT7'"));
  unknown.outputs = {"OUTPUT0", "OUTPUT0"};
  EXPECT_THAT(ErrorOf(Simple(), unknown), HasSubstr("already exists in request"));
  unknown.outputs.assign(100'000, "OUTPUT0");
  EXPECT_THAT(ErrorOf(Simple(), unknown), HasSubstr("100000"));
}

TEST(RequestTest, TheLengthsInABytesTensorAreChecked) {
  std::string two;
  AppendBytesElement("a", &two);
  AppendBytesElement("bb", &two);
  EXPECT_EQ(ErrorOf(Texts(), OneText({2}, two)), "");
  EXPECT_EQ(ErrorOf(Texts(), OneText({2, 1}, two)), "");
  EXPECT_EQ(ErrorOf(Texts(), OneText({0}, "")), "");
  EXPECT_THAT(ErrorOf(Texts(), OneText({1}, two)),
              HasSubstr("unexpected number of string elements 2"));
  EXPECT_THAT(ErrorOf(Texts(), OneText({3}, two)), HasSubstr("expected 3 string elements"));
  EXPECT_THAT(ErrorOf(Texts(), OneText({1}, "\x01\x00")),
              HasSubstr("incomplete string length indicator"));
  EXPECT_THAT(ErrorOf(Texts(), OneText({1},
                                       "\xff\xff\xff\xff"
                                       "x")),
              HasSubstr("expecting string of length 4294967295 but only 1 bytes"));
}

TEST(RequestTest, IdsAndParametersAreBounded) {
  InferRequest request = Good();
  request.id = std::string(kMaxIdBytes + 1, 'i');
  EXPECT_THAT(ErrorOf(Simple(), request), HasSubstr("at most 1024 bytes"));
  InferRequest many;
  Status status;
  for (size_t i = 0; i <= kMaxParameters && status.ok(); ++i) {
    status = ReadParameter("p" + std::to_string(i), int64_t{1}, TimePoint(), &many);
  }
  EXPECT_THAT(status.message(), HasSubstr("at most 64 parameters"));
  EXPECT_FALSE(ReadParameter("sequence_id", std::string(5000, 's'), TimePoint(), &many).ok());
}

TEST(RequestTest, ReservedParametersAreRead) {
  InferRequest request;
  const TimePoint now(std::chrono::seconds(5));
  const auto read = [&](const char* name, ParameterValue value) {
    return ReadParameter(name, std::move(value), now, &request);
  };
  EXPECT_TRUE(read("sequence_id", int64_t{42}).ok());
  EXPECT_EQ(std::get<uint64_t>(request.sequence_id), 42u);
  EXPECT_TRUE(read("sequence_id", std::string("abc")).ok());
  EXPECT_EQ(std::get<std::string>(request.sequence_id), "abc");
  EXPECT_TRUE(read("sequence_start", true).ok());
  EXPECT_TRUE(read("sequence_end", true).ok());
  EXPECT_TRUE(request.sequence_start && request.sequence_end);
  EXPECT_TRUE(read("priority", uint64_t{2}).ok());
  EXPECT_EQ(request.priority, api::Priority::kFlex);
  EXPECT_TRUE(read("priority", uint64_t{9}).ok());
  EXPECT_EQ(request.priority, api::Priority::kBatch);
  EXPECT_TRUE(read("timeout", int64_t{1'500'700}).ok());
  EXPECT_EQ(request.deadline, now + std::chrono::microseconds(1'500'700));
  EXPECT_TRUE(read("timeout", int64_t{0}).ok());
  EXPECT_TRUE(read("timeout", std::numeric_limits<int64_t>::max()).ok());
  EXPECT_EQ(request.deadline, now + std::chrono::microseconds(1'500'700));
  EXPECT_TRUE(read("triton_enable_empty_final_response", true).ok());
  EXPECT_TRUE(request.empty_final_response);
  EXPECT_TRUE(request.parameters.empty());
  EXPECT_TRUE(read("temperature", 0.5).ok());
  ASSERT_EQ(request.parameters.size(), 1u);

  EXPECT_FALSE(read("sequence_id", true).ok());
  EXPECT_FALSE(read("sequence_start", int64_t{1}).ok());
  EXPECT_FALSE(read("priority", int64_t{-1}).ok());
  EXPECT_FALSE(read("timeout", std::string("5")).ok());
  EXPECT_FALSE(read("timeout", int64_t{-1}).ok());
  EXPECT_FALSE(read("triton_other", true).ok());
  // These parameters belong to HTTP, whose server removes them; other protocols do not have them.
  EXPECT_TRUE(read("binary_data_output", true).ok());
  EXPECT_TRUE(read("headers", std::string("x")).ok());
  EXPECT_EQ(request.parameters.size(), 3u);
}

TEST(RequestTest, VersionsAreOne) {
  EXPECT_TRUE(CheckVersion("m", "").ok());
  EXPECT_TRUE(CheckVersion("m", "1").ok());
  EXPECT_THAT(CheckVersion("m", "wrong").message(),
              HasSubstr("failed to get model version from specified version string 'wrong'"));
  EXPECT_THAT(CheckVersion("m", "1x").message(), HasSubstr("failed to get model version"));
  EXPECT_EQ(CheckVersion("m", "-1").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckVersion("m", "2").code(), StatusCode::kNotFound);
  EXPECT_EQ(CheckVersion("m", "99999999999999999999").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(UnknownModel("x").message(), "Request for unknown model: 'x' is not found");
}

}  // namespace
}  // namespace tutti::kserve
