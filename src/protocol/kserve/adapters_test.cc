#include "protocol/kserve/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "api/validate.h"
#include "protocol/kserve/repository.h"
#include "protocol/kserve/request.h"
#include "protocol/kserve/testing/fake_models.h"

namespace tutti::kserve {
namespace {

using ::testing::ElementsAre;
using testing::FakeEncoding;
using ::testing::HasSubstr;

Tensor Texts(const char* name, const std::vector<std::string>& texts, bool column = false) {
  Tensor tensor{name, DataType::kBytes, {static_cast<int64_t>(texts.size())}, {}};
  if (column) tensor.shape.push_back(1);
  for (const std::string& text : texts) AppendBytesElement(text, &tensor.data);
  return tensor;
}

template <typename T>
Tensor Ids(const char* name, DataType type, Shape shape, const std::vector<T>& ids) {
  Tensor tensor{name, type, std::move(shape), {}};
  for (const T id : ids) AppendElement(id, &tensor.data);
  return tensor;
}

std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> values;
  for (size_t i = 0; i < tensor.data.size() / sizeof(float); ++i) {
    values.push_back(ElementAt<float>(tensor.data, i));
  }
  return values;
}

std::vector<std::string> Strings(const Tensor& tensor) {
  const auto elements = SplitBytes(tensor.data, *CountElements(tensor.shape));
  return {elements->begin(), elements->end()};
}

class AdaptersTest : public ::testing::Test {
 protected:
  AdaptersTest() : repository_({}, {&inference_, &inference_, &clock_}) {}

  static InferRequest Request(const char* model, std::vector<Tensor> inputs) {
    InferRequest request;
    request.model = model;
    request.inputs = std::move(inputs);
    return request;
  }
  Result<std::unique_ptr<Execution>> Start(InferRequest request) {
    return repository_.Infer(std::move(request), nullptr);
  }
  Result<InferResponse> Ask(InferRequest request) {
    ASSIGN_OR_RETURN(const auto execution, Start(std::move(request)));
    ASSIGN_OR_RETURN(std::optional<InferResponse> response, execution->Next());
    EXPECT_TRUE(response.has_value() && response->final);
    return *std::move(response);
  }
  std::string ErrorOf(InferRequest request) { return Ask(std::move(request)).status().message(); }

