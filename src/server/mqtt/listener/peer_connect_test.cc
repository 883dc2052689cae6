// CONNECT: accepted and refused clients, the contents of CONNACK, time limits.
#include <gtest/gtest.h>

#include "server/mqtt/listener/testing/world.h"

namespace tutti::mqtt::listener::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PeerConnectTest : public ::testing::Test {
 protected:
  ReasonCode Refused(Version version, mqtt::Connect connect, const std::string& user = "alice") {
    Client client(world_, version);
    client.Connect(std::move(connect), user);
    EXPECT_TRUE(client.ended);
    return client.Next<Connack>().reason;
  }
  World world_;
};

TEST_F(PeerConnectTest, ALoginIsAskedForAndAnnouncesWhatTheServerTakes) {
  Client client(world_, Version::k5);
  client.Connect(mqtt::Connect{
      .keep_alive_s = 60, .client_id = "c", .user_name = "alice", .password = "secret"});
  EXPECT_EQ(client.credentials.user_name, "alice");
  EXPECT_EQ(client.credentials.password, "secret");
  EXPECT_EQ(client.credentials.client_id, "c");
  const Connack connack = client.Next<Connack>();
  EXPECT_EQ(connack.reason, ReasonCode::kSuccess);
  EXPECT_FALSE(connack.session_present);
  EXPECT_EQ(connack.properties.receive_maximum, 20);
  EXPECT_EQ(connack.properties.maximum_qos, true);
  EXPECT_EQ(connack.properties.maximum_packet_size, 1u << 20);
  EXPECT_EQ(connack.properties.topic_alias_maximum, 16);
  EXPECT_EQ(connack.properties.shared_available, false);
  EXPECT_FALSE(connack.properties.server_keep_alive_s) << "as asked";
  EXPECT_FALSE(connack.properties.assigned_client_id);
  EXPECT_TRUE(client.logged_in);
}

TEST_F(PeerConnectTest, NothingIsReadBeforeTheLoginIsAnswered) {
  Client client(world_, Version::k5);
  EXPECT_TRUE(client.peer().reading());
  client.Send(mqtt::Connect{.client_id = "c"});
  EXPECT_FALSE(client.peer().reading());
  EXPECT_TRUE(client.Quiet());
  client.Answer(UserPrincipal("llm/v1", "alice", "t"));
  EXPECT_TRUE(client.peer().reading());
}

TEST_F(PeerConnectTest, ARefusedLoginIsToldByItsCauseInBothVersions) {
  const std::pair<Status, ReasonCode> causes[] = {
      {Status(StatusCode::kUnauthenticated, "invalid_api_key", "no"),
       ReasonCode::kBadUserNameOrPassword},
      {Status(StatusCode::kPermissionDenied, "insufficient_scope", "no"),
       ReasonCode::kNotAuthorized},
      {ResourceExhausted("tenant_rate", "no"), ReasonCode::kConnectionRateExceeded},
      {Unavailable("overloaded", "no"), ReasonCode::kServerUnavailable},
  };
  for (const auto& [status, code] : causes) {
    for (const Version version : {Version::k311, Version::k5}) {
      Client client(world_, version);
      client.Send(mqtt::Connect{.version = version, .client_id = "c"});
      client.Answer(status);
      const ReasonCode told = client.Next<Connack>().reason;
      EXPECT_EQ(told, version == Version::k5 ? code : ReasonOfReturnCode(ReturnCodeOf(code)));
      EXPECT_TRUE(client.ended);
      EXPECT_FALSE(client.logged_in);
    }
  }
  EXPECT_EQ(world_.hub.sessions(), 0u);
}

TEST_F(PeerConnectTest, AnyPacketButConnectEndsAConnectionWithoutAWord) {
  for (const Packet& packet :
       {Packet(Pingreq()), Packet(mqtt::Publish{.topic = "a"}), Packet(Disconnect())}) {
    Client client(world_, Version::k5);
    client.Send(packet);
    EXPECT_TRUE(client.ended);
    EXPECT_EQ(client.why, ReasonCode::kProtocolError);
    EXPECT_TRUE(client.Quiet());
  }
}

