// Chat of users and their sessions over WebSocket (/v1/ws), before a model whose words are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "protocol/chat/native.h"
#include "protocol/responses/events.h"
#include "server/http/testing/socket_client.h"
#include "server/http/testing/socket_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int64_t Number(const std::string& json, const char* name = "sequence_number") {
  const boost::json::value value = boost::json::parse(json);
  const boost::json::value* found = value.as_object().if_contains(name);
  return found != nullptr && found->is_int64() ? found->get_int64() : -1;
}
std::string ResponseIdOf(const std::string& event) {
  return std::string(boost::json::parse(event).at("response").at("id").as_string());
}
std::string TextIn(const std::string& event) {
  return std::string(boost::json::parse(event)
                         .at("response")
                         .at("output")
                         .at(0)
                         .at("content")
                         .at(0)
                         .at("text")
                         .as_string());
}
class ChatClient : public SocketClient {
 public:
  explicit ChatClient(int port, const std::string& query = "", const std::string& fields = "",
                      int receive_buffer = 0)
      : SocketClient(port, fields, "/v1/ws" + query, receive_buffer) {}

  void Message(const std::string& session, const std::string& id, const std::string& input,
               const std::string& members = "") {
    SendText(R"({"type":"message","session":")" + session + R"(","id":")" + id + R"(","input":")" +
             input + "\"" + members + "}");
  }
  // Reads the events up to the end of a turn, on a connection with one turn.
  std::vector<std::string> Turn() {
    std::vector<std::string> events;
    do {
      events.push_back(Text());
    } while (!events.back().empty() && !EndsAnswer(Member(events.back(), "type")));
    return events;
  }
  // The next of that type; others are passed over.
  std::string Next(const std::string& type) {
    std::string text;
    do {
      text = Text();
    } while (!text.empty() && Member(text, "type") != type);
    return text;
  }
};

class ChatSocketTest : public SocketFixture {
 protected:
  // The entries of a response's log, from which MQTT publishes too.
  std::vector<std::string> LogOf(const std::string& response_id) {
    std::promise<std::vector<std::string>> promise;
    responses_->Find("default", response_id,
                     [&](Result<std::shared_ptr<responses::Response>> found) {
                       std::vector<std::string> events;
                       if (found.ok()) {
                         const auto entries = (*found)->log().Read(-1, 1000);
                         for (const auto& entry : *entries) {
                           events.push_back(protocol::EventJson(entry->event, entry->sequence));
                         }
                       }
                       promise.set_value(std::move(events));
                     });
    return promise.get_future().get();
  }
};

TEST_F(ChatSocketTest, AMessageIsAnsweredByTheEventsOfItsLogToTheByte) {
  Open();
  ChatClient client(port());
  ASSERT_TRUE(client.accepted()) << client.head();
  client.Message("kitchen", "m1", "hi");
  const std::vector<std::string> events = client.Turn();
  ASSERT_GT(events.size(), 8u);
  const std::string id = Member(events[0], "response_id");
  EXPECT_EQ(events[0], protocol::EventJson(protocol::AcceptedEvent{"m1", id, 1, 0}, 0));
  EXPECT_EQ(Member(events[1], "type"), "response.created");
  EXPECT_EQ(Member(events.back(), "type"), "response.completed");
  EXPECT_EQ(TextIn(events.back()), "one two three");
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(Number(events[i]), static_cast<int64_t>(i));
  EXPECT_EQ(events, LogOf(id));
  // If the message has a stream_id, each event of its answer carries it as an additional member.
  client.Message("kitchen", "m2", "and?", R"(,"stream_id":"k")");
  const std::vector<std::string> told = client.Turn();
  std::vector<std::string> expected = LogOf(Member(told[0], "response_id"));
  for (std::string& event : expected) {
    event.pop_back();
    event += R"(,"stream_id":"k"})";
  }
  EXPECT_EQ(told, expected);
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("hi", "one two three", "and?"));
}