  SteadyClock clock_;
  testing::FakeInference inference_{testing::FakeModels()};
  Repository repository_;
};

TEST_F(AdaptersTest, TextsBecomeVectorsInTheirOrder) {
  const std::vector<std::string> texts = {"one", "two", "three"};
  for (const char* const name : {"text", "text_input"}) {
    for (const bool column : {false, true}) {
      const Result<InferResponse> response = Ask(Request("minilm", {Texts(name, texts, column)}));
      ASSERT_TRUE(response.ok()) << response.status();
      const Tensor& out = response->outputs.at(0);
      EXPECT_EQ(out.name, "embedding");
      EXPECT_EQ(out.type, DataType::kFp32);
      EXPECT_EQ(out.shape, (Shape{3, 4}));
      const std::vector<float> values = Floats(out);
      for (size_t i = 0; i < texts.size(); ++i) {
        const std::vector<float> row(values.begin() + static_cast<long>(4 * i),
                                     values.begin() + static_cast<long>(4 * i + 4));
        EXPECT_EQ(row, testing::VectorOf(texts[i]));
      }
      EXPECT_EQ(response->spent.items, 3u);
    }
  }
}

TEST_F(AdaptersTest, TokenIdsAreTakenAsTheyAreAndTheirPaddingIsNot) {
  const auto ids = [&](size_t k) {
    return std::get<std::vector<TokenId>>(inference_.Encoding(k)->request.inputs.at(1));
  };
  ASSERT_TRUE(Ask(Request("minilm", {Ids<int32_t>("token_ids", DataType::kInt32, {2, 3},
                                                  {5, 6, 7, 8, -1, -1})}))
                  .ok());
  EXPECT_THAT(ids(0), ElementsAre(8));
  ASSERT_TRUE(
      Ask(Request("minilm",
                  {Ids<int64_t>("input_ids", DataType::kInt64, {2, 3}, {5, 6, 7, 8, 9, 0}),
                   Ids<int64_t>("attention_mask", DataType::kInt64, {2, 3}, {1, 1, 1, 1, 1, 0})}))
          .ok());
  EXPECT_THAT(ids(1), ElementsAre(8, 9));
}

TEST_F(AdaptersTest, WhatNoEncoderCanReadIsRefusedByName) {
  EXPECT_THAT(ErrorOf(Request("minilm", {})), HasSubstr("one of the inputs 'text' and"));
  EXPECT_THAT(
      ErrorOf(Request("minilm", {Texts("text", {"a"}),
                                 Ids<int32_t>("token_ids", DataType::kInt32, {1, 1}, {1})})),
      HasSubstr("not 2"));
  EXPECT_THAT(ErrorOf(Request("minilm", {Texts("text", {})})), HasSubstr("1 to 2048 texts, not 0"));
  EXPECT_THAT(ErrorOf(Request("minilm", {Texts("text", std::vector<std::string>(2049, "x"))})),
              HasSubstr("not 2049"));
  EXPECT_THAT(ErrorOf(Request("minilm", {Texts("text", {"ok", "\xff"})})), HasSubstr("UTF-8"));
  EXPECT_THAT(ErrorOf(Request("minilm", {Texts("text", {"ok", ""})})), HasSubstr("empty"));
  EXPECT_THAT(
      ErrorOf(Request("minilm", {Ids<int32_t>("token_ids", DataType::kInt32, {1, 3}, {1, -1, 2})})),
      HasSubstr("padded at the end"));
  EXPECT_EQ(Ask(Request("minilm",
                        {Ids<int64_t>("input_ids", DataType::kInt64, {1, 1}, {int64_t{1} << 40})}))
                .status()
                .reason(),
            "token_out_of_range");
  EXPECT_THAT(
      ErrorOf(Request("minilm", {Ids<int64_t>("input_ids", DataType::kInt64, {1, 2}, {1, 2}),
                                 Ids<int64_t>("attention_mask", DataType::kInt64, {1, 1}, {1})})),
      HasSubstr("must have the shape"));
  EXPECT_THAT(ErrorOf(Request("minilm", {Ids<int32_t>("token_ids", DataType::kInt32, {0, 3}, {})})),
              HasSubstr("not 0"));
}

TEST_F(AdaptersTest, ParametersOfEncodersHaveTheirNamesFromOtherServers) {
  InferRequest request = Request("minilm", {Texts("text", {"a"})});
  request.parameters = {{"normalize", false},
                        {"truncate", true},
                        {"dimensions", int64_t{2}},
                        {"prompt_name", std::string("query")},
                        {"truncate_prompt_tokens", int64_t{7}},
                        {"unknown", int64_t{1}}};
  request.priority = api::Priority::kBatch;
  ASSERT_TRUE(Ask(request).ok());
  const api::EncodeRequest& got = inference_.Encoding(0)->request;
  EXPECT_EQ(got.normalize, false);
  EXPECT_EQ(got.truncation, api::Truncation::kRight);
  EXPECT_EQ(got.dimensions, 2);
  EXPECT_EQ(got.prompt_name, "query");
  EXPECT_EQ(got.truncate_tokens, 7);
  EXPECT_EQ(got.priority, api::Priority::kBatch);
  request.parameters = {{"dimensions", int64_t{1} << 40}};
  EXPECT_FALSE(Ask(request).ok());
  request.parameters = {{"normalize", std::string("no")}};
  EXPECT_FALSE(Ask(request).ok());
  request.parameters = {{"normalise", true}, {"normalize", true}, {"dim", int64_t{2}}};
  EXPECT_THAT((*Start(request))->unread(), ElementsAre("normalise", "dim"));
  request.strict = true;
  EXPECT_EQ(Start(request).status().reason(), "unknown_parameter");
}

TEST_F(AdaptersTest, AQueryScoresEachDocument) {
  const Result<InferResponse> response =
      Ask(Request("cross", {Texts("query", {"abcd"}), Texts("documents", {"abx", "abcd", "zz"})}));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outputs.at(0).name, "score");
  EXPECT_EQ(response->outputs[0].shape, (Shape{3}));
  EXPECT_THAT(Floats(response->outputs[0]), ElementsAre(2, 4, 0));
  const Result<InferResponse> classes = Ask(Request("classes", {Texts("text", {"ab", "b"})}));
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_EQ(classes->outputs.at(0).shape, (Shape{2, 2}));
}

