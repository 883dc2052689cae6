#include "protocol/openai/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

api::ModelInfo Decoder(const std::string& id) {
  api::ModelInfo model;
  model.id = id;
  model.created_unix_s = 5;
  model.max_model_len = 512;
  model.digest = "d";
  return model;
}
api::ModelInfo Encoder(const std::string& id, int width, std::vector<std::string> labels,
                       bool pairs) {
  api::ModelInfo model = Decoder(id);
  model.generates = false;
  model.quantisation = "int8";
  api::EncoderInfo encoder;
  encoder.width = width;
  encoder.labels = std::move(labels);
  encoder.pairs = pairs;
  encoder.pooling = "mean";
  encoder.batch_items = 32;
  encoder.batch_tokens = 1024;
  model.encoder = encoder;
  return model;
}

TEST(Models, AreListedWithTheirAliases) {
  std::vector<api::ModelInfo> models = {Decoder("big")};
  models[0].aliases = {"alias"};
  EXPECT_EQ(
      ModelListBody(models),
      R"({"object":"list","data":[{"id":"big","object":"model","created":5,"owned_by":"tutti","root":"big","parent":null,"max_model_len":512,)"
      R"("permission":[],"tasks":["generate"],"digest":"d","state":"ready","status":{"value":"loaded","pinned":true}},{"id":"alias","object":"model","created":5,"owned_by":"tutti","root":"big",)"
      R"("parent":null,"max_model_len":512,"permission":[],"tasks":["generate"],"digest":"d","state":"ready","status":{"value":"loaded","pinned":true}}]})");
}

TEST(Models, TheirStatusIsThatOfARouter) {
  api::ModelInfo model = Decoder("m");
  model.status = {
      .state = api::ModelState::kLoaded, .pinned = false, .memory_bytes = 7, .expires_unix_s = 9};
  EXPECT_THAT(
      ModelBody(model, "m"),
      HasSubstr(
          R"("state":"ready","status":{"value":"loaded","pinned":false,"memory_bytes":7,"expires_at":9})"));
  model.status = {.state = api::ModelState::kFailed, .failure = "model_load_failed"};
  EXPECT_THAT(
      ModelBody(model, "m"),
      HasSubstr(
          R"("state":"failed","status":{"value":"unloaded","failed":true,"exit_code":1,"error":"model_load_failed",)"));
}

TEST(Models, ACallNamesOneModel) {
  const auto parse = [](const char* text, bool strict = false) {
    const auto document = ParseJson(text);
    return ParseModelCall(document->root(), {.strict = strict, .now = {}});
  };
  const Result<ModelCall> call = parse(R"({"model":"m","more":1})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->model, "m");
  EXPECT_THAT(call->ignored, ElementsAre("more"));
  EXPECT_EQ(parse(R"({"model":"m","more":1})", true).status().reason(), "unknown_parameter");
  EXPECT_EQ(parse("{}").status().reason(), "missing_required_parameter");
  EXPECT_EQ(parse(R"({"model":[]})").status().reason(), "invalid_value");
  EXPECT_EQ(parse("[]").status().reason(), "invalid_json");
}

TEST(Models, TasksSayWhatAModelCanBeAskedFor) {
  EXPECT_THAT(TasksOf(Decoder("d")), ElementsAre("generate"));
  api::ModelInfo coder = Decoder("c");
  coder.fills_middle = true;
  EXPECT_THAT(TasksOf(coder), ElementsAre("generate", "infill"));
  EXPECT_THAT(TasksOf(Encoder("e", 8, {}, true)), ElementsAre("embed"));
  EXPECT_THAT(TasksOf(Encoder("r", 0, {"fits"}, true)), ElementsAre("rerank", "score"));
  EXPECT_THAT(TasksOf(Encoder("c", 0, {"a", "b"}, true)), ElementsAre("classify"));
  EXPECT_THAT(TasksOf(Encoder("c", 0, {"a"}, false)), ElementsAre("classify"))
      << "without pairs there is nothing to rank";
  api::ModelInfo both = Encoder("b", 8, {"a", "b"}, false);
  both.generates = true;
  EXPECT_THAT(TasksOf(both), ElementsAre("generate", "embed", "classify"));
}

TEST(Models, TheFirstThatGivesVectorsStandsForAServerThatKnowsOne) {
  const std::vector<api::ModelInfo> models = {
      Decoder("chat"), Encoder("classes", 0, {"a", "b"}, true), Encoder("vectors", 8, {}, true)};
  EXPECT_EQ(MainEncoder(models).id, "vectors");
  EXPECT_EQ(MainEncoder(std::vector<api::ModelInfo>{models[0], models[1]}).id, "classes");
  EXPECT_EQ(MainEncoder(std::vector<api::ModelInfo>{models[0]}).id, "chat");
}

TEST(Models, TokenizerInfoHasTheMembersOfATokenizerConfig) {
  api::ModelInfo model = Decoder("d");
  api::TokenizerInfo tokenizer;
  tokenizer.bos = "<s>";
  tokenizer.eos = "</s>";
  tokenizer.add_bos = true;
  tokenizer.chat_template = "{{ messages }}";
  model.tokenizer = std::make_shared<const api::TokenizerInfo>(tokenizer);
  EXPECT_EQ(
      TokenizerInfoBody(model),
      R"({"tokenizer_class":"PreTrainedTokenizerFast","model_max_length":512,"add_bos_token":true,)"
      R"("add_eos_token":false,"bos_token":"<s>","eos_token":"</s>","unk_token":null,)"
      R"("pad_token":null,"chat_template":"{{ messages }}"})");
}

TEST(Models, TheInfoOfTextEmbeddingsInference) {
  const JsonDocument embedder = *ParseJson(InfoBody(Encoder("e", 8, {}, true), {64, 2, "1.2.3"}));
  const Json& info = embedder.root();
  EXPECT_EQ(info.at("model_id").as_string(), "e");
  EXPECT_EQ(info.at("model_dtype").as_string(), "int8");
  EXPECT_EQ(info.at("model_type").at("embedding").at("pooling").as_string(), "mean");
  EXPECT_EQ(info.at("max_concurrent_requests").as_int64(), 64);
  EXPECT_EQ(info.at("max_input_length").as_int64(), 512);
  EXPECT_EQ(info.at("max_batch_tokens").as_int64(), 1024);
  EXPECT_EQ(info.at("max_client_batch_size").as_int64(), 2048);
  EXPECT_EQ(info.at("tokenization_workers").as_int64(), 2) << "clients read it as a required field";
  EXPECT_EQ(info.at("version").as_string(), "1.2.3");
  const auto type = [](const api::ModelInfo& model) {
    return PrintJson(ParseJson(InfoBody(model, {64, 2, ""}))->root().at("model_type"));
  };
  EXPECT_EQ(type(Encoder("r", 0, {"fits"}, true)),
            R"({"reranker":{"id2label":{"0":"fits"},"label2id":{"fits":0}}})");
  EXPECT_EQ(type(Encoder("c", 0, {"a", "b"}, false)),
            R"({"classifier":{"id2label":{"0":"a","1":"b"},"label2id":{"a":0,"b":1}}})");
  EXPECT_EQ(type(Decoder("d")), R"({"generator":{}})");
}

}  // namespace
}  // namespace tutti::protocol
