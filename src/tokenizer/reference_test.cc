// Token ids against references we did not write: Hugging Face's tokenizers and Google's
// sentencepiece, over a sample of a 10 MiB corpus in 18 languages and of 5,000 hostile strings, for
// every vocabulary of the data folder.
#include <gtest/gtest.h>

#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

using testing::DataFolder;
using testing::Digest;
using testing::LoadTexts;
using testing::LoadTokenizer;
using testing::ReadJson;

class ReferenceTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Compares every text of one kind with the reference's count and digest.
  void Compare(const char* kind, size_t least_texts) {
    const auto tokenizer = LoadTokenizer(GetParam());
    const std::vector<std::string> texts = LoadTexts(kind);
    const boost::json::value ids = ReadJson(DataFolder() + "/ids/" + GetParam() + ".json.gz");
    const auto& expected = ids.at(kind).as_array();
    ASSERT_EQ(expected.size(), texts.size());
    ASSERT_GE(texts.size(), least_texts);
    size_t wrong = 0;
    size_t tokens = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<TokenId> got = tokenizer->Encode(texts[i], {.add_special = false});
      tokens += got.size();
      const auto count = expected[i].at(0).to_number<size_t>();
      if (got.size() == count && Digest(got) == expected[i].at(1).as_string()) continue;
      if (++wrong > 5) continue;
      std::string pieces;
      for (const TokenId id : got) pieces.append(tokenizer->Piece(id)).append("|");
      ADD_FAILURE() << "text " << i << ": " << got.size() << " tokens, reference " << count << "; "
                    << boost::json::serialize(boost::json::string(texts[i].substr(0, 400))) << "\n"
                    << boost::json::serialize(boost::json::string(pieces.substr(0, 400)));
    }
    EXPECT_EQ(wrong, 0U) << "of " << texts.size();
    RecordProperty("texts", static_cast<int>(texts.size()));
    RecordProperty("tokens", static_cast<int>(tokens));
  }
};

TEST_P(ReferenceTest, IdsEqualTheReferenceOnTheCorpus) { Compare("corpus", 50); }
TEST_P(ReferenceTest, IdsEqualTheReferenceOnHostileStrings) { Compare("hostile", 500); }

INSTANTIATE_TEST_SUITE_P(Vocabularies, ReferenceTest,
                         ::testing::ValuesIn(testing::VocabularyNames()),
                         [](const auto& vocabulary) {
                           std::string name = vocabulary.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tutti::tokenizer