TEST_F(ChatSocketTest, TwoHundredMessagesOfOneSessionKeepTheirOrder) {
  Open();
  ChatClient client(port());
  constexpr int kMessages = 200, kAhead = 8;
  int said = 0, ended = 0;
  int64_t turn = 0;
  while (ended < kMessages) {
    while (said < kMessages && said - ended < kAhead) {
      const std::string number = std::to_string(said++);
      client.Message("s", "m" + number, "text " + number, R"(,"stream_id":"a")");
    }
    const std::string event = client.Text();
    ASSERT_FALSE(event.empty()) << ended;
    const std::string type = Member(event, "type");
    ASSERT_NE(type, "error") << event;
    if (type == "accepted") {
      EXPECT_EQ(Number(event, "turn"), ++turn);
      EXPECT_EQ(Member(event, "id"), "m" + std::to_string(turn - 1));
    }
    ended += type == "response.completed" ? 1 : 0;
  }
  for (int i = 0; i < kMessages; ++i)
    EXPECT_EQ(Prompt(*Generation(static_cast<size_t>(i))).back(), "text " + std::to_string(i));
}

TEST_F(ChatSocketTest, TwoSessionsAreAnsweredSideBySideAndOneWaitsForItself) {
  holds_ = true;
  Open();
  ChatClient client(port());
  client.Message("a", "1", "first", R"(,"stream_id":"a")");
  const std::shared_ptr<FakeGeneration> first = Generation(0);
  client.Message("a", "2", "second", R"(,"stream_id":"a")");
  client.Message("b", "1", "second", R"(,"stream_id":"b")");
  const std::shared_ptr<FakeGeneration> second = Generation(1);
  EXPECT_THAT(Prompt(*second), ElementsAre("second"));
  second->Answer({"b"});
  EXPECT_EQ(Member(client.Next("response.completed"), "stream_id"), "b");
  EXPECT_EQ(Generations(), 2u) << "the second of session a waits";
  first->Answer({"a"});
  EXPECT_THAT(Prompt(*Generation(2)), ElementsAre("first", "a", "second"));
  Generation(2)->Answer({"c"});
  EXPECT_EQ(TextIn(client.Next("response.completed")), "a");
  EXPECT_EQ(TextIn(client.Next("response.completed")), "c");
}

TEST_F(ChatSocketTest, AConversationOfHttpGoesOnHereAndBackThere) {
  Open();
  const std::string id = Member(Ask(Post("/v1/conversations", "{}")).body, "id");
  const std::string in = R"(,"conversation":")" + id + "\"}";
  EXPECT_EQ(Ask(Post("/v1/responses", R"({"model":"fake","input":"over HTTP")" + in)).status, 200);
  ChatClient client(port());
  client.SendText(R"({"type":"message","id":"m","input":"here")" + in);
  const std::vector<std::string> events = client.Turn();
  EXPECT_EQ(Member(events[0], "type"), "accepted");
  EXPECT_EQ(Member(events.back(), "type"), "response.completed") << events.back();
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("over HTTP", "one two three", "here"));
  EXPECT_THAT(Ask(Get("/v1/conversations/" + id + "/items")).body, HasSubstr("here"));
  client.SendText(R"({"type":"message","id":"m","input":"x","conversation":"conv_none"})");
  const std::string missing = client.Text();
  EXPECT_EQ(Member(missing, "code"), "not_found");
  EXPECT_EQ(Member(missing, "param"), "conversation");
}

