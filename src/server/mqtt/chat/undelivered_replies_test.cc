// Answers that an earlier process has accepted but not sent are sent by the next process, to their
// topics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Event;
using ::testing::IsEmpty;
using testing::Property;

class UndeliveredRepliesTest : public testing::ProfileFixture {
 protected:
  UndeliveredRepliesTest() {
    ProjectSettings project;
    project.name = "driving";
    project.tenant = "t";
    profile_options_.projects = {project};
  }
  // As after kill -9: another process opens the same store and loads its models.
  void Crash() {
    Again();
    Resume();
  }
  void Resume() {
    sessions_->Resume();
    profile_->Resume();
    Advance(milliseconds(100));
    StepAll();
  }
  int64_t CountOwed() { return AskStore("SELECT count(*) FROM owed"); }
};

TEST_F(UndeliveredRepliesTest, AcceptedAndTheFinalAreTheOnlyEventsAndComeOnce) {
  Deliver(Topic("in"), MessageJson("u1", "m1"), "", "corr");
  inference_->Step();
  Settle();
  EXPECT_EQ(CountOwed(), 1);
  Crash();
  EXPECT_THAT(Types(Topic("out")), ElementsAre("accepted", "response.completed"));
  EXPECT_EQ(Only(Topic("out"), "accepted").Text("id"), "m1");
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[u1]");
  EXPECT_EQ(port_.sent(Topic("out"))[1].message.correlation_data, "corr");
  EXPECT_EQ(CountOwed(), 0);
  Crash();
  EXPECT_THAT(port_.sent(Topic("out")), IsEmpty());
}

TEST_F(UndeliveredRepliesTest, TurnsThatWaitedAreToldInTheirOrderEachOnItsTopic) {
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Deliver(Topic("in"), MessageJson("u2", "m2"), "llm/v1/alice/inbox");
  Deliver(Topic("in", "other"), MessageJson("v1", "m1"));
  Deliver("driving/user_input",
          R"({"sessionId":"s","message":"w","clientId":"c","requestId":"r"})");
  Crash();
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[u1]");
  EXPECT_EQ(Only("llm/v1/alice/inbox", "response.completed").Answer(), "[u2]");
  EXPECT_EQ(Only(Topic("out", "other"), "response.completed").Answer(), "[v1]");
  const std::vector<testing::Sent> reply = port_.sent("driving/assistant_response/s/c/r");
  ASSERT_EQ(reply.size(), 1u);
  EXPECT_EQ(reply[0].message.payload, "[w]");
  EXPECT_EQ(Property(reply[0].message, "requestId"), "r");
  EXPECT_EQ(Property(reply[0].message, "seq"), "1");
  EXPECT_EQ(CountOwed(), 0);
}

// Regression: their topics were dropped without a log line.
TEST_F(UndeliveredRepliesTest, WhatBelongsToNoTopicOfItsOwnAnyMoreIsLogged) {
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Deliver("driving/user_input", R"({"sessionId":"s","message":"w"})");
  EXPECT_EQ(CountOwed(), 2);
  ASSERT_TRUE(Change("UPDATE owed SET reply_to=replace(reply_to, 'assistant_response/s', "
                     "'assistant_response/t')")
                  .ok());
  profile_options_.prefix = "house";
  Crash();
  EXPECT_THAT(port_.sent("driving/assistant_response/t"), IsEmpty());
  EXPECT_THAT(lines_->all(), ::testing::HasSubstr("mqtt.refused topic=llm/v1/alice/s/out"));
  EXPECT_THAT(lines_->all(),
              ::testing::HasSubstr("mqtt.refused topic=driving/assistant_response/t"));
}

TEST_F(UndeliveredRepliesTest, AnAnswerThatHadEndedAndNotArrivedIsTold) {
  port_.outcome = [](const Message&) { return Unavailable("draining", "the link is gone"); };
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Deliver("driving/user_input", R"({"sessionId":"s","message":"w"})");
  StepAll();
  EXPECT_EQ(CountOwed(), 2);
  Crash();
  EXPECT_THAT(Types(Topic("out")), ElementsAre("accepted", "response.completed"));
  EXPECT_EQ(port_.sent("driving/assistant_response/s").size(), 1u);
  EXPECT_EQ(CountOwed(), 0);
  EXPECT_EQ(inference_->requests().size(), 0u) << "nothing is said again by the model";
}

