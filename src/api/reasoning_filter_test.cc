#include "api/reasoning_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace tutti::api {
namespace {

struct Outcome {
  std::string text, reasoning;
  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Outcome& o) {
    return out << "text '" << o.text << "' reasoning '" << o.reasoning << "'";
  }
};

Outcome Filtered(ReasoningMode mode, const std::vector<std::string>& deltas,
                 const ReasoningTags& tags = {}) {
  ReasoningFilter filter(mode, tags);
  Outcome outcome;
  for (const std::string& delta : deltas) filter.Push(delta, &outcome.text, &outcome.reasoning);
  filter.Finish(&outcome.text, &outcome.reasoning);
  return outcome;
}

Outcome Separate(const std::string& text) { return Filtered(ReasoningMode::kSeparate, {text}); }
std::string Hide(const std::string& text) { return Filtered(ReasoningMode::kHide, {text}).text; }

TEST(ReasoningFilter, KeepsHidesOrSeparates) {
  const std::string text = "<think>Let me see.</think>\n\nIt is 4.";
  EXPECT_EQ(Filtered(ReasoningMode::kKeep, {text}).text, text);
  EXPECT_EQ(Hide(text), "It is 4.");
  EXPECT_EQ(Filtered(ReasoningMode::kHide, {text}).reasoning, "");
  EXPECT_EQ(Separate(text), (Outcome{"It is 4.", "Let me see."}));
}

TEST(ReasoningFilter, ReasoningMayStandAnywhereAndMoreThanOnce) {
  EXPECT_EQ(Separate("a <think>b</think> c<think>d</think>e"), (Outcome{"a c"
                                                                        "e",
                                                                        "bd"}));
  EXPECT_EQ(Separate("<think></think>x"), (Outcome{"x", ""}));
  EXPECT_EQ(Separate("no tags at all"), (Outcome{"no tags at all", ""}));
  EXPECT_EQ(Separate(""), (Outcome{"", ""}));
}

// A string of constrained JSON lost what stood between tags.
TEST(ReasoningFilter, LeadingReasoningLeavesTagsInTheAnswer) {
  for (const bool inside : {false, true}) {
    ReasoningFilter filter(ReasoningMode::kSeparate, {.begins_inside = inside, .leading = true});
    std::string text, reasoning;
    for (const char c :
         std::string(inside ? "" : " <think>") + "hm</think>\n{\"s\":\"<think>x</think>\"}<th")
      filter.Push({&c, 1}, &text, &reasoning);
    filter.Finish(&text, &reasoning);
    EXPECT_EQ(text, (inside ? "" : " ") + std::string("{\"s\":\"<think>x</think>\"}<th"));
    EXPECT_EQ(reasoning, "hm");
  }
  ReasoningFilter filter(ReasoningMode::kHide, {.leading = true});
  std::string text, reasoning;
  filter.Push("{\"<think>\":1}", &text, &reasoning);
  filter.Finish(&text, &reasoning);
  EXPECT_EQ(text, "{\"<think>\":1}");
}

// The choice " a" was returned as "a" after reasoning.
TEST(ReasoningFilter, KeepsSpaceThatBelongsToTheAnswer) {
  for (const bool keep : {false, true}) {
    ReasoningFilter filter(ReasoningMode::kSeparate,
                           {.begins_inside = true, .leading = true, .keep_space = keep});
    std::string text, reasoning;
    for (const char c : std::string("hm</think> \n a ")) filter.Push({&c, 1}, &text, &reasoning);
    filter.Finish(&text, &reasoning);
    EXPECT_EQ(text, keep ? " \n a " : "a ");
    EXPECT_EQ(reasoning, "hm");
  }
}

TEST(ReasoningFilter, ReasoningThatIsNeverClosedLastsToTheEnd) {
  EXPECT_EQ(Hide("a<think>b c"), "a");
  EXPECT_EQ(Separate("a<think>b c"), (Outcome{"a", "b c"}));
  EXPECT_EQ(Separate("<think>b</thin"), (Outcome{"", "b</thin"}));
  EXPECT_EQ(Filtered(ReasoningMode::kKeep, {"a<think>b"}).text, "a<think>b");
}

TEST(ReasoningFilter, WhatOnlyBeginsLikeATagIsText) {
  EXPECT_EQ(Hide("a < b <thin <Think> <think >"), "a < b <thin <Think> <think >");
  EXPECT_EQ(Hide("<<think>x</think>y"), "<y");
  EXPECT_EQ(Hide("<thi<think>x</think>y"), "<thiy");
  EXPECT_EQ(Hide("ends with <think"), "ends with <think");
  EXPECT_EQ(Hide("a</think>b"), "a</think>b") << "nothing was open";
  EXPECT_EQ(Separate("<think>a<think>b</think>c"), (Outcome{"c", "a<think>b"}));
}

TEST(ReasoningFilter, ATagSplitOverDeltasIsATag) {
  EXPECT_EQ(Filtered(ReasoningMode::kSeparate, {"a<", "thi", "nk>b<", "/think", ">", "\n", "c"}),
            (Outcome{"ac", "b"}));
}