TEST_F(PeerConnectTest, ASecondConnectIsAProtocolError) {
  Client client(world_, Version::k5);
  client.Connect("c");
  client.Next<Connack>();
  client.Send(mqtt::Connect{.client_id = "c"});
  EXPECT_EQ(client.Next<Disconnect>().reason, ReasonCode::kProtocolError);
  EXPECT_TRUE(client.ended);
}

TEST_F(PeerConnectTest, AnUnknownVersionIsAnsweredInTheFormThatItsClientKnows) {
  Client later(world_, Version::k5), old(world_, Version::k311);
  later.SendBytes(std::string("\x10\x0d\0\4MQTT\x09\2\0\0\0\0\0", 15));
  EXPECT_EQ(later.Next<Connack>().reason, ReasonCode::kUnsupportedVersion);
  old.SendBytes(std::string("\x10\x0e\0\6MQIsdp\3\2\0\0\0\0", 16));
  EXPECT_EQ(old.Next<Connack>().reason, ReasonCode::kUnsupportedVersion) << "return code 1";
}

TEST_F(PeerConnectTest, AMalformedConnectIsToldIn5AndClosedIn311) {
  Client five(world_, Version::k5), old(world_, Version::k311);
  five.SendBytes(std::string("\x10\x0d\0\4MQTT\5\3\0\0\0\0\0", 15));
  EXPECT_EQ(five.Next<Connack>().reason, ReasonCode::kMalformedPacket);
  old.SendBytes(std::string("\x10\x0c\0\4MQTT\4\3\0\0\0\0", 14));
  EXPECT_TRUE(old.ended);
  EXPECT_TRUE(old.Quiet());
}

TEST_F(PeerConnectTest, ClientIdsAreOfPlainCharactersAndBounded) {
  for (const char* id : {"a/b", "a b", "\xC3\xA9", "a+", "a\nb"}) {
    EXPECT_EQ(Refused(Version::k5, {.client_id = id}), ReasonCode::kClientIdNotValid) << id;
    EXPECT_EQ(Refused(Version::k311, {.client_id = id}), ReasonCode::kClientIdNotValid) << id;
  }
  EXPECT_EQ(Refused(Version::k5, {.client_id = std::string(129, 'a')}),
            ReasonCode::kClientIdNotValid);
  Client longest(world_, Version::k5);
  longest.Connect(std::string(126, 'a') + ":-");
  EXPECT_TRUE(longest.logged_in);
}

TEST_F(PeerConnectTest, AClientWithoutAnIdIsGivenOneUnlessItWantsItsSessionBack) {
  Client client(world_, Version::k5), old(world_, Version::k311);
  client.Connect("");
  EXPECT_TRUE(client.Next<Connack>().properties.assigned_client_id.has_value());
  old.Connect("");
  EXPECT_TRUE(old.logged_in);
  EXPECT_EQ(Refused(Version::k311, {.clean_start = false}), ReasonCode::kClientIdNotValid);
}

TEST_F(PeerConnectTest, EnhancedAuthenticationIsNotOffered) {
  EXPECT_EQ(Refused(Version::k5,
                    {.client_id = "c", .properties = {.authentication_method = "SCRAM-SHA-256"}}),
            ReasonCode::kBadAuthenticationMethod);
  Client client(world_, Version::k5);
  client.Connect("c");
  client.Next<Connack>();
  client.Send(
      Auth{.reason = ReasonCode::kReauthenticate, .properties = {.authentication_method = "m"}});
  EXPECT_EQ(client.Next<Disconnect>().reason, ReasonCode::kProtocolError);
}

