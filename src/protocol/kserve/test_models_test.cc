#include "protocol/kserve/test_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "protocol/kserve/repository.h"
#include "protocol/kserve/request.h"
#include "protocol/kserve/testing/fake_models.h"

namespace tutti::kserve {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
Tensor Numbers(const char* name, DataType type, Shape shape, const std::vector<T>& values) {
  Tensor tensor{name, type, std::move(shape), {}};
  for (const T value : values) AppendElement(value, &tensor.data);
  return tensor;
}

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  std::vector<T> values;
  for (size_t i = 0; i < tensor.data.size() / sizeof(T); ++i) {
    values.push_back(ElementAt<T>(tensor.data, i));
  }
  return values;
}

class TestModelsTest : public ::testing::Test {
 protected:
  TestModelsTest()
      : repository_({.server_name = "tutti", .server_version = "1", .test_models = true},
                    {&inference_, &inference_, &clock_}) {}

  Result<InferResponse> Ask(InferRequest request) {
    ASSIGN_OR_RETURN(const auto execution, repository_.Infer(std::move(request), nullptr));
    ASSIGN_OR_RETURN(std::optional<InferResponse> response, execution->Next());
    EXPECT_TRUE(response.has_value() && response->final);
    return *std::move(response);
  }

  InferRequest AddSub(const char* model, std::vector<int32_t> a, std::vector<int32_t> b) {
    InferRequest request;
    request.model = model;
    const auto batch = static_cast<int64_t>(a.size() / 16);
    request.inputs.push_back(Numbers("INPUT0", DataType::kInt32, {batch, 16}, a));
    request.inputs.push_back(Numbers("INPUT1", DataType::kInt32, {batch, 16}, b));
    return request;
  }

  // One number of a sequence.
  Result<int32_t> Step(const char* model, CorrelationId id, int32_t value, bool start = false,
                       bool end = false) {
    InferRequest request;
    request.model = model;
    request.inputs.push_back(Numbers<int32_t>("INPUT", DataType::kInt32, {1, 1}, {value}));
    request.sequence_id = std::move(id);
    request.sequence_start = start;
    request.sequence_end = end;
    ASSIGN_OR_RETURN(const InferResponse response, Ask(std::move(request)));
    return ElementAt<int32_t>(response.outputs.at(0).data, 0);
  }

  ManualClock clock_;
  testing::FakeInference inference_{testing::FakeModels()};
  Repository repository_;
};

