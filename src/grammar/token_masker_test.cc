#include "grammar/token_masker.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "amount.h"
#include "grammar/structure.h"

namespace tutti::grammar {
namespace {

// Every byte as a token, texts of several bytes that go across the borders of JSON's tokens, some
// twice, and two special tokens, of which the last ends the text.
std::shared_ptr<const TokenTrie> MakeTrie(const std::vector<std::string>& more = {}) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (const char* text :
       {"{\"",        "\":",      "\": \"", "\",\"",  "\"}",  "\"}]",     "}}",
        "],",         "true",     "false",  "null",   "tr",   "ue",       "name",
        "na",         "a",        "id",     "12",     "345",  "-1",       "0.5",
        ".5",         "e1",       "  ",     "\n    ", "\n",   ", ",       "[[",
        "]]",         "\\u00",    "\\n",    "\xC3",   "\xA9", "\xC3\xA9", "\xE2\x82",
        "\xAC",       "red",      "green",  "bl",     "ue\"", "name\": ", "aaaaaaaaaaaaaaaa",
        "aaaaaaaa\"", "aa\",\"b", "(",      "((",     "))",   "+1",       "*("})
    texts.emplace_back(text);
  texts.insert(texts.end(), more.begin(), more.end());
  texts.push_back(SpecialTokenBytes(static_cast<TokenId>(texts.size())));
  texts.push_back(SpecialTokenBytes(static_cast<TokenId>(texts.size())));
  const auto end = static_cast<TokenId>(texts.size() - 1);
  return TokenTrie::Create(std::move(texts), {end});
}

std::vector<Structure> Structures() {
  const auto schema = [](const char* text) {
    return Structure{.kind = Structure::Kind::kJsonSchema, .text = text};
  };
  return {
      {.kind = Structure::Kind::kJsonObject},
      {.kind = Structure::Kind::kRegex, .text = "[a-z]{2,5}(é|€)*\\d{0,40}x?"},
      {.kind = Structure::Kind::kChoice, .texts = {"red", "green", "blue", "bl", "\n"}},
      {.kind = Structure::Kind::kGbnf,
       .text = "root ::= sum\nsum ::= term ([+*] term)*\nterm ::= [0-9]+ | \"(\" sum \")\"\n"},
      schema(R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},
                 "id":{"type":"integer","minimum":-5,"maximum":300},"a":{"enum":["red","green"]}},
                 "required":["name"],"additionalProperties":false})"),
      schema(R"({"type":"array","items":{"anyOf":[{"type":"object","properties":{"id":{"const":1},
                 "name":{"type":"boolean"}},"required":["id"]},{"type":"object","properties":{
                 "id":{"const":2},"a":{"type":"number"}},"required":["id"]}]},"maxItems":3})"),
      schema(R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"a":{
                 "type":"array","items":{"$ref":"#/$defs/n"}},"name":{"pattern":"^a+b?$"}}}}})"),
      // Near the limit and far from it, where states with different counts share a mask.
      schema(R"({"type":"array","items":{"type":"string","pattern":"^([a-e][^a]?é?)*$",
                 "maxLength":40},"maxItems":3})"),
      schema(R"({"type":"string","pattern":"^(aa(aaa)?)+$","minLength":3,"maxLength":47})"),
  };
}

// A mask is made from a walk with parts that are shared between states; each token by itself is
// the reference.
TEST(TokenMasker, MaskEqualsEachTokenByItself) {
  const auto trie = MakeTrie();
  std::mt19937 random(7);
  for (const Structure& source : Structures()) {
    const auto automaton = Compile(source);
    ASSERT_TRUE(automaton.ok()) << automaton.status();
    TokenMasker masker(*automaton, trie);
    for (int run = 0; run < support::Amount(40, 5); ++run) {
      SetId state = masker.start();
      std::string text;
      for (int step = 0; step < 60; ++step) {
        const auto mask = masker.Mask(state);
        ASSERT_NE(mask, nullptr) << text;
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < static_cast<TokenId>(trie->vocabulary()); ++id) {
          const bool follows = masker.Next(state, id) != StateSets::kDead;
          ASSERT_EQ(mask->Allows(id), follows) << text << " then token " << id;
          if (follows) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << text;  // every byte is a token: no text is stuck
        const TokenId chosen = allowed[random() % allowed.size()];
        if (trie->IsEnd(chosen)) break;
        text += trie->text(chosen);
        state = masker.Next(state, chosen);
      }
    }
  }
}

TEST(TokenMasker, EndsWhereTheGrammarIsSatisfied) {
  const auto trie = MakeTrie();
  const TokenId end = trie->ends()[0];
  TokenMasker masker(*Compile({.kind = Structure::Kind::kChoice, .texts = {"tr", "true"}}), trie);
  EXPECT_FALSE(masker.Mask(masker.start())->Allows(end));
  const SetId open = masker.Next(masker.start(), 't');
  const SetId complete = masker.Next(open, 'r');
  EXPECT_TRUE(masker.Mask(complete)->Allows(end));
  EXPECT_FALSE(masker.Mask(complete, /*ends=*/false)->Allows(end));
  EXPECT_FALSE(masker.finished(complete));
  const SetId finished = masker.Next(masker.Next(complete, 'u'), 'e');
  EXPECT_TRUE(masker.finished(finished));
  EXPECT_EQ(masker.Mask(finished)->Count(), 1u);
  EXPECT_EQ(masker.Next(finished, end), finished);
}