TEST_F(PeerConnectTest, AWillIsJudgedAsItsPublishingWouldBe) {
  const auto with = [](Will will) {
    return mqtt::Connect{.client_id = "c", .will = std::move(will)};
  };
  for (const Version version : {Version::k311, Version::k5}) {
    EXPECT_EQ(Refused(version, with({.topic = "llm/v1/bob/status"})), ReasonCode::kNotAuthorized);
    EXPECT_EQ(Refused(version, with({.topic = "llm/v1/alice/s/out"})), ReasonCode::kNotAuthorized);
    Client client(world_, version);
    client.Connect(with({.topic = "llm/v1/alice/status", .retain = true}));
    EXPECT_TRUE(client.logged_in);
  }
  const auto refused5 = [&](Will will) { return Refused(Version::k5, with(std::move(will))); };
  EXPECT_EQ(refused5({.topic = "llm/v1/alice/s/in", .retain = true}),
            ReasonCode::kRetainNotSupported);
  EXPECT_EQ(refused5({.topic = "llm/v1/alice/status", .qos = 2}), ReasonCode::kQosNotSupported);
  EXPECT_EQ(refused5({.topic = "llm/v1/alice/" + std::string(600, 'a')}),
            ReasonCode::kTopicNameInvalid);
  EXPECT_EQ(refused5({.topic = "llm/v1/alice/status",
                      .payload = "\xFF",
                      .properties = {.payload_is_text = true}}),
            ReasonCode::kPayloadFormatInvalid);
  EXPECT_EQ(refused5({.topic = "llm/v1/alice/s/in",
                      .properties = {.response_topic = "llm/v1/bob/s/out"}}),
            ReasonCode::kNotAuthorized);
}

