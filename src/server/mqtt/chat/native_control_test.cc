// The native profile's `.../ctl`: cancel, resume, history, fork, clear, ping.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/mqtt/chat/native_profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NativeControlTest : public testing::ProfileFixture {
 protected:
  // Publishes a verb of `user`, which must be accepted.
  void Control(const std::string& payload, const std::string& user = "alice") {
    EXPECT_TRUE(Accepted(Deliver(Topic("ctl", "s", user), payload, "", "c1")));
  }
  std::string SendMessage(const std::string& text, const std::string& id) {
    Deliver(Topic("in"), MessageJson(text, id));
    for (const testing::Event& event : Events(Topic("out"))) {
      if (event.Text("type") == "accepted" && event.Text("id") == id)
        return event.Text("response_id");
    }
    return "none";
  }
};

TEST_F(NativeControlTest, APingIsAnsweredWithTheWallClock) {
  Control(R"({"type":"ping","id":"p"})");
  const testing::Event pong = Only(Topic("out"), "pong");
  EXPECT_EQ(pong.Text("id"), "p");
  EXPECT_EQ(pong.Int("time_ms"), UnixSeconds()() * 1000);
  EXPECT_EQ(port_.sent(Topic("out"))[0].message.correlation_data, "c1");
  EXPECT_EQ(port_.sent(Topic("out"))[0].message.qos, 1);
}

TEST_F(NativeControlTest, ACancelEndsTheTurnAndSaysSoAfterItsEnd) {
  const std::string id = SendMessage("hello", "m1");
  inference_->Step();
  Settle();
  Control(R"({"type":"cancel","id":"c","response_id":")" + id + R"("})");
  EXPECT_THAT(Types(Topic("out")), ::testing::Not(::testing::Contains("cancelled")))
      << "it has not ended yet";
  StepAll();
  const std::vector<std::string> types = Types(Topic("out"));
  ASSERT_GE(types.size(), 2u);
  EXPECT_EQ(types[types.size() - 2], "response.cancelled");
  EXPECT_EQ(types.back(), "cancelled");
  EXPECT_EQ(Only(Topic("out"), "cancelled").Text("response_id"), id);
  EXPECT_EQ(SessionsFixture::HistoryText(Key("alice/s", "default", "")), "")
      << "nothing of it stays";
}

TEST_F(NativeControlTest, WithoutAResponseItEndsTheOneThatRunsAndWithNoneSaysSo) {
  Control(R"({"type":"cancel","id":"c0"})");
  EXPECT_EQ(Only(Topic("out"), "cancelled").Json("response_id"), "null");
  port_.Forget();
  const std::string first = SendMessage("one", "m1"), second = SendMessage("two", "m2");
  Control(R"({"type":"cancel","id":"c1"})");
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "cancelled").Text("response_id"), first);
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[two]");
}

TEST_F(NativeControlTest, ATurnThatWaitsCanBeCancelledToo) {
  SendMessage("one", "m1");
  const std::string second = SendMessage("two", "m2");
  Control(R"({"type":"cancel","response_id":")" + second + R"("})");
  Settle();
  EXPECT_EQ(Only(Topic("out"), "cancelled").Text("response_id"), second);
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[one]");
  EXPECT_EQ(inference_->requests().size(), 1u);
}

TEST_F(NativeControlTest, ACancelOfOneThatHasEndedIsAnsweredAtOnce) {
  const std::string id = SendMessage("one", "m1");
  StepAll();
  Control(R"({"type":"cancel","response_id":")" + id + R"("})");
  EXPECT_EQ(Only(Topic("out"), "cancelled").Text("response_id"), id);
  EXPECT_EQ(SessionsFixture::HistoryText(Key("alice/s", "default", "")), "one [one]");
}

TEST_F(NativeControlTest, AResumeGivesExactlyWhatFollows) {
  const std::string id = SendMessage("hello", "m1");
  StepAll();
  const auto response = Find(id, "");
  ASSERT_TRUE(response.ok());
  const int64_t last = (*response)->log().next() - 1;
  for (int64_t after = -1; after <= last; ++after) {
    port_.Forget();
    Control(R"({"type":"resume","id":"r","response_id":")" + id + "\"" +
            (after < 0 ? "" : ",\"starting_after\":" + std::to_string(after)) + "}");
    int64_t next = after + 1;
    for (const testing::Event& event : Events(Topic("out"))) {
      const int64_t number = event.Int("sequence_number");
      EXPECT_EQ(event.Int("first_sequence_number", number), next);
      next = number + 1;
    }
    EXPECT_EQ(next, last + 1) << "after " << after;
  }
}

TEST_F(NativeControlTest, AResumeOfALiveAnswerGoesOnToItsEnd) {
  const std::string id = SendMessage("hello", "m1");
  inference_->Step();
  Settle();
  port_.Forget();
  Control(R"({"type":"resume","response_id":")" + id + R"(","starting_after":3})");
  EXPECT_EQ(Events(Topic("out"))[0].Int("sequence_number"), 4);
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[hello]");
  EXPECT_EQ(profile_->statistics().waiting, 0u) << "the message's own stream was replaced";
}

// Regression: the resume ended at once, without an error.
TEST_F(NativeControlTest, AResumeBeyondTheEndIsRefusedWithTheLastNumber) {
  const std::string id = SendMessage("hello", "m1");
  StepAll();
  const auto response = Find(id, "");
  ASSERT_TRUE(response.ok());
  const int64_t last = (*response)->log().next() - 1;
  port_.Forget();
  Control(R"({"type":"resume","id":"r","response_id":")" + id + R"(","starting_after":)" +
          std::to_string(last + 1) + "}");
  const testing::Event refused = Only(Topic("out"), "error");
  EXPECT_EQ(refused.Code(), "invalid_value");
  EXPECT_EQ(refused.Text("param"), "starting_after");
  EXPECT_NE(refused.Text("message").find(std::to_string(last)), std::string::npos);
}