TEST_F(ChatSocketTest, ACutConnectionIsGoneOnWithFromWhereItWas) {
  holds_ = true;
  Open();
  std::string id;
  std::vector<std::string> seen;
  {
    ChatClient client(port());
    client.Message("s", "m1", "hi");
    const std::shared_ptr<FakeGeneration> generation = Generation(0);
    generation->Started();
    generation->Token("one");
    generation->Wake();
    do {
      seen.push_back(client.Text());
    } while (Member(seen.back(), "type") != "response.output_text.delta");
    id = Member(seen[0], "response_id");
  }
  const std::shared_ptr<FakeGeneration> generation = Generation(0);
  EXPECT_FALSE(generation->cancelled.load()) << "a turn outlives its client";
  generation->Token(" two");
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  ChatClient client(port());
  client.SendText(R"({"type":"resume","response_id":")" + id + R"(","starting_after":)" +
                  std::to_string(Number(seen.back())) + "}");
  std::vector<std::string> rest = client.Turn();
  std::vector<std::string> all = seen;
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, LogOf(id)) << "nothing twice, nothing missing";
  // The same with `subscribe`, and with a repeated message.
  client.SendText(R"({"type":"subscribe","response_id":")" + id + R"(","starting_after":)" +
                  std::to_string(Number(seen.back())) + "}");
  EXPECT_EQ(client.Turn(), rest);
  client.Message("s", "m1", "hi");
  EXPECT_EQ(client.Turn(), all);
  EXPECT_EQ(Generations(), 1u);
  client.Message("s", "m1", "other words");
  EXPECT_EQ(Member(client.Text(), "code"), "idempotency_key_mismatch");
  client.SendText(R"({"type":"resume","id":"r","response_id":")" + id +
                  R"(","starting_after":99})");
  const std::string late = client.Text();
  EXPECT_EQ(Member(late, "code"), "invalid_value");
  EXPECT_EQ(Member(late, "id"), "r");
}

TEST_F(ChatSocketTest, ACancelEndsTheTurnThatRunsAndSaysSoBehindItsEnd) {
  holds_ = true;
  Open();
  ChatClient client(port());
  client.SendText(R"({"type":"cancel","session":"s","id":"c0"})");
  EXPECT_EQ(client.Text(), protocol::CancelledEvent("c0", "")) << "nothing runs";
  for (const bool by_id : {false, true}) {
    const size_t number = Generations();
    client.Message("s", by_id ? "m2" : "m1", "hi");
    const std::string id = Member(client.Next("accepted"), "response_id");
    const std::shared_ptr<FakeGeneration> generation = Generation(number);
    client.SendText(by_id ? R"({"type":"cancel","id":"c","response_id":")" + id + "\"}"
                          : R"({"type":"cancel","id":"c","session":"s"})");
    ASSERT_TRUE(Eventually([&] { return generation->cancelled.load(); }));
    generation->End(Status(StatusCode::kCancelled, "cancelled", "cancelled"));
    generation->Wake();
    EXPECT_EQ(Member(client.Turn().back(), "type"), "response.cancelled");
    EXPECT_EQ(client.Text(), protocol::CancelledEvent("c", id));
  }
}

TEST_F(ChatSocketTest, ATurnThatWasResumedIsStillItsSessions) {
  holds_ = true;
  Open();
  std::string id;
  {
    ChatClient client(port());
    client.Message("s", "m", "hi");
    id = Member(client.Next("accepted"), "response_id");
  }
  const std::shared_ptr<FakeGeneration> generation = Generation(0);
  ChatClient client(port());
  client.SendText(R"({"type":"resume","session":"s","response_id":")" + id + "\"}");
  client.Next("response.created");
  client.SendText(R"({"type":"resume","response_id":")" + id + "\"}");  // in its place
  client.Next("response.created");
  client.SendText(R"({"type":"cancel","session":"s","id":"c"})");
  ASSERT_TRUE(Eventually([&] { return generation->cancelled.load(); }));
  generation->End(Status(StatusCode::kCancelled, "cancelled", "cancelled"));
  generation->Wake();
  EXPECT_EQ(Member(client.Next("response.cancelled"), "type"), "response.cancelled");
  EXPECT_EQ(client.Text(), protocol::CancelledEvent("c", id)) << "and it is told once";
}

TEST_F(ChatSocketTest, InterruptKeepsWhatWasSaidAndSteerGoesOnFromIt) {
  holds_ = true;
  Open();
  ChatClient client(port());
  size_t number = 0;
  for (const std::string policy : {"interrupt", "steer"}) {
    client.Message(policy, "m1", "hi", R"(,"stream_id":"1")");
    const std::shared_ptr<FakeGeneration> first = Generation(number++);
    first->Started();
    first->Token("part");
    first->Wake();
    client.Next("response.output_text.delta");
    client.Message(policy, "m2", "more", R"(,"stream_id":"2","policy":")" + policy + "\"");
    ASSERT_TRUE(Eventually([&] { return first->cancelled.load(); }));
    first->End(Status(StatusCode::kCancelled, "cancelled", "cancelled"));
    first->Wake();
    const std::string end = policy == "steer" ? "response.incomplete" : "response.cancelled";
    EXPECT_EQ(Member(client.Next(end), "stream_id"), "1");
    EXPECT_THAT(Prompt(*Generation(number)), ElementsAre("hi", "part", "more")) << policy;
    Generation(number++)->Answer({"yes"});
    EXPECT_EQ(Member(client.Next("response.completed"), "stream_id"), "2");
  }
}