TEST_F(PeerConnectTest, WhoDoesNotLogInInTimeIsClosed) {
  Client silent(world_, Version::k5), unanswered(world_, Version::k5);
  unanswered.Send(mqtt::Connect{.client_id = "c"});
  EXPECT_EQ(silent.peer().due(), world_.clock.Now() + seconds(10));
  world_.Advance(milliseconds(9'999));
  silent.OnTime();
  unanswered.OnTime();
  EXPECT_FALSE(silent.ended || unanswered.ended);
  world_.Advance(milliseconds(1));
  silent.OnTime();
  unanswered.OnTime();
  EXPECT_TRUE(silent.ended && silent.Quiet());
  EXPECT_TRUE(unanswered.ended);
  EXPECT_EQ(unanswered.Next<Connack>().reason, ReasonCode::kServerUnavailable);
  unanswered.Answer(UserPrincipal("llm/v1", "alice", "t"));
  EXPECT_FALSE(unanswered.logged_in) << "too late";
}

TEST_F(PeerConnectTest, SilenceForHalfAsLongAgainAsAgreedEndsIt) {
  for (const Version version : {Version::k311, Version::k5}) {
    Client client(world_, version);
    client.Connect(mqtt::Connect{.keep_alive_s = 10, .client_id = "c"});
    client.Next<Connack>();
    world_.Advance(seconds(14));
    client.Send(Pingreq());
    client.Next<Pingresp>();
    world_.Advance(seconds(14));
    client.OnTime();
    EXPECT_FALSE(client.ended);
    world_.Advance(seconds(1));
    client.OnTime();
    EXPECT_TRUE(client.ended);
    EXPECT_EQ(client.why, ReasonCode::kKeepAliveTimeout);
    if (version == Version::k5) {
      EXPECT_EQ(client.Next<Disconnect>().reason, ReasonCode::kKeepAliveTimeout);
    } else {
      EXPECT_TRUE(client.Quiet());
    }
  }
}

TEST_F(PeerConnectTest, NobodyMayBeSilentForLongerThanTheServersLimit) {
  for (const uint16_t asked : std::initializer_list<uint16_t>{0, 301, 65535}) {
    Client client(world_, Version::k5);
    client.Connect(mqtt::Connect{.keep_alive_s = asked, .client_id = "c"});
    EXPECT_EQ(client.Next<Connack>().properties.server_keep_alive_s, 300);
    EXPECT_EQ(client.peer().due(), world_.clock.Now() + seconds(450));
  }
}

TEST_F(PeerConnectTest, PacketsFasterThanTheRateAreRefusedAfterABurst) {
  world_.limits.packets_per_s = 10;
  world_.limits.packet_burst = 5;
  Client client(world_, Version::k5);
  client.Connect("c");
  client.Next<Connack>();
  for (int i = 0; i < 5; ++i) client.Send(Pingreq());
  for (int i = 0; i < 20; ++i) {
    world_.Advance(milliseconds(100));
    client.Send(Pingreq());
  }
  EXPECT_FALSE(client.ended);
  client.Send(Pingreq());
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(std::get<Disconnect>(client.received.back()).reason, ReasonCode::kMessageRateTooHigh);
}

TEST_F(PeerConnectTest, AServerThatEndsSaysSo) {
  Client open(world_, Version::k5), asking(world_, Version::k5), old(world_, Version::k311),
      silent(world_, Version::k5);
  open.Connect("a");
  open.Next<Connack>();
  old.Connect("b");
  old.Next<Connack>();
  asking.Send(mqtt::Connect{.client_id = "c"});
  for (Client* client : {&open, &asking, &old, &silent}) {
    client->Shutdown();
    EXPECT_TRUE(client->ended);
  }
  EXPECT_EQ(open.Next<Disconnect>().reason, ReasonCode::kServerShuttingDown);
  EXPECT_EQ(asking.Next<Connack>().reason, ReasonCode::kServerUnavailable);
  EXPECT_TRUE(old.Quiet() && silent.Quiet());
}

TEST_F(PeerConnectTest, WhoseKeyIsRevokedIsToldAndNobodyElse) {
  Client gone(world_, Version::k5), old(world_, Version::k311), other(world_, Version::k5);
  const auto login = [](Client& client, const std::string& id, const std::string& credential) {
    client.Send(mqtt::Connect{.version = id == "b" ? Version::k311 : Version::k5, .client_id = id});
    Principal principal = *UserPrincipal("llm/v1", "alice", "t");
    principal.credential = credential;
    client.Answer(principal);
    client.Next<Connack>();
  };
  login(gone, "a", "key:1");
  login(old, "b", "key:1");
  login(other, "c", "key:2");
  for (Client* client : {&gone, &old, &other}) client->Revoke("key:1");
  EXPECT_TRUE(gone.ended && old.ended);
  EXPECT_EQ(gone.Next<Disconnect>().reason, ReasonCode::kNotAuthorized);
  EXPECT_TRUE(old.Quiet());
  EXPECT_FALSE(other.ended);
}

TEST_F(PeerConnectTest, AClientThatTakesTooFewBytesIsNotServed) {
  EXPECT_EQ(Refused(Version::k5, {.client_id = "c", .properties = {.maximum_packet_size = 95}}),
            ReasonCode::kPacketTooLarge);
  Client client(world_, Version::k5), tiny(world_, Version::k5);
  client.Connect(
      mqtt::Connect{.properties = {.session_expiry_s = 1 << 20, .maximum_packet_size = 96}});
  EXPECT_TRUE(client.logged_in);
  client.Next<Connack>();
  client.Send(
      Subscribe{.packet_id = 1, .subscriptions = std::vector<Subscription>(100, {.filter = "a"})});
  EXPECT_EQ(client.Next<Disconnect>().reason, ReasonCode::kPacketTooLarge);
  tiny.Connect(mqtt::Connect{.properties = {.maximum_packet_size = 2}});
  EXPECT_TRUE(tiny.ended && tiny.Quiet());
}

TEST_F(PeerConnectTest, PacketsOfAServerFromAClientAreProtocolErrors) {
  for (const Packet& packet : {Packet(Connack()), Packet(Pingresp()),
                               Packet(Suback{.packet_id = 1, .reasons = {ReasonCode::kSuccess}}),
                               Packet(Unsuback{.packet_id = 1, .reasons = {ReasonCode::kSuccess}}),
                               Packet(Pubrec{.packet_id = 1}), Packet(Pubcomp{.packet_id = 1})}) {
    Client client(world_, Version::k5);
    client.Connect("c");
    client.Next<Connack>();
    client.Send(packet);
    EXPECT_EQ(client.Next<Disconnect>().reason, ReasonCode::kProtocolError);
  }
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
