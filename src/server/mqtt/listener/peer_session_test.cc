// State that outlasts a connection: sessions, unacknowledged messages, Wills, and take-over by
// another connection.
#include <gtest/gtest.h>

#include "server/mqtt/listener/testing/world.h"

namespace tutti::mqtt::listener::testing {
namespace {

using std::chrono::seconds;

constexpr const char* kStatus = "llm/v1/alice/status";

class PeerSessionTest : public ::testing::Test {
 protected:
  static mqtt::Connect Resuming(uint32_t expiry_s = 100) {
    return {.clean_start = false, .client_id = "c", .properties = {.session_expiry_s = expiry_s}};
  }
  static mqtt::Connect WithWill(uint32_t delay_s, uint32_t expiry_s = 0) {
    return {
        .clean_start = false,
        .client_id = "c",
        .will = Will{.topic = kStatus, .payload = "gone", .properties = {.will_delay_s = delay_s}},
        .properties = {.session_expiry_s = expiry_s}};
  }
  // Wills that this process has seen.
  size_t Wills() {
    return static_cast<size_t>(
        std::count_if(world_.taken.begin(), world_.taken.end(),
                      [](const World::Taken& each) { return each.message.payload == "gone"; }));
  }
  World world_;
};

TEST_F(PeerSessionTest, ASessionEndsWithItsConnectionUnlessItIsToLast) {
  for (const Version version : {Version::k311, Version::k5}) {
    Client client(world_, version);
    client.Connect("c");
    EXPECT_EQ(world_.hub.sessions(), 1u);
    client.Gone();
    EXPECT_EQ(world_.hub.sessions(), 0u);
  }
}

TEST_F(PeerSessionTest, WhatWasPublishedMeanwhileIsSentWhenTheClientIsBack) {
  for (const Version version : {Version::k311, Version::k5}) {
    {
      Client client(world_, version);
      client.Connect(Resuming());
      EXPECT_FALSE(client.Next<Connack>().session_present);
      client.Subscribe(kOut);
    }
    world_.Publish({.topic = kOut, .payload = "hint", .qos = 0});
    EXPECT_EQ(world_.Publish({.topic = kOut, .payload = "kept", .qos = 1}), 1u);
    Client again(world_, version);
    again.Connect(Resuming());
    EXPECT_TRUE(again.Next<Connack>().session_present);
    EXPECT_EQ(again.Next<mqtt::Publish>().payload, "kept");
    again.Gone();
    Client clean(world_, version);
    clean.Connect("c");
    EXPECT_FALSE(clean.Next<Connack>().session_present);
  }
}

TEST_F(PeerSessionTest, WhatWasNotAcknowledgedIsSentAgainWithItsIdAndFirst) {
  uint16_t second_id = 0;
  {
    Client client(world_, Version::k5);
    client.Connect(Resuming());
    client.Next<Connack>();
    client.Subscribe(kOut);
    for (const char* payload : {"1", "2", "3"}) {
      world_.Publish({.topic = kOut, .payload = payload, .qos = 1});
    }
    const uint16_t first = client.Next<mqtt::Publish>().packet_id;
    second_id = client.Next<mqtt::Publish>().packet_id;
    client.Send(Puback{.packet_id = first});
  }
  world_.Publish({.topic = kOut, .payload = "4", .qos = 1});
  Client again(world_, Version::k5);
  again.Connect(Resuming());
  again.Next<Connack>();
  const mqtt::Publish second = again.Next<mqtt::Publish>();
  EXPECT_EQ(second.payload, "2");
  EXPECT_TRUE(second.dup);
  EXPECT_EQ(second.packet_id, second_id);
  EXPECT_TRUE(again.Next<mqtt::Publish>().dup);
  const mqtt::Publish fourth = again.Next<mqtt::Publish>();
  EXPECT_EQ(fourth.payload, "4");
  EXPECT_FALSE(fourth.dup);
  EXPECT_TRUE(again.Quiet());
}

TEST_F(PeerSessionTest, ASessionEndsWhenItsTimeIsOver) {
  {
    Client client(world_, Version::k5);
    client.Connect(Resuming(100));
  }
  world_.Advance(seconds(99));
  EXPECT_EQ(world_.hub.sessions(), 1u);
  EXPECT_EQ(world_.hub.due(), world_.clock.Now() + seconds(1));
  world_.Advance(seconds(1));
  EXPECT_EQ(world_.hub.sessions(), 0u);
  EXPECT_EQ(world_.hub.due(), TimePoint::max());
}

TEST_F(PeerSessionTest, NoSessionLastsLongerThanTheServersLimitWhichIsTold) {
  Client client(world_, Version::k5);
  client.Connect(Resuming(kNeverExpires));
  EXPECT_EQ(client.Next<Connack>().properties.session_expiry_s, 86'400u);
}

TEST_F(PeerSessionTest, DisconnectMayShortenASessionButNotMakeOne) {
  {
    Client client(world_, Version::k5);
    client.Connect(Resuming(100));
    client.Send(Disconnect{.properties = {.session_expiry_s = 10}});
    EXPECT_TRUE(client.ended);
  }
  world_.Advance(seconds(10));
  EXPECT_EQ(world_.hub.sessions(), 0u);
  Client client(world_, Version::k5);
  client.Connect("c");
  client.Next<Connack>();
  client.Send(Disconnect{.properties = {.session_expiry_s = 10}});
  EXPECT_EQ(client.Next<Disconnect>().reason, ReasonCode::kProtocolError);
  EXPECT_EQ(world_.hub.sessions(), 0u);
}

TEST_F(PeerSessionTest, AnotherConnectionOfTheSameIdTakesTheSessionOver) {
  Client first(world_, Version::k5), second(world_, Version::k5);
  first.Connect(Resuming());
  first.Next<Connack>();
  first.Subscribe(kOut);
  second.Connect(Resuming());
  EXPECT_EQ(first.Next<Disconnect>().reason, ReasonCode::kSessionTakenOver);
  EXPECT_TRUE(first.ended);
  EXPECT_TRUE(second.Next<Connack>().session_present);
  world_.Publish({.topic = kOut, .qos = 1});
  second.Next<mqtt::Publish>();
  first.Gone();
  EXPECT_EQ(world_.hub.sessions(), 1u) << "the first one's end does not touch it";
  EXPECT_EQ(world_.Publish({.topic = kOut, .qos = 1}), 1u);
}

TEST_F(PeerSessionTest, WhatIsTakenOverFromASessionWithoutTimeIsNothing) {
  Client first(world_, Version::k5), second(world_, Version::k5);
  first.Connect("c");
  first.Next<Connack>();
  first.Subscribe(kOut);
  second.Connect(mqtt::Connect{.clean_start = false, .client_id = "c"});
  EXPECT_FALSE(second.Next<Connack>().session_present);
  EXPECT_EQ(world_.Publish({.topic = kOut, .qos = 1}), 0u);
}

TEST_F(PeerSessionTest, TheSameIdOfAnotherUserOrTenantIsAnotherSession) {
  Client alice(world_, Version::k5), bob(world_, Version::k5), other(world_, Version::k5);
  alice.Connect(Resuming(), "alice", "t");
  alice.Next<Connack>();
  alice.Subscribe(kOut);
  bob.Connect(Resuming(), "bob", "t");
  EXPECT_FALSE(bob.Next<Connack>().session_present);
  other.Connect(Resuming(), "alice", "u");
  EXPECT_FALSE(other.Next<Connack>().session_present);
  EXPECT_FALSE(alice.ended);
  world_.Publish({.topic = kOut, .qos = 1});
  EXPECT_TRUE(bob.Quiet() && other.Quiet());
  alice.Next<mqtt::Publish>();
}

TEST_F(PeerSessionTest, WhatAUserMayNoLongerReadIsNotResumed) {
  {
    Client client(world_, Version::k5);
    client.Connect(Resuming());
    client.Next<Connack>();
    client.Subscribe("llm/v1/server/#");
    client.Subscribe(kOut);
  }
  Client again(world_, Version::k5);
  again.Send(Resuming());
  Principal less = *UserPrincipal("llm/v1", "alice", "t");
  less.subscribe = {kOut};
  again.Answer(less);
  again.Next<Connack>();
  EXPECT_EQ(world_.Publish({.topic = "llm/v1/server/n/status"}), 0u);
  EXPECT_EQ(world_.Publish({.topic = kOut}), 1u);
}

TEST_F(PeerSessionTest, AWillIsPublishedUnlessTheClientSaidGoodbye) {
  world_.TakeAll("llm/v1/+/status");
  const auto end = [&](auto how) {
    world_.taken.clear();
    Client client(world_, Version::k5);
    client.Connect(WithWill(0));
    how(client);
    client.Gone();
    return Wills();
  };
  EXPECT_EQ(end([](Client& client) { client.Send(Disconnect()); }), 0u);
  EXPECT_EQ(end([](Client& client) {
              client.Send(Disconnect{.reason = ReasonCode::kDisconnectWithWill});
            }),
            1u);
  EXPECT_EQ(end([](Client&) {}), 1u) << "lost";
  EXPECT_EQ(end([](Client& client) { client.Send(Connack()); }), 1u) << "a protocol error";
  EXPECT_EQ(end([&](Client& client) {
              world_.Advance(seconds(450));
              client.OnTime();
            }),
            1u)
      << "silence";
  EXPECT_EQ(end([](Client& client) { client.Shutdown(); }), 0u) << "the server ends";
  EXPECT_EQ(end([](Client& client) { client.Revoke(""); }), 0u) << "its key is revoked";
}

// Regression: the reason named a revoked key although the certificate had expired.
TEST_F(PeerSessionTest, WhoseCertificateEndsIsNotToldOfAKey) {
  const auto last_words = [&](std::optional<int64_t> expires_s) {
    Client client(world_, Version::k5);
    client.Send(mqtt::Connect{.version = Version::k5, .client_id = "c"});
    Principal principal = *UserPrincipal("llm/v1", "alice", "t");
    principal.expires_s = expires_s;
    client.Answer(std::move(principal));
    client.Next<Connack>();
    client.Revoke("");
    const auto goodbye = client.Next<Disconnect>();
    EXPECT_EQ(goodbye.reason, ReasonCode::kNotAuthorized);
    return goodbye.properties.reason_string.value_or("");
  };
  EXPECT_EQ(last_words(1), "its client certificate has expired or was withdrawn");
  EXPECT_EQ(last_words({}), "its key or password has expired or was revoked");
}

TEST_F(PeerSessionTest, AWillTellsWhoItIsOfAndReachesSubscribers) {
  world_.TakeAll("llm/v1/+/status");
  Client watcher(world_, Version::k311);
  watcher.Connect("watcher");
  watcher.Next<Connack>();
  watcher.Subscribe("llm/v1/alice/#");
  Client client(world_, Version::k311);
  mqtt::Connect connect = WithWill(0);
  connect.will->retain = true;
  client.Connect(connect);
  client.Gone();
  ASSERT_EQ(world_.taken.size(), 1u);
  EXPECT_EQ(world_.taken[0].message.user, "alice");
  EXPECT_EQ(world_.taken[0].message.client_id, "c");
  EXPECT_FALSE(world_.taken[0].message.retain) << "who takes it takes it live";
  EXPECT_EQ(watcher.Next<mqtt::Publish>().payload, "gone");
  EXPECT_EQ(world_.hub.retained(), 1u);
}

TEST_F(PeerSessionTest, ADelayedWillWaitsAndIsDroppedWhenTheClientIsBack) {
  world_.TakeAll("llm/v1/+/status");
  {
    Client client(world_, Version::k5);
    client.Connect(WithWill(10, 100));
  }
  world_.Advance(seconds(9));
  EXPECT_EQ(Wills(), 0u);
  {
    Client again(world_, Version::k5);
    again.Connect(WithWill(10, 100));
    world_.Advance(seconds(50));
    EXPECT_EQ(Wills(), 0u);
  }
  world_.Advance(seconds(10));
  EXPECT_EQ(Wills(), 1u);
  world_.Advance(seconds(90));
  EXPECT_EQ(Wills(), 1u) << "once";
  EXPECT_EQ(world_.hub.sessions(), 0u);
}

TEST_F(PeerSessionTest, ADelayedWillDoesNotOutliveItsSession) {
  world_.TakeAll("llm/v1/+/status");
  {
    Client client(world_, Version::k5);
    client.Connect(WithWill(1000, 10));
  }
  world_.Advance(seconds(9));
  EXPECT_EQ(Wills(), 0u);
  world_.Advance(seconds(1));
  EXPECT_EQ(Wills(), 1u);
  {
    Client client(world_, Version::k5);
    client.Connect(WithWill(1000, 100));
  }
  Client clean(world_, Version::k5);
  clean.Connect("c");
  EXPECT_EQ(Wills(), 2u) << "a clean start ends it";
}

TEST_F(PeerSessionTest, ATakeOverPublishesTheWillUnlessItMayWait) {
  world_.TakeAll("llm/v1/+/status");
  Client first(world_, Version::k5), second(world_, Version::k5), third(world_, Version::k5);
  first.Connect(WithWill(0, 100));
  second.Connect(WithWill(10, 100));
  EXPECT_EQ(Wills(), 1u);
  third.Connect(Resuming());
  world_.Advance(seconds(20));
  EXPECT_EQ(Wills(), 1u);
}

TEST_F(PeerSessionTest, SessionsWithoutAConnectionAreBoundedForAUserAndInAll) {
  world_.limits.sessions_per_user = 3;
  world_.limits.sessions = 5;
  const auto leave = [&](const std::string& id, const std::string& user) {
    Client client(world_, Version::k5);
    mqtt::Connect connect = Resuming();
    connect.client_id = id;
    client.Connect(connect, user);
    client.Gone();
    world_.clock.Advance(seconds(1));
  };
  for (int i = 0; i < 10; ++i) leave("a" + std::to_string(i), "alice");
  EXPECT_EQ(world_.hub.sessions(), 3u);
  leave("b", "bob");
  leave("b2", "bob");
  EXPECT_EQ(world_.hub.sessions(), 5u);
  leave("b3", "bob");
  EXPECT_EQ(world_.hub.sessions(), 5u);
  Client newest(world_, Version::k5), oldest(world_, Version::k5);
  mqtt::Connect connect = Resuming();
  connect.client_id = "a9";
  newest.Connect(connect);
  EXPECT_TRUE(newest.Next<Connack>().session_present);
  connect.client_id = "a6";
  oldest.Connect(connect);
  EXPECT_FALSE(oldest.Next<Connack>().session_present);
}

TEST_F(PeerSessionTest, ASessionThatOverflowsWhileItsClientIsAwayEnds) {
  {
    Client client(world_, Version::k5);
    client.Connect(Resuming());
    client.Next<Connack>();
    client.Subscribe(kOut);
  }
  for (int i = 0; i < 1000; ++i) world_.Publish({.topic = kOut, .qos = 1});
  EXPECT_EQ(world_.hub.sessions(), 1u);
  world_.Publish({.topic = kOut, .qos = 1});
  Client again(world_, Version::k5);
  again.Connect(Resuming());
  EXPECT_FALSE(again.Next<Connack>().session_present) << "what it lost, it is not told it has";
  EXPECT_TRUE(again.Quiet());
}

TEST_F(PeerSessionTest, AnAnswerForAConnectionThatIsGoneIsOfNoConsequence) {
  world_.TakeAll("llm/v1/+/+/in");
  {
    Client client(world_, Version::k5);
    client.Connect("c");
    client.Publish("llm/v1/alice/s/in");
    client.Gone();
    world_.taken[0].receipt.Accept();
  }
  EXPECT_EQ(world_.hub.sessions(), 0u);
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