TEST_F(ChatSocketTest, RejectRefusesWhileATurnRunsAndClosesBehindItsEnd) {
  holds_ = true;
  Open();
  ChatClient client(port());
  client.Message("s", "m1", "hi");
  const std::shared_ptr<FakeGeneration> generation = Generation(0);
  client.Message("s", "m2", "now", R"(,"policy":"reject")");
  const std::string refused = client.Next("error");
  EXPECT_EQ(Member(refused, "code"), "conversation_busy");
  EXPECT_EQ(Member(refused, "id"), "m2");
  client.Message("s", "m3", "more");
  EXPECT_EQ(Member(client.Next("error"), "code"), "conversation_busy") << "nothing begins any more";
  generation->Answer({"done"});
  EXPECT_EQ(TextIn(client.Next("response.completed")), "done") << "what runs is told";
  EXPECT_EQ(client.CloseCode(), 4409);
  EXPECT_EQ(Generations(), 1u);
}

TEST_F(ChatSocketTest, OtherPoliciesAreTheSessions) {
  holds_ = true;
  Open();
  ChatClient client(port());
  client.Message("s", "m1", "hi", R"(,"stream_id":"1")");
  const std::shared_ptr<FakeGeneration> first = Generation(0);
  client.Message("s", "m2", "rather this", R"(,"policy":"rollback","stream_id":"2")");
  ASSERT_TRUE(Eventually([&] { return first->cancelled.load(); }));
  first->End(Status(StatusCode::kCancelled, "cancelled", "cancelled"));
  first->Wake();
  EXPECT_EQ(Member(client.Next("response.cancelled"), "stream_id"), "1");
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("rather this"));
  Generation(1)->Answer({"yes"});
  EXPECT_EQ(Member(client.Next("response.completed"), "stream_id"), "2");
}

TEST_F(ChatSocketTest, AFullMailboxEndsTheFloodWithItsCode) {
  holds_ = true;
  Open();
  ChatClient client(port());
  for (int i = 0; i < 30; ++i) client.Message("s", "m" + std::to_string(i), "hi");
  std::string refused = client.Next("error");
  EXPECT_EQ(Member(refused, "code"), "session_queue_full");
  // Accepted turns are sent to their end; then the socket closes.
  for (size_t i = 0; i < 17; ++i) Generation(i)->Answer({"a"});
  int completed = 0;
  while (true) {
    const Came came = client.Read();
    if (came.opcode != 1) {
      ASSERT_EQ(came.opcode, 8) << came.payload;
      EXPECT_EQ(static_cast<uint8_t>(came.payload[0]) << 8 | static_cast<uint8_t>(came.payload[1]),
                4429);
      break;
    }
    completed += Member(came.payload, "type") == "response.completed" ? 1 : 0;
  }
  EXPECT_EQ(completed, 17) << "one runs and sixteen wait";
}

TEST_F(ChatSocketTest, MoreAnswersAtOnceThanMayBeAreRefused) {
  holds_ = true;
  HttpOptions options;
  options.socket.answers = 2;
  options.socket.age_grace = std::chrono::milliseconds(300);
  Open(options);
  ChatClient client(port());
  for (const char* session : {"a", "b", "c"}) client.Message(session, "m", "hi");
  EXPECT_EQ(Member(client.Next("error"), "code"), "tenant_concurrency");
  EXPECT_EQ(client.CloseCode(), 4429) << "after the time for what runs";
}