TEST_F(NativeControlTest, NobodyResumesOrCancelsAnothersResponse) {
  const std::string id = SendMessage("secret", "m1");
  for (const char* const verb : {"resume", "cancel"}) {
    Control(R"({"type":")" + std::string(verb) + R"(","response_id":")" + id + R"("})", "bob");
    const std::vector<testing::Event> told = Events(Topic("out", "s", "bob"));
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].Code(), "not_found");
    port_.Forget();
  }
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[secret]");
}

TEST_F(NativeControlTest, WhatIsNotThereIsNotFound) {
  Control(R"({"type":"resume","id":"r","response_id":"resp_0"})");
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "not_found");
  EXPECT_EQ(Only(Topic("out"), "error").Text("id"), "r");
}

TEST_F(NativeControlTest, EventsThatAreGoneAreToldAndTheRestFollows) {
  options_.log_bytes = 3000;
  Again();
  const std::string id =
      SendMessage("a text that is long enough for many events to be dropped", "m1");
  StepAll();
  port_.Forget();
  Control(R"({"type":"resume","id":"r","response_id":")" + id + R"(","starting_after":0})");
  ASSERT_GE(Events(Topic("out")).size(), 2u);
  EXPECT_EQ(Events(Topic("out"))[0].Code(), "expired");
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(),
            "[a text that is long enough for many events to be dropped]");
}

TEST_F(NativeControlTest, TheHistoryIsTheLastItemsOldestFirst) {
  for (const char* const word : {"1", "2", "3"}) {
    SendMessage("u" + std::string(word), "m" + std::string(word));
    StepAll();
  }
  Control(R"({"type":"history","id":"h","limit":3})");
  const testing::Event history = Only(Topic("out"), "history");
  EXPECT_EQ(history.Text("session"), "s");
  EXPECT_EQ(history.Int("version"), 3);
  EXPECT_EQ(history.Json("items"), R"([{"role":"assistant","content":"[u2]","turn":2},)"
                                   R"({"role":"user","content":"u3","turn":3},)"
                                   R"({"role":"assistant","content":"[u3]","turn":3}])");
  Control(R"({"type":"history","id":"h"})", "bob");
  EXPECT_EQ(Only(Topic("out", "s", "bob"), "error").Code(), "not_found");
}

TEST_F(NativeControlTest, AForkGoesOnFromWhatWasSaidAndTheTwoPart) {
  SendMessage("u1", "m1");
  StepAll();
  Control(R"({"type":"fork","id":"f","into":"other","version":1})");
  const testing::Event forked = Only(Topic("out"), "forked");
  EXPECT_EQ(forked.Text("into"), "other");
  Deliver(Topic("in", "other"), MessageJson("u2", "m1"));
  StepAll();
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2");
  SendMessage("u3", "m3");
  StepAll();
  EXPECT_EQ(LastPrompt(), "u1 [u1] u3");
  Control(R"({"type":"fork","id":"g","into":"third","version":1})");
  Deliver(Topic("in", "third"), MessageJson("u4", "m1"));
  StepAll();
  EXPECT_EQ(LastPrompt(), "u1 [u1] u4") << "as it was then";
  Control(R"({"type":"fork","into":"fourth","version":3})");
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "version_mismatch");
}

TEST_F(NativeControlTest, AClearedSessionBeginsAnewAndNoOtherDoes) {
  SendMessage("u1", "m1");
  StepAll();
  Deliver(Topic("in", "s", "bob"), MessageJson("b1", "m1"));
  StepAll();
  Control(R"({"type":"clear","id":"c"})");
  const testing::Event cleared = Only(Topic("out"), "cleared");
  EXPECT_EQ(cleared.Text("id"), "c");
  EXPECT_EQ(cleared.Text("session"), "s");
  SendMessage("u2", "m2");
  StepAll();
  EXPECT_EQ(LastPrompt(), "u2");
  Deliver(Topic("in", "s", "bob"), MessageJson("b2", "m2"));
  StepAll();
  EXPECT_EQ(LastPrompt(), "b1 [b1] b2");
}

TEST_F(NativeControlTest, OneUserHasOnlySoManyAnswersOnTheirWay) {
  profile_options_.streams.per_user = 2;
  Again();
  const std::string id = SendMessage("hello", "m1");
  const std::string resume = R"({"type":"resume","id":"r","response_id":")" + id + R"("})";
  Deliver(Topic("ctl"), resume, "llm/v1/alice/one");
  Deliver(Topic("ctl"), resume, "llm/v1/alice/two");
  EXPECT_EQ(Only("llm/v1/alice/two", "error").Code(), "tenant_concurrency");
  Deliver(Topic("in", "s", "bob"), MessageJson("hi", "m1"));
  StepAll();
  EXPECT_EQ(Only("llm/v1/alice/one", "response.completed").Answer(), "[hello]");
  EXPECT_EQ(Only(Topic("out", "s", "bob"), "response.completed").Answer(), "[hi]");
}

TEST_F(NativeControlTest, WrongVerbsAreErrorsWithTheClientsId) {
  Control(R"({"type":"dance","id":"x"})");
  EXPECT_EQ(Only(Topic("out"), "error").Text("id"), "x");
  port_.Forget();
  Deliver(Topic("ctl"), R"({"type":"ping","id":"y"})", "llm/v1/bob/s/out");
  ASSERT_EQ(port_.sent().size(), 1u);
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "insufficient_scope");
}

}  // namespace
}  // namespace tutti::mqtt::chat
