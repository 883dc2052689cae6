#include "services/cache/lexical_form.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::cache {
namespace {

Likeness Of(const std::string& a, const std::string& b) {
  const Likeness one = Compare(FormOf(a), FormOf(b));
  EXPECT_EQ(Compare(FormOf(b), FormOf(a)), one) << a << " | " << b;
  return one;
}

TEST(LexicalForm, PolitenessPunctuationAndFramesChangeNothing) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {"What is the capital of France?", "what's the capital of france"},
      {"What is the capital of France?", "Could you please tell me the capital of France?"},
      {"How do I install Python 3.11 on Debian?", "How to install Python 3.11 on Debian"},
      {"How can I boil an egg?", "Hi, how do you boil an egg please?"},
      {"I can't log in.", "I cannot log in"},
      {"I can't log in.", "i can not log in!"},
      {"What\xe2\x80\x99s the colour of the sky?", "What is the color of sky?"},
      {"Convert twenty-five miles to km", "Convert 25 miles to km"},
      {"Add 1,000 and 2", "add 1000 and two"},
      {"Hello, what are the planets? Thanks!", "What are the planets"},
      {"Explain \"zero copy\"", "please explain \xe2\x80\x9czero copy\xe2\x80\x9d"}};
  for (const auto& [a, b] : same) EXPECT_EQ(Of(a, b), Likeness::kSame) << a << " | " << b;
}

TEST(LexicalForm, WhatMattersDiffers) {
  const std::vector<std::pair<std::string, std::string>> different = {
      {"Is it open by default?", "Is it closed by default?"},
      {"Is water wet?", "Is water not wet?"},
      {"Which drugs can I take with wine?", "Which drugs can't I take with wine?"},
      {"Take 15 mg daily", "Take 50 mg daily"},
      {"Take 5 mg daily", "Take 5 g daily"},
      {"Fly from Paris to Rome", "Fly from Rome to Paris"},
      {"Convert USD to EUR", "Convert EUR to USD"},
      {"Is Anna older than Ben?", "Is Ben older than Anna?"},
      {"Who wrote Hamlet?", "Who wrote Macbeth?"},
      {"Population of Peru in 1990", "Population of Peru in 1991"},
      {"What happened on 2024-05-01?", "What happened on 2024-01-05?"},
      {"Weather on 3 May", "Weather on 4 May"},
      {"Call foo() in \"a.cc\"", "Call foo() in \"b.cc\""},
      {"Does US law allow it?", "Does us law allow it?"},
      {"Enable the firewall", "Disable the firewall"},
      {"Events before the war", "Events after the war"},
      {"Is he happy?", "Is he unhappy?"},
      {"x + y", "x - y"},
      {"Is 5 > 3?", "Is 5 < 3?"},
      {"Cost in $", "Cost in \xe2\x82\xac"},
      {"two cups of rice", "three cups of rice"},
      {"Bob's father", "Bob father's"},
      {"", "Hello"},
      {"?", "!"}};
  for (const auto& [a, b] : different) EXPECT_NE(Of(a, b), Likeness::kSame) << a << " | " << b;
  for (const auto& [a, b] : different) {
    if (a == "Take 5 mg daily" || a == "Cost in $" || a.starts_with("Does US")) continue;
    EXPECT_EQ(Of(a, b), Likeness::kDifferent) << a << " | " << b;
  }
}

TEST(LexicalForm, OtherWordsAreForWhoeverVerifies) {
  EXPECT_EQ(Of("How do I repair a bicycle?", "How do I fix a bicycle?"), Likeness::kOpen);
  EXPECT_EQ(Of("fastest way to learn chess", "quickest way to learn chess"), Likeness::kOpen);
}

TEST(LexicalForm, AnyBytesAreRead) {
  std::string all;
  for (int round = 0; round < 40; ++round) {
    for (int c = 0; c < 256; ++c) all += static_cast<char>(c * 7 + round);
  }
  (void)FormOf(all);
  for (const std::string text :
       {"'", "\"", "`", "''", "'a", "a'", "-", "--1", "1-", "1.,:/-2", "\xe2\x80", "\xff\xfe",
        "n't", "'s", "please", "the a an", "what is"}) {
    (void)FormOf(text);
  }
  EXPECT_TRUE(FormOf(std::string(kMaxFormBytes + 1, 'a')).words.empty());
  EXPECT_FALSE(FormOf(std::string(kMaxFormBytes, 'a')).words.empty());
  // Quotation marks without their other half do not make it slow.
  EXPECT_FALSE(FormOf(std::string(kMaxFormBytes / 2, '\'') + "x").words.empty());
  std::string halves;
  while (halves.size() < kMaxFormBytes - 8) halves += " 'a";
  EXPECT_FALSE(FormOf(halves).words.empty());
}

TEST(LexicalForm, ATextOfTheForm) {
  EXPECT_EQ(TextOf(FormOf("Could you tell me what's 5 + twenty one?")), "5 + 21");
  EXPECT_EQ(TextOf(FormOf("What is Bob's \"old car\"?")), "bob's old car");
}

TEST(LexicalForm, AnswersAgreeByTheirWords) {
  EXPECT_TRUE(AnswersAgree("The capital of France is Paris.", "Paris is the capital of France"));
  EXPECT_FALSE(
      AnswersAgree("The capital of France is Paris.", "The capital of France is not Paris."));
  EXPECT_FALSE(AnswersAgree("It was in 1990.", "It was in 1991."));
  EXPECT_FALSE(AnswersAgree("Red, green and blue.", "A long story about a river and its fish."));
  EXPECT_FALSE(AnswersAgree("", "x"));
}

}  // namespace
}  // namespace tutti::cache