TEST_F(ChatSocketTest, ARateThatIsUsedUpIsTheSessions) {
  chat_options_.admit = [](const sessions::SessionKey& key) -> Result<sessions::Admitted> {
    if (key.session == "local/fast")
      return ResourceExhausted("rate_limit_exceeded", "too fast")
          .WithRetryAfter(std::chrono::milliseconds(1200));
    return sessions::Admitted();
  };
  Open();
  ChatClient client(port());
  client.Message("slow", "m", "hi");
  EXPECT_EQ(Member(client.Turn().back(), "type"), "response.completed");
  client.Message("fast", "m", "hi");
  const std::string refused = client.Text();
  EXPECT_EQ(Member(refused, "code"), "rate_limit_exceeded");
  EXPECT_EQ(Number(refused, "retry_after_ms"), 1200);
  EXPECT_EQ(client.CloseCode(), 4429);
}

TEST_F(ChatSocketTest, WhatIsNoFrameEndsItAndAWrongOneIsAnError) {
  Open();
  for (const std::string& bad : {std::string("{"), std::string(R"({"type":"none"})"),
                                 std::string(R"({"type":"response.create","input":"x"})")}) {
    ChatClient client(port());
    client.SendText(bad);
    EXPECT_EQ(Member(client.Text(), "type"), "error") << bad;
    EXPECT_EQ(client.CloseCode(), 4400) << bad;
  }
  ChatClient client(port());
  const std::string wrong =
      R"({"type":"message","session":"s","id":"7","input":"x","stream_id":"a",)"
      R"("temperature":9})";
  for (int i = 0; i < 15; ++i) {
    client.SendText(wrong);
    const std::string error = client.Text();
    EXPECT_EQ(Member(error, "param"), "temperature");
    EXPECT_EQ(Member(error, "id"), "7");
    EXPECT_EQ(Member(error, "stream_id"), "a");
  }
  client.SendText(R"({"type":"ping","id":"p"})");
  EXPECT_EQ(client.Text(), protocol::PongEvent("p", 1234));
  for (int i = 0; i < 16; ++i) client.SendText(wrong);
  EXPECT_EQ(client.CloseCode(), 4400);
  const auto code = [&](const std::string& bytes) {
    ChatClient bad(port());
    bad.SendRaw(bytes);
    return bad.CloseCode();
  };
  EXPECT_EQ(code(SocketClient::Frame(0x82, "x")), 1003);
  EXPECT_EQ(code(SocketClient::Frame(0x81, "\xFF")), 1007);
  EXPECT_EQ(code(std::string("\x81\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 10) + "mask"), 1009);
  std::string flood;
  for (int i = 0; i < 200; ++i) flood += SocketClient::Frame(0x89, "");
  EXPECT_EQ(code(flood), 1008);
}

TEST_F(ChatSocketTest, VerbsAreAnsweredInTheirOrderAsOverMqtt) {
  Open();
  ChatClient client(port());
  client.Message("s", "m1", "hi");
  client.Turn();
  client.SendText(R"({"type":"history","session":"s","id":"h","stream_id":"x"})");
  client.SendText(R"({"type":"fork","session":"s","into":"t","id":"f"})");
  client.SendText(R"({"type":"clear","session":"s","id":"c"})");
  client.SendText(R"({"type":"history","session":"s","id":"h2"})");
  client.SendText(R"({"type":"history","session":"t","id":"h3"})");
  const std::vector<protocol::HistoryItem> items = {{api::Role::kUser, "hi", 1},
                                                    {api::Role::kAssistant, "one two three", 1}};
  std::string history = protocol::HistoryEvent("h", "s", 1, items);
  history.pop_back();
  EXPECT_EQ(client.Text(), history + R"(,"stream_id":"x"})");
  EXPECT_EQ(client.Text(), protocol::ForkedEvent("f", "s", "t", 1));
  EXPECT_EQ(client.Text(), protocol::ClearedEvent("c", "s"));
  EXPECT_THAT(client.Text(), HasSubstr(R"("items":[])"));
  EXPECT_THAT(client.Text(), HasSubstr("one two three"));
}

TEST_F(ChatSocketTest, TooManyVerbsAtOnceEndIt) {
  Open();
  ChatClient client(port());
  std::string frames;
  for (int i = 0; i < 100; ++i)
    frames += SocketClient::Frame(0x81, R"({"type":"history","session":"s"})");
  client.SendRaw(frames);
  EXPECT_EQ(Member(client.Next("error"), "code"), "session_queue_full");
  EXPECT_EQ(client.CloseCode(), 4429);
}

TEST_F(ChatSocketTest, UsersOfAnOpenServerNameThemselvesAndSeeTheirOwn) {
  Open();
  ChatClient ann(port(), "?user=ann"), bob(port(), "?user=bob"), nobody(port());
  ann.Message("s", "m", "of ann");
  const std::string id = Member(ann.Turn()[0], "response_id");
  bob.Message("s", "m", "of bob");
  EXPECT_EQ(Member(bob.Turn().back(), "type"), "response.completed");
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("of bob")) << "another session";
  nobody.Message("s", "m", "of local");
  EXPECT_EQ(Member(nobody.Turn().back(), "type"), "response.completed");
  EXPECT_THAT(Prompt(*Generation(2)), ElementsAre("of local"));
  for (const char* verb : {"resume", "cancel", "subscribe"}) {
    bob.SendText(R"({"type":")" + std::string(verb) + R"(","response_id":")" + id + "\"}");
    EXPECT_EQ(Member(bob.Text(), "code"), "not_found") << verb;
  }
  // A session without a user is shared by all callers, as over HTTP.
  const std::string made =
      Member(Ask(Post("/v1/responses", R"({"model":"fake","input":"hi"})")).body, "id");
  bob.SendText(R"({"type":"resume","response_id":")" + made + "\"}");
  EXPECT_EQ(ResponseIdOf(bob.Turn().back()), made);
  for (const char* query : {"?user=a/b", "?user=server", "?user=a&user=b", "?starting_after=1"}) {
    const ChatClient refused(port(), query);
    EXPECT_THAT(refused.head(), HasSubstr(" 400 ")) << query;
  }
}