// 2,048 copies of a query of megabytes once were made before anyone looked.
TEST_F(AdaptersTest, AQueryCountsOnceForEachOfItsDocuments) {
  const std::vector<std::string> documents(2048, "d");
  std::string query(api::kMaxPairBytes / 2048 - 1, 'q');
  EXPECT_TRUE(Ask(Request("cross", {Texts("query", {query}), Texts("documents", documents)})).ok());
  query += 'q';
  const Status status =
      Ask(Request("cross", {Texts("query", {query}), Texts("documents", documents)})).status();
  EXPECT_EQ(status.reason(), "request_too_large");
  EXPECT_EQ(status.param(), "documents");
  EXPECT_EQ(inference_.encodings(), 1u) << "it did not reach the inference API";
}

// Regression: the error named "input[1]", a field that no client has.
TEST_F(AdaptersTest, ARefusalOfTheInferenceApiNamesTheClientsTensor) {
  const auto refusal = [] {
    return InvalidArgument("context_length_exceeded", "too long").WithParam("input[1]");
  };
  const std::vector<std::string> two = {"a", "b"};
  const auto ids = [](const char* name, DataType type) {
    return Ids<int32_t>(name, type, {2, 1}, {1, 2});
  };
  for (const bool later : {false, true}) {
    inference_.on_encode = [&](const std::shared_ptr<FakeEncoding>& encoding) {
      if (!later) return Status(refusal());
      encoding->Finish(refusal());
      return OkStatus();
    };
    const auto blamed = [&](const char* model, std::vector<Tensor> inputs) {
      return Ask(Request(model, std::move(inputs))).status().param();
    };
    EXPECT_EQ(blamed("minilm", {Texts("text", two)}), "text[1]");
    EXPECT_EQ(blamed("minilm", {Texts("text_input", two)}), "text_input[1]");
    EXPECT_EQ(blamed("minilm", {ids("input_ids", DataType::kInt32)}), "input_ids[1]");
    EXPECT_EQ(blamed("cross", {Texts("query", {"q"}), Texts("documents", two)}), "documents[1]");
    EXPECT_EQ(blamed("classes", {Texts("text", two)}), "text[1]");
  }
}

TEST_F(AdaptersTest, AnEncodingIsNotPreparedUntilItsTextsAreRead) {
  inference_.prepares = false;
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  Result<std::unique_ptr<Execution>> execution = Start(Request("minilm", {Texts("text", {"a"})}));
  ASSERT_TRUE(execution.ok()) << execution.status();
  EXPECT_FALSE((*execution)->prepared());
  inference_.Encoding(0)->Prepared();
  EXPECT_TRUE((*execution)->prepared());
  EXPECT_FALSE((*execution)->Next()->has_value());
}

TEST_F(AdaptersTest, AnEncodingThatIsGivenUpIsCancelledAndOneThatFailsSaysWhy) {
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  Result<std::unique_ptr<Execution>> first = Start(Request("minilm", {Texts("text", {"a"})}));
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE((*first)->Next()->has_value());
  first->reset();
  EXPECT_TRUE(inference_.Encoding(0)->cancelled.load());

  Result<std::unique_ptr<Execution>> second = Start(Request("minilm", {Texts("text", {"a"})}));
  inference_.Encoding(1)->Finish(InvalidArgument("context_length_exceeded", "too long"));
  EXPECT_EQ((*second)->Next().status().reason(), "context_length_exceeded");
  const auto statistics = repository_.Statistics("minilm", "", nullptr);
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->at(0).fail.count, 2u);
  EXPECT_EQ(statistics->at(0).success.count, 0u);
}

Tensor Flag(const char* name, bool on) {
  return {name, DataType::kBool, {1}, std::string(1, on ? '\1' : '\0')};
}

