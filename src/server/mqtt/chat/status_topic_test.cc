#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::seconds;
using testing::Event;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kServer = "llm/v1/server/node-1/status";
constexpr const char* kProject = "driving/status";

class StatusTopicTest : public testing::ProfileFixture {
 protected:
  StatusTopicTest() {
    ProjectSettings project;
    project.name = "driving";
    profile_options_.projects = {project};
    profile_options_.version = "1.2.3";
  }
  void Begin() {
    profile_->Start();
    Settle();
  }
};

TEST_F(StatusTopicTest, TheServerSaysThatItIsThereWithItsModelsVersionAndLoad) {
  Begin();
  ASSERT_THAT(port_.sent(kServer), SizeIs(1));
  const Message status = port_.sent(kServer)[0].message;
  EXPECT_TRUE(status.retain);
  EXPECT_EQ(status.qos, 1);
  EXPECT_EQ(status.payload,
            R"({"online":true,"models":["small","other"],"version":"1.2.3",)"
            R"("load":{"server_load":5,"running":2,"waiting":3,"lanes":4,"max_num_seqs":4,)"
            R"("kv_blocks_used":5,"kv_blocks_total":6,"level":"green"}})");
}

TEST_F(StatusTopicTest, EachProjectIsToldToo) {
  Begin();
  ASSERT_THAT(port_.sent(kProject), SizeIs(1));
  const Event status(port_.sent(kProject)[0].message.payload);
  EXPECT_EQ(status.Text("service"), "tutti");
  EXPECT_EQ(status.Text("status"), "online");
  EXPECT_EQ(status.Int("ts"), UnixSeconds()());
  EXPECT_TRUE(port_.sent(kProject)[0].message.retain);
}

TEST_F(StatusTopicTest, ItSaysSoEveryThirtySeconds) {
  Begin();
  for (int i = 0; i < 29; ++i) Advance(seconds(1));
  EXPECT_THAT(port_.sent(kServer), SizeIs(1));
  Advance(seconds(1));
  EXPECT_THAT(port_.sent(kServer), SizeIs(2));
  for (int i = 0; i < 90; ++i) Advance(seconds(1));
  EXPECT_THAT(port_.sent(kServer), SizeIs(5));
  EXPECT_THAT(port_.sent(kProject), SizeIs(5));
}

TEST_F(StatusTopicTest, AnnouncedItSaysSoAtOnce) {
  Begin();
  profile_->Announce();
  Settle();
  EXPECT_THAT(port_.sent(kServer), SizeIs(2));
}

TEST_F(StatusTopicTest, ACleanStopIsToldAndTheWillSaysTheSame) {
  Begin();
  profile_->Stop();
  const std::vector<testing::Sent> sent = port_.sent(kServer);
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[1].message.payload, R"({"online":false})");
  EXPECT_TRUE(sent[1].message.retain);
  const Message will = profile_->Will();
  EXPECT_EQ(will.topic, kServer);
  EXPECT_EQ(will.payload, sent[1].message.payload);
  EXPECT_TRUE(will.retain);
  EXPECT_EQ(Event(port_.sent(kProject).back().message.payload).Text("status"), "offline");
}

TEST_F(StatusTopicTest, OneThatNeverStartedSaysNothing) {
  profile_->Stop();
  EXPECT_THAT(port_.sent(), ::testing::IsEmpty());
}

TEST_F(StatusTopicTest, StatisticsAreALineEveryMinute) {
  Begin();
  Deliver(Topic("in"), MessageJson("hi", "m1"));
  StepAll();
  for (int i = 0; i < 60; ++i) Advance(seconds(1));
  EXPECT_THAT(lines_->all(), HasSubstr("mqtt.statistics processed=1 errors=0 rejected=0 queue=0 "
                                       "average_ms=0.000"));
}

TEST(ProfileOptionsTest, NamesThatAreNoLevelsAreRefused) {
  EXPECT_FALSE(NativeTopics::Make("llm/+").ok());
  EXPECT_FALSE(NativeTopics::Make("").ok());
  EXPECT_FALSE(NativeTopics::Make("/llm").ok());
  EXPECT_TRUE(NativeTopics::Make("llm").ok());
}

}  // namespace
}  // namespace tutti::mqtt::chat