TEST_F(ChatSocketTest, OnlyProjectsOfTheSettingsMayBeNamed) {
  Open();
  ChatClient client(port());
  client.Message("s", "m", "in none");
  client.Turn();
  client.Message("s", "m", "in driving", R"(,"project":"driving")");
  EXPECT_EQ(Member(client.Turn().back(), "type"), "response.completed");
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("in driving"));
  client.Message("s", "m", "hi", R"(,"project":"drivin")");
  const std::string refused = client.Text();
  EXPECT_EQ(Member(refused, "code"), "not_found");
  EXPECT_EQ(Member(refused, "param"), "project");
}

TEST_F(ChatSocketTest, AJobIsFollowedFromItsUrlAndByAFrame) {
  Open();
  const RawResponse accepted =
      Ask(Post("/v1/chat/completions", kChatBody, "Prefer: respond-async\r\n"));
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string id = Member(accepted.body, "id");
  EXPECT_THAT(accepted.body, HasSubstr(R"("ws":"/v1/ws?job=)" + id + "\""));
  ChatClient client(port(), "?job=" + id);
  const std::string last = client.Next("job.completed");
  EXPECT_NE(last.find("\"job\":" + Ask(Get("/v1/jobs/" + id)).body), std::string::npos);
  client.SendText(R"({"type":"subscribe","stream_id":"j","job_id":")" + id + "\"}");
  EXPECT_EQ(Member(client.Next("job.completed"), "stream_id"), "j");
  ChatClient other(port(), "?job=job_none");
  EXPECT_EQ(Member(other.Text(), "code"), "not_found");
  other.SendText(R"({"type":"ping"})");
  EXPECT_EQ(other.Text(), protocol::PongEvent("", 1234)) << "and the connection goes on";
}

TEST_F(ChatSocketTest, ADrainLetsWhatRunsEndAndClosesAsGoingAway) {
  holds_ = true;
  HttpOptions options;
  options.io_threads = 1;  // so that all connections see the drain together
  Open(options);
  ChatClient idle(port()), client(port());
  client.Message("s", "m1", "hi");
  const std::shared_ptr<FakeGeneration> running = Generation(0);
  std::atomic<bool> drained{false};
  std::thread drain([&] { drained = server_->Drain(std::chrono::seconds(20)); });
  EXPECT_EQ(idle.CloseCode(), 1001);
  client.Message("s", "m2", "late");
  EXPECT_EQ(Member(client.Next("error"), "code"), "draining");
  running->Answer({"done"});
  EXPECT_EQ(TextIn(client.Next("response.completed")), "done");
  EXPECT_EQ(client.CloseCode(), 1001);
  drain.join();
  EXPECT_TRUE(drained);
}