TEST_F(TestModelsTest, SumsAndDifferencesWrap) {
  std::vector<int32_t> a(32), b(32, 1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int32_t>(i);
  a[7] = std::numeric_limits<int32_t>::max();
  a[9] = std::numeric_limits<int32_t>::min();
  Result<InferResponse> response = Ask(AddSub("simple", a, b));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->outputs.size(), 2u);
  const auto sums = Values<int32_t>(response->outputs[0]);
  const auto differences = Values<int32_t>(response->outputs[1]);
  EXPECT_EQ(response->outputs[0].shape, (Shape{2, 16}));
  EXPECT_EQ(sums[31], 32);
  EXPECT_EQ(differences[31], 30);
  EXPECT_EQ(sums[7], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(differences[9], std::numeric_limits<int32_t>::max());
  EXPECT_EQ(response->spent.items, 2u);
}

TEST_F(TestModelsTest, OnlyTheOutputsThatAreWantedComeInTheirOrder) {
  InferRequest request = AddSub("simple", std::vector<int32_t>(16, 3), std::vector<int32_t>(16, 1));
  request.outputs = {"OUTPUT1", "OUTPUT0"};
  Result<InferResponse> response = Ask(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->outputs[0].name, "OUTPUT1");
  EXPECT_EQ(Values<int32_t>(response->outputs[0])[0], 2);
  request.outputs = {"OUTPUT0"};
  response = Ask(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->outputs.size(), 1u);
}

TEST_F(TestModelsTest, SmallIntegersAndTextsAreAddedToo) {
  InferRequest small;
  small.model = "simple_int8";
  small.inputs.push_back(Numbers("INPUT0", DataType::kInt8, {1, 16}, std::vector<int8_t>(16, 127)));
  small.inputs.push_back(Numbers("INPUT1", DataType::kInt8, {1, 16}, std::vector<int8_t>(16, 1)));
  Result<InferResponse> response = Ask(small);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(Values<int8_t>(response->outputs[0])[3], -128);

  const auto texts = [](const char* name, const char* text) {
    Tensor tensor{name, DataType::kBytes, {1, 16}, {}};
    for (int i = 0; i < 16; ++i) AppendBytesElement(text, &tensor.data);
    return tensor;
  };
  InferRequest text;
  text.model = "simple_string";
  text.inputs = {texts("INPUT0", "2147483647"), texts("INPUT1", "-5")};
  response = Ask(text);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(SplitBytes(response->outputs[0].data, 16)->at(15), "2147483642");
  EXPECT_EQ(SplitBytes(response->outputs[1].data, 16)->at(0), "2147483652");
  for (const char* const no : {"", "x", "1 ", "4294967296", "1e3"}) {
    text.inputs[0] = texts("INPUT0", no);
    EXPECT_EQ(Ask(text).status().code(), StatusCode::kInvalidArgument) << no;
  }
}

TEST_F(TestModelsTest, IdentityGivesBackEveryByte) {
  InferRequest request;
  request.model = "simple_identity";
  Tensor tensor{"INPUT0", DataType::kBytes, {2, 2}, {}};
  for (const char* const text : {"a", "", "\xff\xfe", "long enough to be no small string at all"})
    AppendBytesElement(text, &tensor.data);
  request.inputs = {tensor};
  const Result<InferResponse> response = Ask(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->outputs[0].data, tensor.data);
  EXPECT_EQ(response->outputs[0].shape, tensor.shape);
  EXPECT_EQ(response->outputs[0].name, "OUTPUT0");
}

// The flows of the published examples simple_grpc_sequence_*: 0 or 100 first, then seven values.
TEST_F(TestModelsTest, SequencesGiveWhatTheExampleClientsExpect) {
  const std::vector<int32_t> values = {11, 7, 5, 3, 2, 0, 1};
  const auto run = [&](const char* model, const CorrelationId& id, int32_t first, int32_t sign) {
    std::vector<int32_t> out = {*Step(model, id, first, true)};
    for (size_t i = 0; i < values.size(); ++i) {
      out.push_back(*Step(model, id, sign * values[i], false, i + 1 == values.size()));
    }
    return out;
  };
  EXPECT_THAT(run("simple_sequence", uint64_t{1000}, 0, 1), ElementsAre(1, 11, 7, 5, 3, 2, 0, 1));
  EXPECT_THAT(run("simple_sequence", std::string("a-b-c"), 20, -1),
              ElementsAre(21, -11, -7, -5, -3, -2, 0, -1));
  EXPECT_THAT(run("simple_dyna_sequence", uint64_t{1001}, 100, -1),
              ElementsAre(101, -11, -7, -5, -3, -2, 0, -1 + 1001));
  EXPECT_THAT(run("simple_string_dyna_sequence", std::string("1002"), 20, -1),
              ElementsAre(20, 9, 2, -3, -6, -8, -8, -9 + 1002));
}

TEST_F(TestModelsTest, ASequenceBeginsWithItsStartAndEndsWithItsEnd) {
  EXPECT_THAT(Step("simple_sequence", uint64_t{0}, 1, true).status().message(),
              HasSubstr("must specify a non-zero or non-empty correlation ID"));
  EXPECT_THAT(Step("simple_sequence", uint64_t{5}, 1).status().message(),
              HasSubstr("must specify the START flag"));
  EXPECT_TRUE(Step("simple_sequence", uint64_t{5}, 1, true).ok());
  EXPECT_TRUE(Step("simple_sequence", uint64_t{5}, 1, false, true).ok());
  EXPECT_FALSE(Step("simple_sequence", uint64_t{5}, 1).ok());
  // Another model's sequence of that id, and a text that looks the same, are others.
  EXPECT_TRUE(Step("simple_sequence", std::string("5"), 1, true).ok());
  EXPECT_FALSE(Step("simple_dyna_sequence", uint64_t{5}, 1).ok());
}

TEST_F(TestModelsTest, SequencesThatNobodyEndsAreForgotten) {
  EXPECT_TRUE(Step("simple_sequence", uint64_t{1}, 1, true).ok());
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_FALSE(Step("simple_sequence", uint64_t{1}, 1).ok());
  for (uint64_t id = 1; id <= 3000; ++id) {
    clock_.Advance(milliseconds(1));
    ASSERT_TRUE(Step("simple_sequence", id, 1, true).ok());
  }
  EXPECT_FALSE(Step("simple_sequence", uint64_t{1}, 1).ok());  // room was made for 3000 of 1024
  EXPECT_TRUE(Step("simple_sequence", uint64_t{3000}, 1).ok());
}

class RepeatTest : public TestModelsTest {
 protected:
  static InferRequest Repeat(std::vector<int32_t> in, std::vector<uint32_t> delay, uint32_t wait) {
    InferRequest request;
    request.model = "repeat_int32";
    const auto n = static_cast<int64_t>(in.size()), d = static_cast<int64_t>(delay.size());
    request.inputs.push_back(Numbers("IN", DataType::kInt32, {n}, in));
    request.inputs.push_back(Numbers("DELAY", DataType::kUint32, {d}, delay));
    request.inputs.push_back(Numbers<uint32_t>("WAIT", DataType::kUint32, {1}, {wait}));
    return request;
  }
};

TEST_F(RepeatTest, ResponsesComeWhenTheyAreDue) {
  auto execution = repository_.Infer(Repeat({7, 9}, {100, 50}, 30), nullptr);
  ASSERT_TRUE(execution.ok());
  EXPECT_EQ((*execution)->due(), clock_.Now() + milliseconds(100));
  EXPECT_FALSE((*execution)->Next()->has_value());
  clock_.Advance(milliseconds(100));
  Result<std::optional<InferResponse>> first = (*execution)->Next();
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ(Values<int32_t>((*first)->outputs[0]).at(0), 7);
  EXPECT_EQ(Values<uint32_t>((*first)->outputs[1]).at(0), 0u);
  EXPECT_FALSE((*first)->final);
  EXPECT_FALSE((*execution)->Next()->has_value());
  clock_.Advance(milliseconds(50));
  EXPECT_EQ(Values<uint32_t>((**(*execution)->Next()).outputs[1]).at(0), 1u);
  clock_.Advance(milliseconds(30));
  Result<std::optional<InferResponse>> end = (*execution)->Next();
  ASSERT_TRUE(end.ok() && end->has_value());
  EXPECT_TRUE((*end)->final && (*end)->empty);
}

TEST_F(RepeatTest, NothingInGivesAnEndOnly) {
  auto execution = repository_.Infer(Repeat({}, {}, 0), nullptr);
  ASSERT_TRUE(execution.ok());
  EXPECT_TRUE((**(*execution)->Next()).empty);
}

TEST_F(RepeatTest, ItsShapesMatchAndItsDeadlineEndsIt) {
  EXPECT_THAT(repository_.Infer(Repeat({1, 2}, {1}, 0), nullptr).status().message(),
              HasSubstr("expected IN and DELAY shape to match, got [2] and [1]"));
  InferRequest late = Repeat({1}, {4'000'000'000}, 0);
  late.deadline = clock_.Now() + milliseconds(10);
  auto execution = repository_.Infer(std::move(late), nullptr);
  ASSERT_TRUE(execution.ok());
  EXPECT_EQ((*execution)->due(), clock_.Now() + milliseconds(10));
  clock_.Advance(milliseconds(10));
  EXPECT_EQ((*execution)->Next().status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace tutti::kserve
