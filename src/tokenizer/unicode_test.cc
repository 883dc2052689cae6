// Character classes and BERT's text rules against the references, for every code point there is.
#include <gtest/gtest.h>

#include "tokenizer/character_rules.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

constexpr char32_t kCodePoints = 0x110000;
bool IsSurrogate(char32_t c) { return c >= 0xD800 && c < 0xE000; }

const boost::json::value& Reference() {
  static const boost::json::value kJson =
      testing::ReadJson(testing::DataFolder() + "/unicode.json.gz");
  return kJson;
}

std::vector<bool> Members(const char* name) {
  std::vector<bool> members(kCodePoints, false);
  for (const auto& range : Reference().at(name).as_array()) {
    for (auto c = range.at(0).to_number<size_t>(); c <= range.at(1).to_number<size_t>(); ++c)
      members[c] = true;
  }
  return members;
}

TEST(UnicodeTest, ClassesEqualTheReferenceForEveryCodePoint) {
  const std::vector<bool> letter = Members("letter");
  const std::vector<bool> number = Members("number");
  const std::vector<bool> space = Members("space");
  const std::vector<bool> punctuation = Members("punctuation");
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (IsSurrogate(c)) continue;
    std::string text;
    AppendUtf8(c, text);
    const Symbol symbol = SymbolAt(text, 0);
    ASSERT_EQ(symbol.code_point, c);
    ASSERT_EQ(symbol.Is(kLetter), letter[c]) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(symbol.Is(kNumber), number[c]) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(symbol.Is(kSpace), space[c]) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(symbol.Is(kPunctuation), punctuation[c]) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(symbol.Is(kLineEnd), c == '\r' || c == '\n');
  }
}

TEST(UnicodeTest, BertPunctuationEqualsTheReferenceForEveryCodePoint) {
  const std::vector<bool> punctuation = Members("bert_punctuation");
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (IsSurrogate(c)) continue;
    ASSERT_EQ(IsBertPunctuation(c), punctuation[c]) << std::hex << static_cast<uint32_t>(c);
  }
}

// BertNormalizer's result for `c` between two letters.
std::string Normalised(char32_t c, bool strip_accents, bool lowercase) {
  if (IsBertRemoved(c)) return "ab";
  if (IsBertSpace(c)) return "a b";
  std::u32string folded;
  AppendBertFolded(c, strip_accents, lowercase, folded);
  std::string out = IsBertIdeograph(c) ? "a " : "a";
  for (const char32_t part : folded) AppendUtf8(part, out);
  return out + (IsBertIdeograph(c) ? " b" : "b");
}

void ExpectNormalisedAs(const char* name, bool strip_accents, bool lowercase) {
  const auto& digests = Reference().at("bert_normalised").at(name).as_array();
  ASSERT_EQ(digests.size(), kCodePoints / 4096U);
  for (char32_t block = 0; block < kCodePoints; block += 4096) {
    std::string text;
    for (char32_t c = block; c < block + 4096; ++c) {
      if (!IsSurrogate(c)) text += Normalised(c, strip_accents, lowercase) + "\n";
    }
    ASSERT_EQ(testing::DigestBytes(text), digests[block / 4096].as_string())
        << "code points from " << std::hex << static_cast<uint32_t>(block);
  }
}

TEST(UnicodeTest, BertNormalisationEqualsTheReferenceForEveryCodePoint) {
  ExpectNormalisedAs("strip_lower", true, true);
  ExpectNormalisedAs("lower", false, true);
  ExpectNormalisedAs("neither", false, false);
}

}  // namespace
}  // namespace tutti::tokenizer
