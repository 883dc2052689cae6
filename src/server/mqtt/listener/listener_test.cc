// The listener over real sockets: echo in both versions, logins, acknowledgements from other
// threads, the end of the server.
#include "server/mqtt/listener/listener.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>

#include "server/mqtt/listener/testing/listener_fixture.h"

namespace tutti::mqtt::listener::testing {
namespace {

class ListenerTest : public ListenerFixture {};

constexpr Version kVersions[] = {Version::k311, Version::k5};

TEST_F(ListenerTest, AClientIsAnsweredOnItsOwnTopic) {
  StartListener();
  for (const Version version : kVersions) {
    SocketClient client(port(), version);
    ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
    ASSERT_EQ(client.Subscribe("llm/v1/alice/+/out"), ReasonCode::kGrantedQos1);
    for (int i = 1; i <= 50; ++i) {
      const std::string text = "message " + std::to_string(i);
      client.Send(mqtt::Publish{.topic = "llm/v1/alice/s/in",
                                .payload = text,
                                .qos = 1,
                                .packet_id = static_cast<uint16_t>(i)});
      bool acknowledged = false;
      std::string answer;
      while (!acknowledged || answer.empty()) {
        const auto packet = client.NextPacket();
        ASSERT_TRUE(packet.has_value());
        if (const auto* puback = std::get_if<Puback>(&*packet)) {
          EXPECT_EQ(puback->packet_id, i);
          acknowledged = true;
        } else {
          const auto& publish = std::get<mqtt::Publish>(*packet);
          answer = publish.payload;
          client.Send(Puback{.packet_id = publish.packet_id});
        }
      }
      EXPECT_EQ(answer, text);
    }
    client.Send(Disconnect());
    EXPECT_TRUE(client.WaitClosed());
  }
  EXPECT_TRUE(Eventually([&] { return listener_->connections() == 0; }));
}

TEST_F(ListenerTest, WhoMayStayNoLongerIsToldSoAndTheOthersAreNot) {
  ListenerOptions options;
  options.limits.login_check = std::chrono::milliseconds(20);
  StartListener(options);
  SocketClient alice(port(), Version::k5), bob(port(), Version::k5);
  ASSERT_EQ(alice.Connect("alice", "c"), ReasonCode::kSuccess);
  ASSERT_EQ(bob.Connect("bob", "c"), ReasonCode::kSuccess);
  authenticator_.Forget("alice");
  const auto goodbye = alice.Next<Disconnect>();
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(goodbye->reason, ReasonCode::kNotAuthorized);
  EXPECT_EQ(bob.Subscribe("llm/v1/bob/#"), ReasonCode::kGrantedQos1);
  // The check also covers a client that connects after a time without connections.
  bob.Send(Disconnect());
  EXPECT_TRUE(Eventually([&] { return listener_->connections() == 0; }));
  SocketClient carol(port(), Version::k5);
  ASSERT_EQ(carol.Connect("carol", "c"), ReasonCode::kSuccess);
  authenticator_.Forget("carol");
  EXPECT_TRUE(carol.WaitClosed());
}

TEST_F(ListenerTest, AWrongPasswordIsRefusedAndNobodyIsAnonymous) {
  StartListener();
  for (const Version version : kVersions) {
    SocketClient wrong(port(), version), nobody(port(), version);
    EXPECT_EQ(wrong.Connect(mqtt::Connect{.client_id = "c", .user_name = "alice", .password = "x"}),
              ReasonCode::kBadUserNameOrPassword);
    EXPECT_TRUE(wrong.WaitClosed());
    EXPECT_EQ(nobody.Connect(mqtt::Connect{.client_id = "c"}), ReasonCode::kBadUserNameOrPassword);
    EXPECT_TRUE(nobody.WaitClosed());
  }
}

TEST_F(ListenerTest, OneUserReadsNothingOfAnother) {
  StartListener();
  SocketClient alice(port(), Version::k5), bob(port(), Version::k5);
  ASSERT_EQ(alice.Connect("alice", "a"), ReasonCode::kSuccess);
  ASSERT_EQ(bob.Connect("bob", "b"), ReasonCode::kSuccess);
  EXPECT_EQ(bob.Subscribe("#"), ReasonCode::kNotAuthorized);
  EXPECT_EQ(bob.Subscribe("llm/v1/alice/#"), ReasonCode::kNotAuthorized);
  EXPECT_EQ(bob.Subscribe("$share/g/llm/v1/alice/#"), ReasonCode::kSharedSubscriptionsNotSupported);
  ASSERT_EQ(bob.Subscribe("llm/v1/bob/#"), ReasonCode::kGrantedQos1);
  alice.Subscribe("llm/v1/alice/+/out");
  alice.Send(mqtt::Publish{.topic = "llm/v1/alice/s/in", .payload = "secret"});
  ASSERT_TRUE(alice.Next<mqtt::Publish>().has_value());
  bob.Send(Pingreq());
  EXPECT_TRUE(bob.Next<Pingresp>().has_value()) << "and nothing before it";
}

TEST_F(ListenerTest, ALoginMayBeAnsweredLaterFromAnotherThread) {
  authenticator_.hold = true;
  StartListener();
  SocketClient first(port(), Version::k5), second(port(), Version::k5);
  mqtt::Connect connect{.client_id = "c", .user_name = "alice", .password = "secret of alice"};
  first.Send(connect);
  first.Send(Pingreq());  // a client need not wait for CONNACK
  {
    SocketClient gone(port(), Version::k5);
    gone.Send(connect);
    ASSERT_TRUE(Eventually([&] { return authenticator_.asked.load() == 2; }));
  }
  std::thread([&] { authenticator_.AnswerHeld(); }).join();
  const auto connack = first.Next<Connack>();
  ASSERT_TRUE(connack.has_value());
  EXPECT_EQ(connack->reason, ReasonCode::kSuccess);
  EXPECT_TRUE(first.NextPacket().has_value());
}

TEST_F(ListenerTest, AMessageIsAcknowledgedWhenAnotherThreadHasTakenCareOfIt) {
  StartListener();
  SocketClient client(port(), Version::k5);
  ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  client.Send(
      mqtt::Publish{.topic = "llm/v1/alice/s/in", .payload = "hold", .qos = 1, .packet_id = 3});
  client.Send(Pingreq());
  EXPECT_TRUE(client.Next<Pingresp>().has_value()) << "no acknowledgement yet";
  std::vector<Receipt> held;
  ASSERT_TRUE(Eventually([&] {
    for (Receipt& receipt : TakeHeld()) held.push_back(std::move(receipt));
    return !held.empty();
  }));
  std::thread([&] { held[0].Accept(); }).join();
  const auto puback = client.Next<Puback>();
  ASSERT_TRUE(puback.has_value());
  EXPECT_EQ(puback->packet_id, 3);
}

TEST_F(ListenerTest, MessagesFromManyThreadsArriveInTheOrderOfEach) {
  StartListener();
  SocketClient client(port(), Version::k5);
  ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  ASSERT_EQ(client.Subscribe("llm/v1/alice/#"), ReasonCode::kGrantedQos1);
  constexpr int kThreads = 4, kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const Status sent =
            listener_->Publish({.topic = "llm/v1/alice/" + std::to_string(t) + "/out",
                                .payload = std::to_string(i),
                                .qos = 1});
        EXPECT_TRUE(sent.ok()) << sent;
      }
    });
  }
  int next[kThreads] = {};
  for (int i = 0; i < kThreads * kEach; ++i) {
    const auto got = client.Next<mqtt::Publish>();
    ASSERT_TRUE(got.has_value());
    client.Send(Puback{.packet_id = got->packet_id});
    const int thread = got->topic[13] - '0';
    EXPECT_EQ(got->payload, std::to_string(next[thread]++));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ListenerTest, WhatBecameOfAMessageIsTold) {
  StartListener();
  std::atomic<int> code{-1};
  const auto publish = [&] {
    code = -1;
    const Status sent =
        listener_->Publish({.topic = "llm/v1/alice/s/out", .payload = "x"},
                           [&](const Status& status) { code = static_cast<int>(status.code()); });
    EXPECT_TRUE(sent.ok()) << sent;
    EXPECT_TRUE(Eventually([&] { return code >= 0; }));
    return static_cast<StatusCode>(code.load());
  };
  EXPECT_EQ(publish(), StatusCode::kNotFound) << "nobody subscribed";
  SocketClient client(port(), Version::k5);
  ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  client.Subscribe("llm/v1/alice/#");
  EXPECT_EQ(publish(), StatusCode::kOk);
}