TEST_F(AdaptersTest, AnAnswerComesWholeAfterItsPromptUnlessThatIsNotWanted) {
  for (const bool exclude : {false, true}) {
    Result<std::unique_ptr<Execution>> execution = Start(
        Request("chat", {Texts("text_input", {"Say:"}), Flag("exclude_input_in_output", exclude)}));
    ASSERT_TRUE(execution.ok()) << execution.status();
    EXPECT_FALSE((*execution)->prepared());
    const auto generation = inference_.Generation(exclude ? 1 : 0);
    EXPECT_EQ(std::get<api::TextPrompt>(generation->request.prompt).text, "Say:");
    EXPECT_EQ(generation->request.sampling.max_tokens, 16);
    generation->Started();
    generation->Token(" one");
    EXPECT_TRUE((*execution)->prepared());
    EXPECT_FALSE((*execution)->Next()->has_value());
    generation->Token(" two");
    generation->ChoiceEnd(api::FinishReason::kLength);
    generation->End();
    const Result<std::optional<InferResponse>> response = (*execution)->Next();
    ASSERT_TRUE(response.ok() && response->has_value());
    EXPECT_TRUE((*response)->final);
    EXPECT_THAT(Strings((*response)->outputs.at(0)),
                ElementsAre(exclude ? " one two" : "Say: one two"));
    EXPECT_THAT(Strings((*response)->outputs.at(1)), ElementsAre("length"));
  }
}

TEST_F(AdaptersTest, AStreamedAnswerComesInPiecesAndItsLastPieceIsTheEnd) {
  Result<std::unique_ptr<Execution>> execution =
      Start(Request("chat", {Texts("text_input", {"x"}), Flag("stream", true)}));
  ASSERT_TRUE(execution.ok()) << execution.status();
  const auto generation = inference_.Generation(0);
  generation->Started();
  EXPECT_FALSE((*execution)->Next()->has_value());
  generation->Token("a");
  generation->Token("b");
  Result<std::optional<InferResponse>> response = (*execution)->Next();
  ASSERT_TRUE(response.ok() && response->has_value());
  EXPECT_THAT(Strings((*response)->outputs.at(0)), ElementsAre("ab"));
  EXPECT_THAT(Strings((*response)->outputs.at(1)), ElementsAre(""));
  EXPECT_FALSE((*response)->final);
  generation->Token("");  // a character is still open
  EXPECT_FALSE((*execution)->Next()->has_value());
  generation->ChoiceEnd(api::FinishReason::kStop, 0, "c");
  EXPECT_FALSE((*execution)->Next()->has_value());  // the end follows at once
  generation->End();
  response = (*execution)->Next();
  ASSERT_TRUE(response.ok() && response->has_value());
  EXPECT_THAT(Strings((*response)->outputs.at(0)), ElementsAre("c"));
  EXPECT_THAT(Strings((*response)->outputs.at(1)), ElementsAre("stop"));
  EXPECT_TRUE((*response)->final);
}