TEST(ReasoningFilter, TextIsHeldBackOnlyWhileItMayBecomeATag) {
  ReasoningFilter filter(ReasoningMode::kHide);
  std::string text, reasoning;
  filter.Push("Hello <", &text, &reasoning);
  EXPECT_EQ(text, "Hello ");
  filter.Push("b", &text, &reasoning);
  EXPECT_EQ(text, "Hello <b");
  filter.Push("r>", &text, &reasoning);
  EXPECT_EQ(text, "Hello <br>");
}

TEST(ReasoningFilter, APromptMayHaveOpenedTheReasoning) {
  ReasoningTags tags;
  tags.begins_inside = true;
  EXPECT_EQ(Filtered(ReasoningMode::kSeparate, {"a</think>b"}, tags), (Outcome{"b", "a"}));
  EXPECT_EQ(Filtered(ReasoningMode::kHide, {"a"}, tags), (Outcome{"", ""}));
}

TEST(ReasoningFilter, OtherTagsWorkTheSame) {
  EXPECT_EQ(Filtered(ReasoningMode::kSeparate, {"[[[A]x[/A]y"}, {"[[A]", "[/A]"}),
            (Outcome{"[y", "x"}));
  EXPECT_EQ(Filtered(ReasoningMode::kSeparate, {"aaab", "x|y"}, {"aab", "|"}),
            (Outcome{"ay", "x"}));
  EXPECT_EQ(Filtered(ReasoningMode::kHide, {"\xE2\x97\x81t\xE2\x97\x82q\xE2\x97\x81z"},
                     {"\xE2\x97\x81t", "\xE2\x97\x82"})
                .text,
            "q\xE2\x97\x81z");
}

TEST(ReasoningFilter, ModesHaveTheirWords) {
  EXPECT_EQ(ParseReasoningMode("keep"), ReasoningMode::kKeep);
  EXPECT_EQ(ParseReasoningMode("hide"), ReasoningMode::kHide);
  EXPECT_EQ(ParseReasoningMode("separate"), ReasoningMode::kSeparate);
  EXPECT_FALSE(ParseReasoningMode("Keep").has_value());
  EXPECT_FALSE(ParseReasoningMode("").has_value());
}

// The output that the filter must give for a whole text, defined without states or deltas.
Outcome Defined(std::string_view text, const ReasoningTags& tags) {
  Outcome outcome;
  while (true) {
    const size_t open = text.find(tags.open);
    outcome.text += text.substr(0, open);
    if (open == std::string_view::npos) return outcome;
    text.remove_prefix(open + tags.open.size());
    const size_t close = text.find(tags.close);
    outcome.reasoning += text.substr(0, close);
    if (close == std::string_view::npos) return outcome;
    text.remove_prefix(close + tags.close.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  }
}

std::vector<std::string> CutAtRandom(const std::string& text, Random* random) {
  std::vector<std::string> deltas;
  for (size_t from = 0; from < text.size();) {
    const size_t size = random->Below(1 + random->Below(12));  // some are empty
    deltas.push_back(text.substr(from, size));
    from += size;
  }
  return deltas;
}

TEST(ReasoningFilter, AnySplitOfAnyTextGivesTheSame) {
  Random random(41);
  const std::vector<ReasoningTags> all_tags = {{}, {"aab", "ba"}, {"<<x", "x>>"}, {"a", "a"}};
  int with_reasoning = 0;
  for (int i = 0; i < 20000; ++i) {
    const ReasoningTags& tags = all_tags[random.Below(all_tags.size())];
    const std::vector<std::string> pieces = {
        tags.open, tags.close, "<", "a",  "b",
        "x",       ">",        " ", "\n", tags.open.substr(0, tags.open.size() / 2)};
    std::string text;
    for (uint64_t n = random.Below(24); n > 0; --n) text += pieces[random.Below(pieces.size())];
    const Outcome defined = Defined(text, tags);
    with_reasoning += defined.reasoning.empty() ? 0 : 1;
    const std::vector<std::string> deltas = CutAtRandom(text, &random);
    ASSERT_EQ(Filtered(ReasoningMode::kSeparate, deltas, tags), defined) << text;
    ASSERT_EQ(Filtered(ReasoningMode::kHide, deltas, tags), (Outcome{defined.text, ""})) << text;
    ASSERT_EQ(Filtered(ReasoningMode::kKeep, deltas, tags), (Outcome{text, ""})) << text;
  }
  EXPECT_GT(with_reasoning, 5000);
}

TEST(ReasoningFilter, EveryPlaceToCutATextGivesTheSame) {
  const std::string text = "a<think>b<</think>\n c<think";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      EXPECT_EQ(Filtered(ReasoningMode::kSeparate,
                         {text.substr(0, first), text.substr(first, second - first),
                          text.substr(second)}),
                (Outcome{"ac<think", "b<"}));
    }
  }
}

}  // namespace
}  // namespace tutti::api