TEST(TokenMasker, NeverAllowsOtherSpecialTokens) {
  const auto trie = MakeTrie();
  TokenMasker masker(*Compile({.kind = Structure::Kind::kRegex, .text = "[^]*"}), trie);
  const auto special = static_cast<TokenId>(trie->vocabulary() - 2);
  EXPECT_FALSE(masker.Mask(masker.start())->Allows(special));
  EXPECT_EQ(masker.Next(masker.start(), special), StateSets::kDead);
}

// A text whose stack grows too deep ends its own request, not others under the same grammar.
TEST(TokenMasker, OverflowEndsOnlyItsOwnRequest) {
  TokenMasker masker(
      *Compile({.kind = Structure::Kind::kGbnf,
                .text = "root ::= [0-9] | deep\ndeep ::= \"(\" deep \")\" | \"1\"\n"}),
      MakeTrie());
  SetId state = masker.start();
  for (uint32_t i = 0; i <= StateSets::kMaxDepth + 1 && state != StateSets::kDead; ++i)
    state = masker.Next(state, '(');
  EXPECT_EQ(state, StateSets::kDead);
  EXPECT_NE(masker.Mask(masker.start()), nullptr);
  EXPECT_NE(masker.Next(masker.start(), '7'), StateSets::kDead);
}

// Each of the whitespace and of the names' common beginning was once read in a state for each
// property, which was too much for one mask: such tools ended with grammar_too_complex.
TEST(TokenMasker, MakesMasksOfFiveHundredOptionalProperties) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 500; ++i) {
    schema += (i > 0 ? "," : "") + ("\"property_" + std::to_string(1000 + i)) +
              R"(":{"type":"string","maxLength":8})";
  }
  const auto automaton = Compile({.kind = Structure::Kind::kJsonSchema, .text = schema + "}}"});
  ASSERT_TRUE(automaton.ok()) << automaton.status();
  // Tokens that go through all of that, as those of large vocabularies do.
  std::vector<std::string> texts;
  for (const char* first : {"{", "\",", "a\","}) {
    for (size_t blanks = 0; blanks <= 16; ++blanks) {
      texts.push_back(first + std::string("\n\n") + std::string(blanks, ' ') + "\"property_10");
    }
  }
  const auto trie = MakeTrie(texts);
  TokenMasker masker(*automaton, trie);
  const std::string text = "{\n \"property_1000\": \"aaa\",\n\n   \"property_1450\":\"a\"}";
  SetId state = masker.start();
  for (size_t i = 0; i <= text.size(); ++i) {
    ASSERT_NE(state, StateSets::kDead) << text.substr(0, i);
    ASSERT_NE(masker.Mask(state), nullptr) << text.substr(0, i);
    if (i < text.size()) state = masker.Next(state, static_cast<unsigned char>(text[i]));
  }
  EXPECT_TRUE(masker.finished(state));
}

TEST(Matcher, KeepsItsStateWhenTheMaskerForgets) {
  const auto trie = MakeTrie();
  auto masker = std::make_shared<TokenMasker>(
      *Compile({.kind = Structure::Kind::kRegex, .text = "(a|b)*a(a|b){12}"}), trie,
      /*max_bytes=*/100'000);
  Matcher one(masker), two(masker);
  std::mt19937 random(3);
  // Random letters visit thousands of states.
  for (int i = 0; masker->memory_bytes() <= 100'000 && i < 200'000; ++i) {
    ASSERT_TRUE(one.Take(random() % 2 == 0 ? 'a' : 'b'));
    ASSERT_TRUE(i >= 3 || two.Take('a'));
    ASSERT_NE(masker->Mask(one.state()), nullptr);
  }
  const size_t before = masker->memory_bytes();
  ASSERT_GT(before, 100'000u);
  const auto mask = masker->Mask(two.state());
  masker->Trim();
  EXPECT_LT(masker->memory_bytes(), before / 2);
  EXPECT_EQ(masker->Mask(two.state())->words(), mask->words());
  EXPECT_TRUE(one.Take('b'));
}

TEST(Matcher, TakesOnlyWhatIsAllowed) {
  const auto trie = MakeTrie();
  Matcher matcher(std::make_shared<TokenMasker>(
      *Compile({.kind = Structure::Kind::kRegex, .text = "ab"}), trie));
  EXPECT_FALSE(matcher.Take('b'));
  EXPECT_TRUE(matcher.Take('a'));
  EXPECT_FALSE(matcher.finished());
  EXPECT_TRUE(matcher.Take('b'));
  EXPECT_TRUE(matcher.finished());
}

}  // namespace
}  // namespace tutti::grammar