TEST_F(AdaptersTest, SamplingParametersAreThoseOfTheCompletionsRoute) {
  InferRequest request = Request(
      "chat", {Texts("text_input", {"x"}),
               Texts("sampling_parameters",
                     {R"({"temperature":0.25,"max_tokens":5,"stop":["END"],"n":2,"seed":7})"})});
  request.parameters = {{"temperature", 1.5}, {"top_k", int64_t{9}}, {"ignore_eos", true}};
  ASSERT_TRUE(Start(request).ok());
  const api::GenerateRequest& got = inference_.Generation(0)->request;
  EXPECT_EQ(got.sampling.temperature, 0.25);
  EXPECT_EQ(got.sampling.max_tokens, 5);
  EXPECT_EQ(got.sampling.top_k, 9);
  EXPECT_TRUE(got.sampling.ignore_eos);
  EXPECT_THAT(got.sampling.stop, ElementsAre("END"));
  EXPECT_EQ(got.sampling.seed, 7);
  EXPECT_EQ(got.n, 2);
  inference_.Generation(0)->Answer({"t"});

  request.parameters = {{"max_token", int64_t{5}}, {"top_k", int64_t{9}}};
  EXPECT_THAT((*Start(request))->unread(), ElementsAre("max_token"));
  request.strict = true;
  EXPECT_EQ(Start(request).status().reason(), "unknown_parameter");

  const auto refused = [&](const char* json) {
    return Start(
               Request("chat", {Texts("text_input", {"x"}), Texts("sampling_parameters", {json})}))
        .status()
        .reason();
  };
  EXPECT_EQ(refused("{"), "invalid_json");
  EXPECT_EQ(refused("[]"), "invalid_value");
  EXPECT_EQ(refused(R"({"temperature":"0.1"})"), "invalid_value");
  EXPECT_EQ(refused(R"({"temperature":9})"), "invalid_value");
  EXPECT_EQ(refused(R"({"prompt":"other"})"), "unsupported_parameter");
  EXPECT_EQ(refused(R"({"model":"other"})"), "unsupported_parameter");
  EXPECT_EQ(refused(R"({"logprobs":1})"), "unsupported_parameter");
  EXPECT_EQ(Start(Request("chat", {Texts("text_input", {"x"}), Flag("stream", true),
                                   Flag("exclude_input_in_output", false)}))
                .status()
                .reason(),
            "invalid_value");
  EXPECT_EQ(Start(Request("chat", {Texts("text_input", {"\xc3"})})).status().reason(),
            "invalid_utf8");
}

TEST_F(AdaptersTest, AGenerationThatIsGivenUpIsCancelled) {
  Result<std::unique_ptr<Execution>> execution =
      Start(Request("chat", {Texts("text_input", {"x"})}));
  ASSERT_TRUE(execution.ok());
  execution->reset();
  EXPECT_TRUE(inference_.Generation(0)->cancelled.load());
}

// --- the repository ---

TEST_F(AdaptersTest, ModelsAreFoundByTheirNamesAndAliases) {
  EXPECT_TRUE(repository_.Find("minilm", "", nullptr).ok());
  EXPECT_TRUE(repository_.Find("org/minilm", "1", nullptr).ok());
  EXPECT_EQ((*repository_.Find("org/minilm", "", nullptr))->config().name, "minilm");
  const Status unknown = repository_.Find("wrong_model_name", "", nullptr).status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_EQ(unknown.message(), "Request for unknown model: 'wrong_model_name' is not found");
  EXPECT_EQ(repository_.Find("", "", nullptr).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(repository_.Find("simple", "", nullptr).status().code(), StatusCode::kNotFound);
  std::vector<std::string> names;
  for (const IndexEntry& entry : repository_.Index(true, nullptr)) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("minilm", "cross", "classes", "chat"));
}

// Regression: adapters that were unloaded stayed in the list for ever.
TEST_F(AdaptersTest, AnUnloadedAdapterLeavesTheList) {
  const auto names = [this] {
    std::vector<std::string> found;
    for (const IndexEntry& entry : repository_.Index(false, nullptr)) found.push_back(entry.name);
    return found;
  };
  testing::FakeModel tuned;
  tuned.info.id = "tuned";
  tuned.info.parent = "chat";
  inference_.Add(tuned);
  EXPECT_THAT(names(), ElementsAre("minilm", "cross", "classes", "chat", "tuned"));
  EXPECT_TRUE(repository_.Find("tuned", "", nullptr).ok());
  inference_.Remove("tuned");
  EXPECT_EQ(repository_.Find("tuned", "", nullptr).status().code(), StatusCode::kNotFound);
  inference_.Add(tuned);
  EXPECT_TRUE(repository_.Find("tuned", "", nullptr).ok());
  inference_.Remove("tuned");
  EXPECT_THAT(names(), ElementsAre("minilm", "cross", "classes", "chat"));
  EXPECT_EQ(repository_.Statistics("", "", nullptr)->size(), 4u);
}