TEST_F(ListenerTest, WhatMqttCannotExpressIsRefusedAtOnce) {
  StartListener();
  const Message bad[] = {{.topic = ""},
                         {.topic = "a/#"},
                         {.topic = std::string(70'000, 'a')},
                         {.topic = "a", .qos = 2},
                         {.topic = "a", .payload = std::string((16 << 20) + 1, 'x')},
                         {.topic = "a", .response_topic = "b/+"},
                         {.topic = "a", .correlation_data = std::string(70'000, 'a')},
                         {.topic = "a", .user_properties = {{"k", std::string(70'000, 'a')}}}};
  for (const Message& message : bad) {
    EXPECT_EQ(listener_->Publish(message).reason(), "invalid_value");
  }
  EXPECT_EQ(listener_->Subscribe("a/#/b", nullptr).reason(), "invalid_value");
}

TEST_F(ListenerTest, AServerThatStopsSaysSoAndTakesNothingMore) {
  StartListener();
  SocketClient client(port(), Version::k5), old(port(), Version::k311);
  ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  ASSERT_EQ(old.Connect("alice", "d"), ReasonCode::kSuccess);
  client.Send(
      mqtt::Publish{.topic = "llm/v1/alice/s/in", .payload = "hold", .qos = 1, .packet_id = 3});
  client.Send(Pingreq());
  ASSERT_TRUE(client.Next<Pingresp>().has_value());
  std::thread stopping([&] { listener_->Stop(); });
  const auto goodbye = client.Next<Disconnect>();
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(goodbye->reason, ReasonCode::kServerShuttingDown);
  EXPECT_TRUE(client.WaitClosed() && old.WaitClosed());
  stopping.join();
  EXPECT_EQ(listener_->Publish({.topic = "a"}).reason(), "draining");
  TakeHeld();  // receipts that outlive the listener
}

TEST_F(ListenerTest, AnAddressOfANetworkNeedsTls) {
  ListenerOptions options;
  options.host = "0.0.0.0";
  options.port = 0;
  Listener listener(options, {&authenticator_, nullptr, &clock_});
  EXPECT_FALSE(listener.Start().ok());
}

TEST_F(ListenerTest, APortThatIsTakenIsNamed) {
  StartListener();
  ListenerOptions options;
  options.port = port();
  Listener second(options, {&authenticator_, nullptr, &clock_});
  const Status status = second.Start();
  EXPECT_EQ(status.reason(), "io_error");
  EXPECT_EQ(status.param(), "mqtt-port");
}

TEST_F(ListenerTest, ListsTheNewestClients) {
  StartListener();
  const auto list = [&](size_t max) {
    std::promise<ClientList> listed;
    listener_->ListClients(max, [&](ClientList clients) { listed.set_value(std::move(clients)); });
    return listed.get_future().get();
  };
  SocketClient alice(port(), Version::k311), silent(port(), Version::k5);
  ASSERT_EQ(alice.Connect("alice", "c1"), ReasonCode::kSuccess);
  ASSERT_EQ(alice.Subscribe("llm/v1/alice/#"), ReasonCode::kGrantedQos1);
  SocketClient bob(port(), Version::k5);
  ASSERT_EQ(bob.Connect("bob", "c2"), ReasonCode::kSuccess);
  const ClientList all = list(10);
  ASSERT_EQ(all.clients.size(), 2u) << "a client without a login is not listed";
  EXPECT_EQ(all.clients[0].user, "bob");
  EXPECT_EQ(all.clients[0].client_id, "c2");
  EXPECT_EQ(all.clients[0].version, Version::k5);
  EXPECT_EQ(all.clients[1].user, "alice");
  EXPECT_EQ(all.clients[1].version, Version::k311);
  EXPECT_EQ(all.clients[1].subscriptions, 1u);
  EXPECT_GT(all.clients[0].since, all.clients[1].since);
  EXPECT_EQ(list(1).clients.front().user, "bob");
  EXPECT_EQ(list(1).left_out, 1u);
  bob.Send(Disconnect());
  EXPECT_TRUE(Eventually([&] { return list(10).clients.size() == 1; }));
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