TEST_F(ChatSocketTest, WhoFollowsAJobHoldsUpNoDrain) {
  holds_ = true;
  Open();
  const RawResponse job = Ask(Post("/v1/chat/completions", kChatBody, "Prefer: respond-async\r\n"));
  ASSERT_EQ(job.status, 202) << job.body;
  Generation(0);
  ChatClient client(port(), "?job=" + Member(job.body, "id"));
  EXPECT_EQ(Member(client.Next("job.running"), "type"), "job.running");
  std::thread drain([&] { server_->Drain(std::chrono::seconds(60)); });
  EXPECT_EQ(client.CloseCode(), 1001);
  drain.join();
}

TEST_F(ChatSocketTest, WhatIsLeftToTheNextProcessIsSaidAndTheConnectionClosed) {
  holds_ = true;
  Open();
  ChatClient client(port());
  client.Message("s", "m1", "hi");
  EXPECT_EQ(Member(client.Next("accepted"), "id"), "m1");
  Generation(0);
  responses_->Interrupt();
  EXPECT_EQ(Member(client.Next("error"), "code"), "draining");
  std::thread drain([&] { server_->Drain(std::chrono::seconds(5)); });
  EXPECT_EQ(client.CloseCode(), 1001);
  drain.join();
}

TEST_F(ChatSocketTest, AReaderThatTakesNothingIsCutAndItsTurnsGoOn) {
  HttpOptions options;
  options.limits.reader_stall = std::chrono::milliseconds(700);
  options.send_buffer_bytes = 4096;
  Open(options);
  std::vector<std::string> long_answer;
  for (int i = 0; i < 60; ++i) long_answer.emplace_back(2000, static_cast<char>('a' + i % 26));
  holds_ = true;
  {
    ChatClient client(port(), "", "", 4096);
    for (int i = 0; i < 8; ++i) {
      client.Message("s" + std::to_string(i), "m", "hi");
      Generation(static_cast<size_t>(i))->Answer(long_answer);
    }
    EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 0; }, 30'000));
  }
  // Nothing of it is lost.
  ChatClient client(port());
  for (int i = 0; i < 8; ++i) {
    client.Message("s" + std::to_string(i), "m", "hi");
    const std::vector<std::string> events = client.Turn();
    EXPECT_EQ(Member(events.back(), "type"), "response.completed") << events.back();
    EXPECT_EQ(TextIn(events.back()).size(), 60u * 2000);
  }
  EXPECT_EQ(Generations(), 8u);
}

class ChatKeyTest : public ChatSocketTest {
 protected:
  void Open(HttpOptions options = {}) {
    options.api_key = "sesame";
    options.socket.auth_time = std::chrono::milliseconds(500);
    ChatSocketTest::Open(std::move(options));
  }
  std::string KeyOf(const std::string& name, const std::string& tenant) {
    auth::KeySpec spec{.name = name, .grant = {}, .expires_s = {}};
    spec.grant.tenant = tenant;
    const auto key = known_->accounts().CreateKey(spec, time(nullptr));
    EXPECT_TRUE(key.ok()) << key.status();
    return key.ok() ? key->text : "";
  }
  static std::string Bearer(const std::string& key) {
    return "Authorization: Bearer " + key + "\r\n";
  }
};