// Regression: an alias went on naming the model that it named when KServe first saw that model.
TEST_F(AdaptersTest, FindsAnAliasWhereItIsNow) {
  const auto model_of = [this](const char* name) {
    const auto found = repository_.Find(name, "", nullptr);
    return found.ok() ? (*found)->config().name : found.status().reason();
  };
  EXPECT_EQ(model_of("x"), "model_not_found");
  testing::FakeModel one = testing::MakeFakeModel("one", true), two = one;
  two.info.id = "two";
  one.info.aliases = {"x"};
  const auto list = [&] {
    for (const testing::FakeModel& model : {one, two}) {
      inference_.Remove(model.info.id);
      inference_.Add(model);
    }
  };
  list();
  EXPECT_EQ(model_of("x"), "one");
  std::swap(one.info.aliases, two.info.aliases);
  list();
  EXPECT_EQ(model_of("x"), "two");
  EXPECT_EQ(model_of("one"), "one");
  two.info.aliases.clear();
  list();
  EXPECT_EQ(model_of("x"), "model_not_found");
  two.info.aliases = {"y"};  // after the model is known
  list();
  EXPECT_EQ(model_of("y"), "two");
}

// Regression: a model kept the inputs and labels of a file that had been replaced.
TEST_F(AdaptersTest, ReadsTheKindOfAReplacedFile) {
  ASSERT_TRUE(Ask(Request("minilm", {Texts("text", {"a", "b"})})).ok());
  testing::FakeModel replaced = testing::MakeFakeModel("minilm", true);
  inference_.Remove("minilm");
  inference_.Add(replaced);
  const auto chat = repository_.Find("minilm", "", nullptr);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ((*chat)->config().inputs.front().name, "text_input");
  EXPECT_EQ(repository_.Statistics("minilm", "", nullptr)->at(0).success.count, 1u);
  replaced = testing::MakeFakeModel("minilm", false);
  replaced.info.encoder->labels = {"bad", "good"};
  inference_.Remove("minilm");
  inference_.Add(replaced);
  const auto scores = Ask(Request("minilm", {Texts("text", {"a", "b"})}));
  ASSERT_TRUE(scores.ok()) << scores.status().message();
  EXPECT_THAT(scores->outputs[0].shape, ElementsAre(2, 2));
}

// Regression: the scores of a model with other labels were given as those of the one asked for.
TEST_F(AdaptersTest, RefusesScoresOfAModelReplacedMeanwhile) {
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  Result<std::unique_ptr<Execution>> asked =
      Start(Request("cross", {Texts("query", {"q"}), Texts("documents", {"a", "b"})}));
  ASSERT_TRUE(asked.ok());
  api::EncodeResult other;
  other.width = 2;
  other.values = {1, 2, 3, 4};
  inference_.Encoding(0)->Finish(std::move(other));
  EXPECT_EQ((*asked)->Next().status().reason(), "model_loading");
}

