#include "api/models.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::api {
namespace {

ModelInfo Decoder(const std::string& id) {
  ModelInfo model;
  model.id = id;
  return model;
}
ModelInfo Encoder(const std::string& id, int width, std::vector<std::string> labels = {},
                  bool pairs = false) {
  ModelInfo model = Decoder(id);
  model.generates = false;
  EncoderInfo& encoder = model.encoder.emplace();
  encoder.width = width;
  encoder.labels = std::move(labels);
  encoder.pairs = pairs;
  return model;
}

std::string DefaultOf(const std::vector<ModelInfo>& models, EncodeOutput output,
                      bool pairs = false) {
  const ModelInfo* model = DefaultEncoder(models, output, pairs);
  return model == nullptr ? "none" : model->id;
}

TEST(FindModel, KnowsNamesAndAliases) {
  std::vector<ModelInfo> models = {Decoder("big"), Decoder("small")};
  models[1].aliases = {"org/small", "s"};
  EXPECT_EQ(FindModel(models, "big"), &models[0]);
  EXPECT_EQ(FindModel(models, "s"), &models[1]);
  EXPECT_EQ(FindModel(models, "other"), nullptr);
  EXPECT_EQ(FindModel(models, ""), nullptr);
}

TEST(DefaultGenerator, IsTheFirstThatGeneratesElseTheFirst) {
  const std::vector<ModelInfo> models = {Encoder("vectors", 8), Decoder("chat"), Decoder("other")};
  EXPECT_EQ(DefaultGenerator(models), &models[1]);
  EXPECT_EQ(DefaultGenerator({models.data(), 1}), models.data());
  EXPECT_EQ(DefaultGenerator({}), nullptr);
}

TEST(DefaultEncoder, IsTheFirstThatGivesWhatIsAskedFor) {
  const std::vector<ModelInfo> models = {Decoder("chat"),
                                         Encoder("classes", 0, {"a", "b"}),
                                         Encoder("nli", 0, {"a", "b", "c"}, true),
                                         Encoder("vectors", 8),
                                         Encoder("vectors2", 9),
                                         Encoder("ranks", 0, {"fits"}, true)};
  EXPECT_EQ(DefaultOf(models, EncodeOutput::kPooled), "vectors");
  EXPECT_EQ(DefaultOf(models, EncodeOutput::kTokens), "vectors");
  EXPECT_EQ(DefaultOf(models, EncodeOutput::kScores), "classes");
  EXPECT_EQ(DefaultOf(models, EncodeOutput::kScores, true), "ranks") << "one label for ranking";
  EXPECT_EQ(DefaultOf({models[0], models[1], models[2]}, EncodeOutput::kScores, true), "nli")
      << "none ranks, and this one reads pairs";
  EXPECT_EQ(DefaultOf({models[0], models[1]}, EncodeOutput::kScores, true), "none");
  EXPECT_EQ(DefaultOf({models[0]}, EncodeOutput::kPooled), "none");
  EXPECT_EQ(DefaultOf({}, EncodeOutput::kPooled), "none");
}

TEST(DefaultEncoder, IsAModelThatGeneratesTooOnlyWhereThereIsNoOther) {
  std::vector<ModelInfo> models = {Encoder("chat", 8), Encoder("vectors", 8)};
  models[0].generates = true;
  EXPECT_EQ(DefaultOf(models, EncodeOutput::kPooled), "vectors");
  models.pop_back();
  EXPECT_EQ(DefaultOf(models, EncodeOutput::kPooled), "chat");
}

TEST(EncoderFor, TheNameDecidesAndWithoutOneWhatIsAskedFor) {
  const std::vector<ModelInfo> models = {Encoder("classes", 0, {"a"}),
                                         Encoder("ranks", 0, {"fits"}, true)};
  EncodeRequest request;
  request.output = EncodeOutput::kScores;
  request.inputs = {std::string("a")};
  EXPECT_EQ(EncoderFor(models, request), &models[0]);
  request.inputs.emplace_back(TextPair{"a", "b"});
  EXPECT_EQ(EncoderFor(models, request), &models[1]) << "one pair among texts is enough";
  request.model = "classes";
  EXPECT_EQ(EncoderFor(models, request), &models[0]);
  request.model = "other";
  EXPECT_EQ(EncoderFor(models, request), nullptr);
}

TEST(ModelsFor, SharesTheListOfCallersWithoutRestriction) {
  const ModelList all(std::vector<ModelInfo>{Decoder("a"), Decoder("b")});
  Caller caller;
  EXPECT_TRUE(ModelsFor(caller, all).SharesWith(all));
  caller.models = {"b"};
  const ModelList theirs = ModelsFor(caller, all);
  ASSERT_EQ(theirs.size(), 1U);
  EXPECT_EQ(theirs.front().id, "b");
}

TEST(DerivedModels, FollowTheirSourceAndSettings) {
  const DerivedModels derived;
  int made = 0;
  const auto of = [&](const ModelList& source, const std::shared_ptr<const int>& settings) {
    return derived.Of(source, settings, [&](std::vector<ModelInfo>* models) {
      models->push_back(Decoder(std::to_string(++made)));
    });
  };
  const ModelList source(std::vector<ModelInfo>{Decoder("a")});
  const auto settings = std::make_shared<const int>(1);
  const ModelList first = of(source, settings);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[1].id, "1");
  EXPECT_TRUE(of(source, settings).SharesWith(first));
  EXPECT_EQ(of(source, std::make_shared<const int>(1))[1].id, "2");
  EXPECT_EQ(of(ModelList(source.Copy()), settings)[1].id, "3");
  EXPECT_EQ(source.size(), 1U);
}

}  // namespace
}  // namespace tutti::api
