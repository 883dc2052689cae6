// tokenizer.json files of published forms, compared with the library that reads them: 14 published
// files with shortened vocabularies, and files with every form of step, each with the ids of all
// texts.
// Made by tools/make_published_tokenizers.py.
#include <gtest/gtest.h>

#include "tokenizer/huggingface.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

namespace json = boost::json;

const json::value& PublishedData() {
  static const json::value kData = testing::ReadJson(testing::DataFolder() + "/published.json.gz");
  return kData;
}

class PublishedTokenizers : public ::testing::TestWithParam<size_t> {
 protected:
  const json::value& file() const { return PublishedData().at("files").at(GetParam()); }

  void ExpectIdsOfTheLibrary(TokenizerSpec spec) const {
    const auto tokenizer = Tokenizer::Create(std::move(spec));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const auto& texts = PublishedData().at("texts").as_array();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string text(texts[i].as_string());
      const auto expected = json::value_to<std::vector<TokenId>>(file().at("ids").at(i));
      EXPECT_EQ((*tokenizer)->EncodeInput(text).ids, expected) << i << ": " << text;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(File, PublishedTokenizers, ::testing::Range(size_t{0}, size_t{48}),
                         [](const auto& number) {
                           std::string name(
                               PublishedData().at("files").at(number.param).at("name").as_string());
                           for (char& c : name) {
                             const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                             if (!letter) c = '_';
                           }
                           return name;
                         });

TEST_P(PublishedTokenizers, GiveTheIdsOfTheLibrary) {
  auto spec = SpecFromHuggingFace(file().at("tokenizer_json").as_string());
  ASSERT_TRUE(spec.ok()) << spec.status();
  ExpectIdsOfTheLibrary(std::move(spec).value());
}

// A GGUF made from a folder holds the lists, and the other blocks as one text.
TEST_P(PublishedTokenizers, GiveTheSameIdsFromListsAndPipeline) {
  auto spec = SpecFromHuggingFace(file().at("tokenizer_json").as_string());
  ASSERT_TRUE(spec.ok()) << spec.status();
  TokenizerSpec lists;
  lists.tokens = spec->tokens;
  lists.token_types = spec->token_types;
  lists.merges = spec->merges;
  lists.unigram_scores = spec->unigram_scores;
  lists.pipeline = spec->pipeline;
  const Status applied = ApplyPipeline(lists);
  ASSERT_TRUE(applied.ok()) << applied;
  ExpectIdsOfTheLibrary(std::move(lists));
}

TEST(PublishedTokenizersTest, AllFilesAreCompared) {
  EXPECT_EQ(PublishedData().at("files").as_array().size(), 48u);
}

}  // namespace
}  // namespace tutti::tokenizer