TEST_F(ChatKeyTest, WhoAsksIsKnownByTheUpgradeOrTheFirstFrame) {
  Open();
  EXPECT_THAT(ChatClient(port(), "", Bearer("wrong")).head(), HasSubstr(" 401 "));
  EXPECT_THAT(ChatClient(port(), "?token=x").head(), HasSubstr(" 401 "));
  const std::string key = KeyOf("ann", "default");
  ChatClient client(port(), "", Bearer(key)), later(port());
  client.Message("s", "m", "hi");
  EXPECT_EQ(Member(client.Turn().back(), "type"), "response.completed");
  EXPECT_EQ(Generation(0)->request.user, "ann");
  EXPECT_EQ(Generation(0)->request.route, "ws");
  later.SendText(R"({"type":"auth","token":")" + key + "\"}");
  later.Message("s", "m2", "again");
  EXPECT_EQ(Member(later.Turn().back(), "type"), "response.completed");
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("hi", "one two three", "again"))
      << "the same session";
  later.SendText(R"({"type":"auth","token":")" + key + "\"}");
  EXPECT_EQ(Member(later.Text(), "code"), "invalid_value");
  for (const std::string& first : {std::string(R"({"type":"ping"})"), std::string("{"),
                                   std::string(R"({"type":"auth","token":"wrong"})")}) {
    ChatClient refused(port());
    refused.SendText(first);
    EXPECT_EQ(Member(refused.Text(), "code"), "invalid_api_key") << first;
    EXPECT_EQ(refused.CloseCode(), 4401) << first;
  }
  ChatClient silent(port());
  EXPECT_EQ(silent.CloseCode(), 4401);
}

TEST_F(ChatKeyTest, NobodyIsAnotherUserOrOfAnotherTenant) {
  Open();
  const std::string ann = KeyOf("ann", "default"), eve = KeyOf("eve", "default"),
                    other = KeyOf("ann2", "other");
  EXPECT_THAT(ChatClient(port(), "?user=ann", Bearer(eve)).head(), HasSubstr(" 403 "));
  EXPECT_TRUE(ChatClient(port(), "?user=ann", Bearer(ann)).accepted());
  ChatClient late(port(), "?user=ann");
  late.SendText(R"({"type":"auth","token":")" + eve + "\"}");
  EXPECT_EQ(Member(late.Text(), "code"), "insufficient_scope");
  EXPECT_EQ(late.CloseCode(), 4403);

  ChatClient client(port(), "", Bearer(ann));
  client.Message("s", "m", "hi");
  const std::string id = Member(client.Turn()[0], "response_id");
  const RawResponse job =
      Ask(Post("/v1/chat/completions", kChatBody, "Prefer: respond-async\r\n" + Bearer(ann)));
  ASSERT_EQ(job.status, 202) << job.body;
  const std::string conversation =
      Member(Ask(Post("/v1/conversations", "{}", Bearer(ann))).body, "id");
  for (const std::string& key : {eve, other}) {
    ChatClient foreign(port(), "", Bearer(key));
    foreign.SendText(R"({"type":"resume","response_id":")" + id + "\"}");
    EXPECT_EQ(Member(foreign.Text(), "code"), "not_found");
    foreign.Message("s", "m", "what was said?");
    EXPECT_EQ(Member(foreign.Turn().back(), "type"), "response.completed");
  }
  EXPECT_THAT(Prompt(*Generation(Generations() - 1)), ElementsAre("what was said?"));
  ChatClient foreign(port(), "?job=" + Member(job.body, "id"), Bearer(other));
  EXPECT_EQ(Member(foreign.Text(), "code"), "not_found");
  foreign.SendText(R"({"type":"message","id":"m","input":"x","conversation":")" + conversation +
                   "\"}");
  EXPECT_EQ(Member(foreign.Text(), "code"), "not_found");
}

TEST_F(ChatKeyTest, ARevokedKeyIsHeardNoMore) {
  Open();
  const std::string key = KeyOf("ann", "default");
  ChatClient client(port(), "", Bearer(key));
  client.Message("s", "m", "hi");
  EXPECT_EQ(Member(client.Turn().back(), "type"), "response.completed");
  ASSERT_TRUE(known_->accounts().RevokeKeys("ann", time(nullptr)).ok());
  client.Message("s", "m2", "hi");
  EXPECT_EQ(Member(client.Text(), "code"), "key_revoked");
  EXPECT_EQ(client.CloseCode(), 4401);
  EXPECT_EQ(Generations(), 1u);
}

TEST_F(ChatSocketTest, AServerWithoutAStoreHasNoChat) {
  has_services_ = false;
  Open();
  EXPECT_THAT(ChatClient(port()).head(), HasSubstr(" 501 "));
}

}  // namespace
}  // namespace tutti::http::testing
