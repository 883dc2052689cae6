// The choice of a model at a server, and the errors if there is none.
#include "client/served_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<ListedModel> kThree = {
    {"chat", {"generate"}}, {"minilm", {"embed"}}, {"ranker", {"rerank", "score"}}};

Status Refused(const std::vector<ListedModel>& models, const std::string& wanted,
               std::string_view task) {
  return PickModel(models, wanted, task, "http://host:1").status();
}

TEST(ServedModels, TheFirstThatHasTheTaskIsAskedOrOneThatTellsNothing) {
  EXPECT_EQ(*PickModel(kThree, "", "embed", ""), "minilm");
  EXPECT_EQ(*PickModel(kThree, "", "generate", ""), "chat");
  EXPECT_EQ(*PickModel({{"a", {}}, {"b", {"embed"}}}, "", "embed", ""), "b");
  EXPECT_EQ(*PickModel({{"a", {"embed"}}, {"b", {}}}, "", "generate", ""), "b");
  EXPECT_EQ(*PickModel(kThree, "minilm", "embed", ""), "minilm");
}

TEST(ServedModels, WhatIsNotThereIsToldWithWhatIs) {
  const Status other = Refused(kThree, "bge", "embed");
  EXPECT_EQ(other.reason(), "model_not_found");
  EXPECT_EQ(other.message(),
            "http://host:1 serves no model \"bge\"; it has chat (generate), minilm (embed), ranker "
            "(rerank, score)");
  EXPECT_THAT(Refused(kThree, "chat", "embed").message(), HasSubstr("\"chat\" for embed"));
  EXPECT_THAT(Refused({{"chat", {"generate"}}}, "", "embed").message(),
              HasSubstr("no model for embed; it has chat"));
  EXPECT_THAT(Refused({}, "", "embed").message(), HasSubstr("it lists none"));
}

TEST(ServedModels, NamesOfOthersAreCutAndPrintable) {
  std::vector<ListedModel> many;
  for (int i = 0; i < 20; ++i) many.push_back({"model\n" + std::string(500, 'x'), {}});
  const std::string text = ListText(many);
  EXPECT_THAT(text, AllOf(HasSubstr(", 12 more"), Not(HasSubstr("\n"))));
  EXPECT_LT(text.size(), 1000u);
}

TEST(ServedModels, AKeyThatIsMissingOrWrongIsToldByItsPlace) {
  const Status refused(StatusCode::kUnauthenticated, "invalid_api_key", "no");
  EXPECT_THAT(WithKeyHint(refused, "").message(), HasSubstr("taken from TUTTI_API_KEY"));
  EXPECT_THAT(WithKeyHint(refused, "sk-secret").message(),
              AllOf(HasSubstr("TUTTI_API_KEY is not"), Not(HasSubstr("secret"))));
  EXPECT_EQ(WithKeyHint(NotFound("model_not_found", "no"), "").message(), "no");
}

}  // namespace
}  // namespace tutti::client