// Regression: models that were removed stayed in the index, and their names answered.
TEST_F(AdaptersTest, ForgetsRemovedModels) {
  ASSERT_TRUE(Ask(Request("minilm", {Texts("text", {"a"})})).ok());
  ASSERT_EQ(repository_.Index(false, nullptr).size(), 4u);
  const testing::FakeModel minilm = testing::FakeModels().front();
  inference_.Remove("minilm");
  EXPECT_EQ(repository_.Find("minilm", "", nullptr).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(repository_.Find("org/minilm", "", nullptr).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(repository_.ModelReady("minilm", "", nullptr).code(), StatusCode::kNotFound);
  EXPECT_EQ(repository_.Index(false, nullptr).size(), 3u);
  EXPECT_EQ(repository_.Statistics("", "", nullptr)->size(), 3u);
  inference_.Add(minilm);
  EXPECT_EQ(repository_.Statistics("minilm", "", nullptr)->at(0).success.count, 1u) << "kept aside";
}

// Regression: a key limited to some models saw all of them.
TEST_F(AdaptersTest, HidesModelsThatACallerMayNotUse) {
  const auto limited = std::make_shared<const api::Caller>(
      api::Caller{.credential = "key", .models = {"org/minilm", "chat"}});
  for (const char* const name : {"cross", "classes"}) {
    const Status hidden = repository_.Find(name, "", limited).status();
    EXPECT_EQ(hidden.code(), StatusCode::kNotFound);
    EXPECT_EQ(hidden.message(),
              std::string("Request for unknown model: '") + name + "' is not found");
    EXPECT_EQ(repository_.ModelReady(name, "", limited).code(), StatusCode::kNotFound);
    EXPECT_EQ(repository_.Statistics(name, "", limited).status().code(), StatusCode::kNotFound);
  }
  EXPECT_TRUE(repository_.Find("minilm", "", limited).ok());
  std::vector<std::string> names;
  for (const IndexEntry& entry : repository_.Index(false, limited)) names.push_back(entry.name);
  const auto statistics = repository_.Statistics("", "", limited);
  for (const StatisticsSnapshot& model : *statistics) names.push_back(model.name);
  EXPECT_THAT(names, ElementsAre("minilm", "chat", "minilm", "chat"));
  InferRequest request = Request("classes", {Texts("text", {"a"})});
  request.caller = limited;
  EXPECT_EQ(Ask(std::move(request)).status().code(), StatusCode::kNotFound);
}

// Regression: a listed model whose files were not read yet was unknown.
TEST_F(AdaptersTest, AListedModelIsNotUnknownBeforeItIsRead) {
  testing::FakeModel unread = testing::MakeFakeModel("unread", true);
  unread.info.architecture.clear();
  unread.info.status.state = api::ModelState::kUnloaded;
  inference_.Add(unread);
  EXPECT_EQ(repository_.Find("unread", "", nullptr).status().reason(), "model_loading");
  inference_.awaited = "awaited";
  EXPECT_EQ(repository_.Find("awaited", "", nullptr).status().reason(), "model_loading");
}

TEST_F(AdaptersTest, WhileModelsAreLoadedTheirNamesAreNotUnknown) {
  inference_.is_started = false;
  EXPECT_EQ(repository_.Find("minilm", "", nullptr).status().reason(), "model_loading");
  EXPECT_FALSE(repository_.ModelReady("minilm", "", nullptr).ok());
  EXPECT_TRUE(repository_.Index(false, nullptr).empty());
  inference_.is_started = true;
  EXPECT_TRUE(repository_.ModelReady("minilm", "", nullptr).ok());
}

TEST_F(AdaptersTest, StatisticsCountItemsExecutionsAndTimes) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Ask(Request("minilm", {Texts("text", {"a", "b"})})).ok());
  }
  EXPECT_FALSE(Ask(Request("minilm", {Texts("text", {})})).ok());
  const auto statistics = repository_.Statistics("minilm", "", nullptr);
  ASSERT_TRUE(statistics.ok());
  const StatisticsSnapshot& model = statistics->at(0);
  EXPECT_EQ(model.name, "minilm");
  EXPECT_EQ(model.version, "1");
  EXPECT_EQ(model.inference_count, 10u);  // as the fake's own statistics say
  EXPECT_EQ(model.execution_count, 5u);
  EXPECT_EQ(model.success.count, 5u);
  EXPECT_EQ(model.fail.count, 1u);
  EXPECT_EQ(model.queue.count, 5u);
  EXPECT_EQ(model.queue.ns, 50'000u);
  EXPECT_EQ(model.infer.ns, 100'000u);
  EXPECT_GT(model.last_inference_ms, 1'600'000'000'000);
  EXPECT_EQ(repository_.Statistics("", "", nullptr)->size(), 4u);
  EXPECT_FALSE(repository_.Statistics("none", "", nullptr).ok());
}

TEST_F(AdaptersTest, AnExpiredRequestIsNotEvenChecked) {
  InferRequest late = Request("minilm", {Texts("text", {})});
  late.deadline = clock_.Now() - std::chrono::milliseconds(1);
  EXPECT_EQ(Ask(std::move(late)).status().reason(), "deadline_exceeded");
  EXPECT_EQ(inference_.encodings(), 0u);
}

TEST_F(AdaptersTest, ManyThreadsMayAskAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        if (Ask(Request("minilm", {Texts("text", {"a"})})).ok()) ++good;
        (void)repository_.Statistics("", "", nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 400);
}

}  // namespace
}  // namespace tutti::kserve
