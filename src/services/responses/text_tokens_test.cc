#include "services/responses/text_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::responses {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TextTokensTest : public ::testing::Test {
 protected:
  // A token of these bytes whose event has this text and reasoning. Returns the tokens of the text.
  std::vector<std::string> Draw(const std::string& bytes, const std::string& text,
                                const std::string& reasoning = "") {
    api::StreamEvent event;
    event.text = text;
    event.reasoning = reasoning;
    event.logprobs = api::TokenLogprobs{{1, -1, bytes, false}, {}};
    tokens_.Add(event);
    return text.empty() ? std::vector<std::string>() : Take(text);
  }
  std::vector<std::string> Take(const std::string& text) {
    std::vector<std::string> taken;
    for (const api::TokenLogprobs& token : tokens_.Take(text)) taken.push_back(token.chosen.bytes);
    return taken;
  }

  TextTokens tokens_;
};

TEST_F(TextTokensTest, ATokenComesWithItsText) {
  EXPECT_THAT(Draw("Hel", "Hel"), ElementsAre("Hel"));
  EXPECT_THAT(Draw("lo", "lo"), ElementsAre("lo"));
}

TEST_F(TextTokensTest, IncompleteCharactersWaitForTheirText) {
  EXPECT_THAT(Draw("a\xE2", "a"), ElementsAre("a\xE2"));
  EXPECT_THAT(Draw("\x82", ""), IsEmpty());
  EXPECT_THAT(Draw("\xAC", "\xE2\x82\xAC"), ElementsAre("\x82", "\xAC"));
}

TEST_F(TextTokensTest, WhatMayBecomeAStopStringIsHeldBack) {
  EXPECT_THAT(Draw("a", ""), IsEmpty());
  EXPECT_THAT(Draw("a", ""), IsEmpty());
  EXPECT_THAT(Draw("a", "a"), ElementsAre("a")) << "two of them are still held";
  EXPECT_THAT(Take("aa"), ElementsAre("a", "a")) << "at the end of the choice";
}

TEST_F(TextTokensTest, ReasoningAndTagsAreNoText) {
  EXPECT_THAT(Draw("<think>", ""), IsEmpty());
  EXPECT_THAT(Draw("Why", "", "Why"), IsEmpty());
  EXPECT_THAT(Draw("</think>", ""), IsEmpty());
  EXPECT_THAT(Draw("\n\n", ""), IsEmpty());
  EXPECT_THAT(Draw("t", "t"), ElementsAre("t"));
  EXPECT_THAT(Draw("u", "u"), ElementsAre("u"));
}

TEST_F(TextTokensTest, ACallIsNoText) {
  EXPECT_THAT(Draw("<tool_call>", ""), IsEmpty());
  EXPECT_THAT(Draw("{", ""), IsEmpty());
  tokens_.Drop();
  EXPECT_THAT(Draw("</tool_call>", ""), IsEmpty());
  EXPECT_THAT(Draw("So", "So"), ElementsAre("So"));
}

TEST_F(TextTokensTest, RepairedTextHasAllTokens) {
  EXPECT_THAT(Draw("\xFF", ""), IsEmpty());
  EXPECT_THAT(Draw("x", "\xEF\xBF\xBDx"), ElementsAre("\xFF", "x"));
}

TEST_F(TextTokensTest, WithoutLogprobsThereAreNone) {
  api::StreamEvent event;
  event.text = "a";
  tokens_.Add(event);
  EXPECT_THAT(Take("a"), IsEmpty());
}

}  // namespace
}  // namespace tutti::responses
