#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/mqtt_turns.h"

namespace tutti::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChatAnswer Answer(int prompt, int cached) {
  ChatAnswer answer;
  answer.prompt_tokens = prompt;
  answer.cached_tokens = cached;
  answer.output_tokens = 10;
  answer.events = 4;
  answer.accepted_s = 0.001, answer.first_s = 0.01, answer.end_s = 0.1;
  return answer;
}

TEST(MqttGate, IsMetOnItsSideOfTheLimit) {
  EXPECT_TRUE((MqttGate{"x", 0.75, 0.75}).met());
  EXPECT_FALSE((MqttGate{"x", 0.751, 0.75}).met());
  EXPECT_TRUE((MqttGate{"x", 0.95, 0.95, false}).met());
  EXPECT_FALSE((MqttGate{"x", 0.949, 0.95, false}).met());
  EXPECT_THAT((MqttGate{"both", 0.8, 0.75}).Line(),
              HasSubstr("both: 0.800, at most 0.750: MISSED"));
}

TEST(TransportSummary, RatesCountWhatWasAnsweredAndTimesToo) {
  std::vector<ChatAnswer> answers = {Answer(5, 0), Answer(5, 0), Answer(5, 0)};
  answers[1].status = Unavailable("x", "gone");
  answers[2].lost_deltas = true;
  const TransportSummary summary = Summarize(answers, 2);
  EXPECT_EQ(summary.answers, 3);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.lossy, 1);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 10);
  EXPECT_DOUBLE_EQ(summary.events_per_s, 4);
  EXPECT_THAT(summary.first_s, ElementsAre(0.01, 0.01));
}

TEST(CachedShare, CountsTurnsAfterTheFirstThatWereNotCut) {
  const std::vector<ChatAnswer> turns = {Answer(20, 0), Answer(50, 40), Answer(100, 90),
                                         Answer(60, 0), Answer(100, 70)};
  const CachedShare share = CachedShareOf(turns);
  EXPECT_EQ(share.turns, 3);
  EXPECT_EQ(share.cut, 1);
  EXPECT_DOUBLE_EQ(share.share, 200.0 / 250);
  EXPECT_EQ(CachedShareOf({}).turns, 0);
}

TEST(Secrets, AreFoundInAnswersOfOthersAlone) {
  EXPECT_EQ(ForeignSecretIn("it is " + SecretOf(7), 7, 100), -1);
  EXPECT_EQ(ForeignSecretIn("it is " + SecretOf(17), 7, 100), 17);
  EXPECT_EQ(ForeignSecretIn(SecretOf(100), 10, 101), 100);
  EXPECT_EQ(ForeignSecretIn("nothing", 0, 10), -1);
}

TEST(NativeEvents, AddUpToAnAnswer) {
  ChatAnswer answer;
  EXPECT_FALSE(ReadNativeEvent(R"({"type":"accepted","turn":3})", 0.001, &answer));
  EXPECT_FALSE(ReadNativeEvent(R"({"type":"response.created"})", 0.002, &answer));
  EXPECT_FALSE(
      ReadNativeEvent(R"({"type":"response.output_text.delta","delta":"a"})", 0.01, &answer));
  EXPECT_FALSE(
      ReadNativeEvent(R"({"type":"response.output_text.delta","delta":"b"})", 0.02, &answer));
  const std::string end = R"({"type":"response.completed","response":{"output":[{"content":[
      {"text":"ab"}]}],"usage":{"input_tokens":9,"output_tokens":2,
      "input_tokens_details":{"cached_tokens":4}}}})";
  EXPECT_TRUE(ReadNativeEvent(end, 0.03, &answer));
  EXPECT_TRUE(answer.status.ok());
  EXPECT_FALSE(answer.lost_deltas);
  EXPECT_EQ(answer.text, "ab");
  EXPECT_EQ(answer.turn, 3);
  EXPECT_EQ(answer.events, 5);
  EXPECT_DOUBLE_EQ(answer.accepted_s, 0.001);
  EXPECT_DOUBLE_EQ(answer.first_s, 0.01);
  EXPECT_DOUBLE_EQ(answer.end_s, 0.03);
  EXPECT_EQ(answer.prompt_tokens, 9);
  EXPECT_EQ(answer.cached_tokens, 4);
  ChatAnswer lossy;
  EXPECT_TRUE(ReadNativeEvent(end, 0.03, &lossy));
  EXPECT_TRUE(lossy.lost_deltas);
  EXPECT_EQ(lossy.text, "ab") << "the last event has it all";
}

TEST(NativeEvents, ThatTellOfAFailureEndTheAnswerWithIt) {
  ChatAnswer refused, failed, rubbish;
  EXPECT_TRUE(ReadNativeEvent(R"({"type":"error","code":"x","message":"no"})", 1, &refused));
  EXPECT_EQ(refused.status.message(), "no");
  EXPECT_TRUE(ReadNativeEvent(
      R"({"type":"response.failed","response":{"error":{"message":"bad"}}})", 1, &failed));
  EXPECT_EQ(failed.status.message(), "bad");
  EXPECT_FALSE(ReadNativeEvent("rubbish", 1, &rubbish));
}

}  // namespace
}  // namespace tutti::bench
