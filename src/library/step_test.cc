// Stepping on demand (U62): the tokens of one-shot generation, one at a time, on any thread.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/utf8.h"
#include "library/testing/models.h"

namespace tutti {
namespace {

using library::testing::Amount;
using library::testing::Greedy;
using library::testing::Prompts;
using library::testing::RealModel;
using library::testing::Sampled;
using library::testing::TinyModel;
using library::testing::TinyOptions;

struct Stepped {
  std::vector<TokenId> tokens;
  std::string text;
  int steps = 0;
  bool pieces_valid = true;
};

bool IsWholeUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeAt(text, at);
    if (!point.valid) return false;
    at += static_cast<size_t>(point.length);
  }
  return true;
}

void Take(Stepped& out, const StepResult& step) {
  ++out.steps;
  if (step.id != Token::kNone) out.tokens.push_back(step.id);
  out.text += step.text;
  out.pieces_valid = out.pieces_valid && IsWholeUtf8(step.text);
}

Stepped StepThrough(const Model& model, Request request) {
  StepState state = model.CreateState(std::move(request)).value();
  Stepped out;
  while (!state.done()) Take(out, model.Step(state).value());
  return out;
}

// All requests at once, on as many threads as requests / 8: steps of different states share
// forwards.
std::vector<Stepped> StepTogether(const Model& model, const std::vector<Request>& requests) {
  std::vector<Stepped> out(requests.size());
  std::vector<std::thread> threads;
  std::atomic<size_t> next{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < requests.size(); at = next++)
        out[at] = StepThrough(model, requests[at]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

std::vector<Completion> OneShot(const Model& model, const std::vector<Request>& requests) {
  std::vector<Job> jobs;
  for (const Request& request : requests) jobs.push_back(model.Submit(request).value());
  std::vector<Completion> out;
  for (Job& job : jobs) out.push_back(job.Join().value());
  return out;
}

void ExpectSteppingEqualsOneShot(const Model& model, int prompts, int tokens) {
  std::vector<Request> requests;
  for (const std::string& prompt : Prompts(prompts)) {
    requests.push_back(Greedy(prompt, tokens));
    requests.push_back(Sampled(prompt, tokens, static_cast<int64_t>(requests.size())));
  }
  const std::vector<Completion> whole = OneShot(model, requests);
  const std::vector<Stepped> stepped = StepTogether(model, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(stepped[i].tokens, whole[i].tokens()) << i;
    EXPECT_EQ(stepped[i].tokens.size(), static_cast<size_t>(tokens)) << i;
    EXPECT_EQ(stepped[i].text, whole[i].text()) << i;
    EXPECT_EQ(stepped[i].steps, tokens) << "done comes with the last token";
    EXPECT_TRUE(stepped[i].pieces_valid) << i;
  }
}

TEST(StepTest, FiftyPromptsSteppedEqualOneShotGreedyAndSeededOnTheRealModel) {
  ExpectSteppingEqualsOneShot(RealModel(), Amount(50, 3), Amount(12, 4));
}

TEST(StepTest, FiftyPromptsSteppedEqualOneShotOnAModelOfWildBytes) {
  ExpectSteppingEqualsOneShot(TinyModel(TinyOptions()), Amount(50, 10), 40);
}

TEST(StepTest, AStateMayMoveToAnotherThreadBetweenSteps) {
  const Model model = TinyModel(TinyOptions());
  const Completion whole = model.Generate(Sampled("The sea is", 24, 5)).value();
  StepState state = model.CreateState(Sampled("The sea is", 24, 5)).value();
  Stepped out;
  while (!state.done()) {
    // The state itself goes along: out to the thread and back.
    std::thread([&, moved = std::move(state)]() mutable {
      Take(out, model.Step(moved).value());
      state = std::move(moved);
    }).join();
  }
  EXPECT_EQ(out.tokens, whole.tokens());
  EXPECT_EQ(out.text, whole.text());
}

TEST(StepTest, StatesInTurnDoNotTouchEachOther) {
  const Model model = TinyModel(TinyOptions());
  const Completion first = model.Generate(Greedy("The sea is", 16)).value();
  const Completion second = model.Generate(Sampled("x", 16, 3)).value();
  StepState a = model.CreateState(Greedy("The sea is", 16)).value();
  StepState b = model.CreateState(Sampled("x", 16, 3)).value();
  while (!a.done() || !b.done()) {
    ASSERT_TRUE(model.Step(a).ok());
    ASSERT_TRUE(model.Step(b).ok());
  }
  EXPECT_EQ(a.completion().tokens(), first.tokens());
  EXPECT_EQ(b.completion().tokens(), second.tokens());
  EXPECT_EQ(b.completion().text(), second.text());
}

TEST(StepTest, AStopStringEndsTheStateAsItEndsTheAnswer) {
  const Model model = TinyModel(TinyOptions());
  Request request = Greedy("The sea is", 40);
  const std::string text = model.Generate(request).value().text();
  ASSERT_GT(text.size(), 12u);
  // A part from the middle of the answer, on character boundaries.
  size_t from = text.size() / 2, to = from + 4;
  while ((text[from] & 0xC0) == 0x80) --from;
  while (to < text.size() && (text[to] & 0xC0) == 0x80) ++to;
  request.sampling.stop = {text.substr(from, to - from)};
  const Completion whole = model.Generate(request).value();
  ASSERT_EQ(whole.finish_reason(), FinishReason::kStop);
  StepState state = model.CreateState(request).value();
  Stepped out;
  while (!state.done()) Take(out, model.Step(state).value());
  EXPECT_EQ(out.tokens, whole.tokens());
  EXPECT_EQ(out.text, whole.text());
  EXPECT_EQ(state.completion().finish_reason(), FinishReason::kStop);
  EXPECT_EQ(state.completion().choices[0].stop_reason, whole.choices[0].stop_reason);
}

TEST(StepTest, WaitingStatesHoldNoLaneAndGiveEverythingBack) {
  const Model model = TinyModel(TinyOptions().MaxNumSeqs(2));
  std::vector<StepState> states;
  for (int i = 0; i < 40; ++i) states.push_back(model.CreateState(Greedy("hello", 50)).value());
  for (StepState& state : states) ASSERT_TRUE(model.Step(state).ok());
  EXPECT_EQ(model.Generate(Greedy("The sea is", 8)).value().tokens().size(), 8u)
      << "others get through";
  EXPECT_EQ(states.front().position(),
            static_cast<int>(model.Tokenize(Text{"hello"}).value().size()) + 1);
  states.clear();
  ASSERT_TRUE(model.Generate(Greedy("x", 1)).ok());  // a step after the cancels
  EXPECT_EQ(model.stats().running + model.stats().waiting, 0);
}

TEST(StepTest, AfterTheEndAStepSaysSoAgain) {
  const Model model = TinyModel(TinyOptions());
  StepState state = model.CreateState(Text{"hello"}, 1).value();
  const StepResult only = model.Step(state).value();
  EXPECT_NE(only.id, Token::kNone);
  EXPECT_TRUE(only.done);
  const StepResult after = model.Step(state).value();
  EXPECT_EQ(after.id, Token::kNone);
  EXPECT_EQ(after.text, "");
  EXPECT_TRUE(after.done);
}

TEST(StepTest, WhatCannotBeSteppedIsRefusedByName) {
  const Model model = TinyModel(TinyOptions());
  EXPECT_EQ(model.CreateState(Text{"hello"}, 0).error().reason(), "invalid_value");
  EXPECT_EQ(model.CreateState(Text{""}, 4).error().reason(), "empty_prompt");
  EXPECT_EQ(model.CreateState(Text{"hello"}, 1 << 20).error().reason(), "context_length_exceeded");
  Request two = Greedy("hello", 4);
  two.n = 2;
  EXPECT_EQ(model.CreateState(two).error().reason(), "invalid_value");
}

TEST(StepTest, ADeadlineEndsAStateWithItsCode) {
  const Model model = TinyModel(TinyOptions());
  Request request = Greedy("hello", 100);
  request.timeout = std::chrono::seconds(1);  // a loaded machine takes its first step late
  StepState state = model.CreateState(request).value();
  ASSERT_TRUE(model.Step(state).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  Expected<StepResult> late = model.Step(state);
  if (late.ok()) late = model.Step(state);  // the first may still have found the token of its grant
  EXPECT_EQ(late.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(model.Step(state).error().reason(), "deadline_exceeded") << "and says so again";
}

}  // namespace
}  // namespace tutti