// Regression: after a restart the second answer was sent before the first, which was still being
// read from the store.
TEST_F(UndeliveredRepliesTest, WhatHadEndedIsToldBeforeWhatEndsNowAndWhatIsSaidSince) {
  port_.outcome = [](const Message&) { return Unavailable("draining", "the link is gone"); };
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  StepAll();
  Deliver(Topic("in"), MessageJson("u2", "m2"));
  Again();
  profile_->Start();
  Deliver(Topic("in"), MessageJson("u3", "m3"));
  StepAll();
  EXPECT_THAT(Types(Topic("out")), ::testing::Not(::testing::Contains("response.completed")))
      << "the first is not told before all models are there";
  Resume();
  std::vector<std::string> answers;
  for (const Event& event : Events(Topic("out"))) {
    if (event.Text("type") == "response.completed") answers.push_back(event.Answer());
  }
  EXPECT_THAT(answers, ElementsAre("[u1]", "[u2]", "[u3]"));
  EXPECT_EQ(CountOwed(), 0);
}

TEST_F(UndeliveredRepliesTest, WhatHasArrivedIsNotToldAgain) {
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Deliver("driving/user_input", R"({"sessionId":"s","message":"w"})");
  StepAll();
  EXPECT_EQ(CountOwed(), 0);
  Crash();
  EXPECT_THAT(port_.sent(), IsEmpty());
}

TEST_F(UndeliveredRepliesTest, WhoIsNotBackYetHearsItWhenHeIs) {
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Again();
  bool listens = false;
  port_.outcome = [&](const Message&) {
    return listens ? OkStatus() : NotFound("not_found", "nobody has subscribed");
  };
  Resume();
  for (int i = 0; i < 3; ++i) Advance(seconds(5));
  EXPECT_THAT(port_.sent(Topic("out")), IsEmpty());
  EXPECT_EQ(CountOwed(), 1);
  listens = true;
  Advance(seconds(30));
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[u1]");
  EXPECT_EQ(CountOwed(), 0);
}

TEST_F(UndeliveredRepliesTest, TheTransportsRepetitionOfTheMessageAddsNothing) {
  Message message;
  message.topic = Topic("in");
  message.payload = MessageJson("u1", "m1");
  message.qos = 1;
  Deliver(message);
  Again();
  message.redelivered = true;
  sessions_->Resume();
  profile_->Resume();
  Advance(milliseconds(100));
  EXPECT_TRUE(Accepted(Deliver(message))) << "while it is on its way";
  StepAll();
  EXPECT_TRUE(Accepted(Deliver(message))) << "when it has arrived";
  EXPECT_THAT(Types(Topic("out")), ElementsAre("accepted", "response.completed"));
  message.redelivered = false;
  Deliver(message);
  const std::vector<std::string> types = Types(Topic("out"));
  ASSERT_GT(types.size(), 4u) << "each client is answered";
  EXPECT_EQ(types[2], "accepted") << "from the first event on";
  EXPECT_EQ(types.back(), "response.completed");
  EXPECT_EQ(inference_->requests().size(), 1u);
}

TEST_F(UndeliveredRepliesTest, AResumeThatTakesTheAnswersPlaceTakesOverThatItIsOwed) {
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  const std::string id = Only(Topic("out"), "accepted").Text("response_id");
  Deliver(Topic("ctl"), R"({"type":"resume","response_id":")" + id + R"("})");
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[u1]");
  EXPECT_EQ(CountOwed(), 0);
}

TEST_F(UndeliveredRepliesTest, AnotherWayInAndAProjectThatIsGoneAreLeftAsTheyAre) {
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Deliver("driving/user_input", R"({"sessionId":"s","message":"w"})");
  profile_options_.server = "another";
  Crash();
  EXPECT_THAT(port_.sent(), IsEmpty());
  profile_options_.server = "mqtt";
  profile_options_.projects.clear();
  Crash();
  EXPECT_EQ(port_.sent().size(), 2u);
  EXPECT_EQ(CountOwed(), 1);
}

TEST_F(UndeliveredRepliesTest, ManyAreToldByThePage) {
  for (int i = 0; i < 150; ++i)
    Deliver(Topic("in", "s" + std::to_string(i)), MessageJson("u", "m"));
  Again();
  sessions_->Resume();
  profile_->Resume();
  for (int i = 0; i < 10; ++i) Advance(milliseconds(50));
  StepAll();
  for (int i = 0; i < 150; ++i)
    EXPECT_EQ(Only(Topic("out", "s" + std::to_string(i)), "response.completed").Answer(), "[u]");
  EXPECT_EQ(CountOwed(), 0);
}

TEST_F(UndeliveredRepliesTest, StoppingWaitsForWhatBecameOfALastMessage) {
  profile_->Start();
  port_.holds = true;
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  StepAll();
  EXPECT_EQ(CountOwed(), 1) << "nobody knows whether it has arrived";
  std::thread broker([this] {
    std::this_thread::sleep_for(milliseconds(50));
    port_.ReportHeld();
  });
  Stop();
  broker.join();
  port_.holds = false;
  Start();
  EXPECT_EQ(CountOwed(), 0);
}

}  // namespace
}  // namespace tutti::mqtt::chat
