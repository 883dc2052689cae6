#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/structure.h"
#include "grammar/token_masker.h"

namespace tutti::grammar {
namespace {

std::shared_ptr<TokenMasker> MaskerOf(const Structure& structure) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"{\"", "\":", "name", "\",\"", "full", " \""}) texts.emplace_back(text);
  return std::make_shared<TokenMasker>(*Compile(structure),
                                       TokenTrie::Create(std::move(texts), {}));
}

Structure Record() {
  return Structure::Schema(
      R"({"type":"object","properties":{"full_name":{"type":"string"},"age":{"type":"integer"}},
        "required":["full_name","age"],"additionalProperties":false})",
      "schema");
}

std::vector<std::string> GuessBehind(const std::string& text, size_t max_tokens) {
  const auto masker = MaskerOf(Record());
  ForcedText forced;
  SetId state = masker->start();
  for (const char byte : text) state = masker->Next(state, static_cast<uint8_t>(byte));
  EXPECT_NE(state, StateSets::kDead);
  forced.Read(text);
  std::vector<TokenId> tokens;
  forced.Guess(*masker, state, max_tokens, tokens);
  std::vector<std::string> out;
  for (const TokenId token : tokens) out.emplace_back(masker->trie().text(token));
  return out;
}

TEST(ForcedText, GuessesTheLongestTokensOfTheOnlyWayOn) {
  EXPECT_EQ(GuessBehind("", 7),
            (std::vector<std::string>{"{\"", "full", "_", "name", "\":", "\""}));
  EXPECT_EQ(GuessBehind("{\"fu", 2), (std::vector<std::string>{"l", "l"}));
}

TEST(ForcedText, GuessesNothingWhereSeveralBytesMayFollow) {
  EXPECT_TRUE(GuessBehind("{\"full_name\":\"", 7).empty());
  EXPECT_TRUE(GuessBehind("{\"full_name\":\"Ada\",\"age\":", 7).empty());
}

TEST(ForcedText, GuessesTheWhitespaceThatTheTextHadBefore) {
  EXPECT_EQ(GuessBehind("{\"full_name\": \"Ada\", \"age\":", 7), (std::vector<std::string>{" "}));
  EXPECT_EQ(GuessBehind("{\n  \"full_name\":\"Ada\",", 3),
            (std::vector<std::string>{"\"", "a", "g"}));
}

}  // namespace
}  // namespace tutti::grammar
