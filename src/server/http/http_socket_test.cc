// The Responses API over WebSocket, before a model whose words are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/http/testing/socket_client.h"
#include "server/http/testing/socket_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorCode(const std::string& json) {
  if (Member(json, "type") != "error") return "no error: " + json;
  return boost::json::parse(json).at("error").at("code").as_string().c_str();
}
class SocketTest : public SocketFixture {
 protected:
  static std::string CreateText(const std::string& members = "") {
    return R"({"type":"response.create","model":"fake","input":"hi")" + members + "}";
  }
  static std::vector<std::string> Answer(SocketClient& client) {
    std::vector<std::string> events;
    do {
      events.push_back(client.Text());
    } while (!events.back().empty() && !EndsAnswer(Member(events.back(), "type")));
    return events;
  }
};

TEST_F(SocketTest, TheUpgradeIsThatOfTheProtocol) {
  Open();
  const SocketClient client(port());
  EXPECT_TRUE(client.accepted()) << client.head();
  EXPECT_THAT(client.head(), HasSubstr("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
  EXPECT_THAT(client.head(), HasSubstr("\r\nConnection: Upgrade"));
  EXPECT_THAT(client.head(), Not(HasSubstr("Content-Length")));
}

TEST_F(SocketTest, WhatCannotBecomeOneIsRefusedInHttp) {
  Open();
  const auto ask = [&](const std::string& fields, const std::string& target = "/v1/responses") {
    return Ask(Get(target, fields));
  };
  const RawResponse plain = ask("");
  EXPECT_EQ(plain.status, 426);
  EXPECT_EQ(plain.Header("upgrade"), "websocket");
  EXPECT_EQ(CodeOf(plain), "upgrade_required");
  const std::string head = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  const std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  EXPECT_EQ(ask(head + key).status, 426);
  const RawResponse old = ask(head + key + "Sec-WebSocket-Version: 8\r\n");
  EXPECT_EQ(old.status, 426);
  EXPECT_EQ(old.Header("sec-websocket-version"), "13");
  for (const char* bad :
       {"", "Sec-WebSocket-Key: short\r\n", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=!\r\n"}) {
    EXPECT_EQ(ask(head + "Sec-WebSocket-Version: 13\r\n" + bad).status, 400) << bad;
  }
  for (const char* query : {"?api_key=secret", "?a=b&token=secret", "?Access_Token=secret"}) {
    const RawResponse refused =
        ask(std::string(kUpgradeFields), std::string("/v1/responses") + query);
    EXPECT_EQ(refused.status, 401) << query;
    EXPECT_EQ(CodeOf(refused), "invalid_api_key");
  }
  EXPECT_EQ(ask(std::string(kUpgradeFields) + "Origin: https://evil.example\r\n").status, 403);
  EXPECT_THAT(lines_->Joined(), Not(HasSubstr("secret")));
}

TEST_F(SocketTest, TheEventsAreThoseOfServerSentEventsWithTheChannel) {
  Open();
  const RawResponse sse =
      Ask(Post("/v1/responses", R"({"model":"fake","input":"hi","stream":true})"));
  std::vector<std::string> told;
  for (size_t at = sse.body.find("data: "); at != std::string::npos;
       at = sse.body.find("data: ", at + 1))
    told.push_back(sse.body.substr(at + 6, sse.body.find('\n', at) - at - 6));
  ASSERT_GT(told.size(), 6u);
  SocketClient client(port());
  client.SendText(CreateText(R"(,"stream_id":"a")"));
  const std::vector<std::string> events = Answer(client);
  ASSERT_EQ(events.size(), told.size());
  const auto without_ids = [](std::string text) {
    for (const char* mark : {"\"resp_", "\"msg_", "_at\":"}) {
      for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
        const size_t start = at + std::string(mark).size();
        text.erase(start, text.find_first_of("\",", start) - start);
      }
    }
    return text;
  };
  for (size_t i = 0; i < events.size(); ++i) {
    std::string expected = told[i];
    expected.pop_back();
    EXPECT_EQ(without_ids(events[i]), without_ids(expected + R"(,"stream_id":"a"})"));
  }
}

TEST_F(SocketTest, OneLaneAnswersInOrderAndLanesDoNotWaitForEachOther) {
  holds_ = true;
  Open();
  SocketClient client(port());
  client.SendText(CreateText(R"(,"stream_id":"a")"));
  const std::shared_ptr<FakeGeneration> first = Generation(0);
  client.SendText(R"({"type":"response.create","model":"fake","input":"second","stream_id":"a"})");
  client.SendText(R"({"type":"response.create","model":"fake","input":"second","stream_id":"b"})");
  const std::shared_ptr<FakeGeneration> second = Generation(1);
  EXPECT_THAT(Prompt(*second), ElementsAre("second"));
  second->AppendAnswer({"b"});
  second->Wake();
  std::string event;
  do {
    event = client.Text();
  } while (!event.empty() && Member(event, "type") != "response.completed");
  EXPECT_EQ(Member(event, "stream_id"), "b");
  EXPECT_EQ(Generations(), 2u) << "the second of channel a waits";
  first->AppendAnswer({"a"});
  first->Wake();
  EXPECT_THAT(Prompt(*Generation(2)), ElementsAre("second"));
  Generation(2)->AppendAnswer({"c"});
  Generation(2)->Wake();
  int completed = 0;
  while (completed < 2) {
    event = client.Text();
    ASSERT_FALSE(event.empty());
    EXPECT_EQ(Member(event, "stream_id"), "a");
    completed += Member(event, "type") == "response.completed" ? 1 : 0;
  }
}

TEST_F(SocketTest, TooManyMessagesOfALaneAndTooManyLanesAreErrorsThatEndNothing) {
  holds_ = true;
  HttpOptions options;
  options.socket.channels = 2;
  options.socket.channel_messages = 2;
  Open(options);
  SocketClient client(port());
  const auto errors_until_pong = [&] {
    std::vector<std::string> codes;
    client.SendText(R"({"type":"ping","id":"x"})");
    for (std::string text = client.Text(); !text.empty() && Member(text, "type") != "pong";
         text = client.Text()) {
      if (Member(text, "type") == "error")
        codes.push_back(ErrorCode(text) + " " + Member(text, "stream_id"));
    }
    return codes;
  };
  for (int i = 0; i < 4; ++i) client.SendText(CreateText(R"(,"stream_id":"a")"));
  EXPECT_THAT(errors_until_pong(), ElementsAre("session_queue_full a"));
  client.SendText(CreateText(R"(,"stream_id":"b")"));
  client.SendText(CreateText(R"(,"stream_id":"c")"));
  EXPECT_THAT(errors_until_pong(), ElementsAre("websocket_stream_limit_reached c"));
  // An idle channel makes room.
  Generation(1)->AppendAnswer({"b"});
  Generation(1)->Wake();
  for (std::string text = client.Text(); Member(text, "type") != "response.completed";)
    text = client.Text();
  client.SendText(CreateText(R"(,"stream_id":"c")"));
  EXPECT_THAT(errors_until_pong(), ElementsAre());
  EXPECT_EQ(Generations(), 3u);
}

TEST_F(SocketTest, WhatIsNotStoredIsRememberedByTheConnectionForAnyChannel) {
  Open();
  SocketClient client(port());
  client.SendText(CreateText(R"(,"store":false,"instructions":"Be brief.","stream_id":"a")"));
  const std::string id =
      std::string(boost::json::parse(Answer(client).back()).at("response").at("id").as_string());
  const std::string follow = R"(,"previous_response_id":")" + id + "\"";
  client.SendText(CreateText(R"(,"store":false,"stream_id":"b")" + follow));
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.completed");
  EXPECT_THAT(Prompt(*Generation(1)), ElementsAre("hi", "one two three", "hi"));
  client.SendText(CreateText(follow));
  EXPECT_EQ(ErrorCode(Answer(client).back()), "invalid_value") << "it would be stored";
  // Only the last response of a channel can be continued.
  client.SendText(CreateText(R"(,"store":false,"stream_id":"a")"));
  Answer(client);
  client.SendText(CreateText(R"(,"store":false,"stream_id":"b")" + follow));
  EXPECT_EQ(ErrorCode(Answer(client).back()), "not_found");
  // And not by another connection.
  client.SendText(CreateText(R"(,"store":false)"));
  const std::string other =
      std::string(boost::json::parse(Answer(client).back()).at("response").at("id").as_string());
  SocketClient second(port());
  second.SendText(CreateText(R"(,"store":false,"previous_response_id":")" + other + "\""));
  EXPECT_EQ(ErrorCode(Answer(second).back()), "not_found");
}

TEST_F(SocketTest, ReasoningBeforeACallIsRememberedByTheConnection) {
  Open();
  holds_ = true;
  SocketClient client(port());
  client.SendText(CreateText(R"(,"store":false)"));
  const std::shared_ptr<FakeGeneration> first = Generation(0);
  first->Started();
  api::StreamEvent thought;
  thought.reasoning = "Why?";
  first->stream->Append(std::move(thought));
  first->Calls({{0, "call_1", "f", "{}"}});
  first->ChoiceEnd(api::FinishReason::kToolCalls);
  first->End();
  first->Wake();
  const std::vector<std::string> events = Answer(client);
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_THAT(events[i], HasSubstr("\"sequence_number\":" + std::to_string(i) + ","));
  EXPECT_THAT(events[4], HasSubstr(R"("type":"response.reasoning_text.delta")"));
  const std::string id =
      std::string(boost::json::parse(events.back()).at("response").at("id").as_string());
  client.SendText(
      R"({"type":"response.create","model":"fake","store":false,"previous_response_id":")" + id +
      R"(","input":[{"type":"function_call_output","call_id":"call_1",)" + R"("output":"42"}]})");
  const std::shared_ptr<FakeGeneration> second = Generation(1);
  const auto& messages = std::get<api::ChatPrompt>(second->request.prompt).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].reasoning, "Why?");
  EXPECT_EQ(messages[1].tool_calls.size(), 1u);
  second->AppendAnswer({"a"});
  second->Wake();
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.completed");
}

TEST_F(SocketTest, AStoredAnswerIsReadAgainFromWhereItsReaderWas) {
  Open();
  SocketClient client(port());
  client.SendText(CreateText());
  const std::vector<std::string> events = Answer(client);
  const std::string id =
      std::string(boost::json::parse(events.back()).at("response").at("id").as_string());
  SocketClient second(port());
  second.SendText(R"({"type":"subscribe","starting_after":2,"response_id":")" + id + "\"}");
  EXPECT_EQ(Answer(second), std::vector<std::string>(events.begin() + 3, events.end()));
  second.SendText(R"({"type":"subscribe","stream_id":"z","response_id":"resp_none"})");
  const std::string missing = second.Text();
  EXPECT_EQ(ErrorCode(missing), "not_found");
  EXPECT_EQ(Member(missing, "stream_id"), "z");
  second.SendText(R"({"type":"subscribe","starting_after":99,"response_id":")" + id + "\"}");
  EXPECT_EQ(ErrorCode(second.Text()), "invalid_value");
}

TEST_F(SocketTest, AJobIsFollowedToItsResult) {
  Open();
  const RawResponse accepted =
      Ask(Post("/v1/chat/completions", kChatBody, "Prefer: respond-async\r\n"));
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string id = Member(accepted.body, "id");
  SocketClient client(port());
  client.SendText(R"({"type":"subscribe","stream_id":"j","job_id":")" + id + "\"}");
  std::string last = client.Text();
  for (int i = 0; i < 5 && Member(last, "type") != "job.completed"; ++i) last = client.Text();
  EXPECT_EQ(Member(last, "type"), "job.completed");
  EXPECT_EQ(Member(last, "stream_id"), "j");
  const std::string polled = Ask(Get("/v1/jobs/" + id)).body;
  EXPECT_NE(last.find("\"job\":" + polled), std::string::npos) << "polled and pushed are equal";
  client.SendText(R"({"type":"subscribe","starting_after":1,"job_id":")" + id + "\"}");
  EXPECT_EQ(Member(client.Text(), "type"), "job.running") << "also for who comes late";
  EXPECT_EQ(Member(client.Text(), "type"), "job.completed");
  client.SendText(R"({"type":"subscribe","job_id":"job_none"})");
  EXPECT_EQ(ErrorCode(client.Text()), "not_found");
}

TEST_F(SocketTest, ACancelEndsTheAnswerAndAClosedConnectionFreesWhatIsNotStored) {
  holds_ = true;
  Open();
  SocketClient client(port());
  client.SendText(CreateText());
  const std::string id =
      std::string(boost::json::parse(client.Text()).at("response").at("id").as_string());
  client.SendText(R"({"type":"response.cancel","response_id":")" + id + "\"}");
  ASSERT_TRUE(Eventually([&] { return Generation(0)->cancelled.load(); }));
  Generation(0)->End(Status(StatusCode::kCancelled, "cancelled", "cancelled"));
  Generation(0)->Wake();
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.cancelled");
  client.SendText(R"({"type":"response.cancel","response_id":"resp_none"})");
  EXPECT_EQ(ErrorCode(client.Text()), "not_found");

  client.SendText(CreateText(R"(,"store":false,"stream_id":"a")"));
  client.SendText(CreateText(R"(,"store":true,"stream_id":"b")"));
  const std::shared_ptr<FakeGeneration> fleeting = Generation(1), stored = Generation(2);
  client.raw().Close();
  EXPECT_TRUE(Eventually([&] { return fleeting->cancelled.load(); }));
  EXPECT_FALSE(stored->cancelled.load()) << "somebody may come back for it";
}

TEST_F(SocketTest, PingsOfTheProtocolAreEchoedAndACloseIsAnswered) {
  Open();
  SocketClient client(port());
  client.SendRaw(SocketClient::Frame(0x89, "abc"));
  const Came pong = client.Read();
  EXPECT_EQ(pong.opcode, 10);
  EXPECT_EQ(pong.payload, "abc");
  client.SendRaw(SocketClient::Frame(0x88, std::string("\x0F\xA0"
                                                       "bye",
                                                       5)));
  EXPECT_EQ(client.CloseCode(), 4000);
  EXPECT_TRUE(client.raw().WaitClosed());
  EXPECT_TRUE(Eventually([&] {
    return lines_->Joined().find(R"("status":101)") != std::string::npos ||
           lines_->Joined().find("status=101") != std::string::npos;
  })) << lines_->Joined();
}

TEST_F(SocketTest, FaultsCloseItWithTheirCode) {
  Open();
  const auto code = [&](const std::string& bytes) {
    SocketClient client(port());
    client.SendRaw(bytes);
    return client.CloseCode();
  };
  EXPECT_EQ(code(std::string("\x81\x02{}", 4)), 1002) << "not masked";
  EXPECT_EQ(code(SocketClient::Frame(0xC1, "{}")), 1002);
  EXPECT_EQ(code(SocketClient::Frame(0x83, "")), 1002);
  EXPECT_EQ(code(SocketClient::Frame(0x82, "x")), 1003);
  EXPECT_EQ(code(SocketClient::Frame(0x81, "\xFF")), 1007);
  EXPECT_EQ(code(std::string("\x81\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 10) + "mask"), 1009);
  std::string flood;
  for (int i = 0; i < 200; ++i) flood += SocketClient::Frame(0x89, "");
  EXPECT_EQ(code(flood), 1008);
  std::string nothing = SocketClient::Frame(0x01, "");
  for (int i = 0; i < 1001; ++i) nothing += SocketClient::Frame(0x00, "");
  EXPECT_EQ(code(nothing), 1008);
}

TEST_F(SocketTest, BadMessagesAreErrorsAndTooManyInARowTheEnd) {
  Open();
  SocketClient client(port());
  for (int i = 0; i < 15; ++i) client.SendText("{");
  client.SendText(R"({"type":"ping"})");
  for (int i = 0; i < 15; ++i) EXPECT_EQ(ErrorCode(client.Text()), "invalid_json");
  EXPECT_EQ(client.Text(), R"({"type":"pong"})");
  for (int i = 0; i < 16; ++i) client.SendText(R"({"type":"none"})");
  EXPECT_EQ(client.CloseCode(), 4400);
}

TEST_F(SocketTest, LargeMessagesKeepTheirPlace) {
  Open();
  SocketClient client(port());
  const std::string large(3 << 20, 'x');
  std::string frames;  // in four fragments
  const std::string text = R"({"type":"ping","id":"a","junk":")" + large + "\"}";
  for (size_t at = 0; at < text.size(); at += 1 << 20) {
    const int first = at == 0 ? 0x01 : at + (1 << 20) >= text.size() ? 0x80 : 0x00;
    frames += SocketClient::Frame(first, text.substr(at, 1 << 20));
  }
  client.SendRaw(frames + SocketClient::Frame(0x81, R"({"type":"ping","id":"b"})"));
  EXPECT_EQ(client.Text(), R"({"type":"pong","id":"a"})");
  EXPECT_EQ(client.Text(), R"({"type":"pong","id":"b"})");
}

TEST_F(SocketTest, AnErrorOfTheModelsAdmissionIsAMessageWithItsStatus) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>&) {
    return Unavailable("queue_full", "the queue is full");
  };
  Open();
  SocketClient client(port());
  client.SendText(CreateText(R"(,"stream_id":"q")"));
  const std::string error = client.Text();
  EXPECT_EQ(ErrorCode(error), "queue_full");
  EXPECT_THAT(error, HasSubstr(R"("status":503)"));
  client.SendText(R"({"type":"ping"})");
  EXPECT_EQ(client.Text(), R"({"type":"pong"})") << "and the connection goes on";
}

TEST_F(SocketTest, SilenceIsAskedAndThenClosed) {
  HttpOptions options;
  options.socket.ping_time = std::chrono::milliseconds(100);
  options.socket.silent_time = std::chrono::milliseconds(300);
  Open(options);
  SocketClient client(port());
  EXPECT_EQ(client.Read().opcode, 9);
  client.SendRaw(SocketClient::Frame(0x8A, ""));
  EXPECT_EQ(client.Read().opcode, 9) << "an answer keeps it";
  EXPECT_EQ(client.CloseCode(), 1008);
}

TEST_F(SocketTest, AnOldConnectionEndsWhatRunsAndBeginsNothing) {
  holds_ = true;
  HttpOptions options;
  options.socket.age = std::chrono::milliseconds(300);
  Open(options);
  SocketClient client(port());
  client.SendText(CreateText());
  std::string text = client.Text();
  while (!text.empty() && Member(text, "type") != "error") text = client.Text();
  EXPECT_EQ(ErrorCode(text), "websocket_connection_limit_reached");
  client.SendText(CreateText(R"(,"stream_id":"b")"));
  EXPECT_EQ(ErrorCode(client.Text()), "websocket_connection_limit_reached");
  Generation(0)->AppendAnswer({"late"});
  Generation(0)->Wake();
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.completed");
  EXPECT_EQ(client.CloseCode(), 4400);
  EXPECT_EQ(Generations(), 1u);
}

TEST_F(SocketTest, ADrainLetsWhatRunsEndAndClosesAsGoingAway) {
  holds_ = true;
  Open();
  SocketClient idle(port()), client(port());
  client.SendText(CreateText());
  const std::shared_ptr<FakeGeneration> running = Generation(0);
  std::atomic<bool> drained{false};
  std::thread drain([&] { drained = server_->Drain(std::chrono::seconds(20)); });
  EXPECT_EQ(idle.CloseCode(), 1001);
  running->AppendAnswer({"done"});
  running->Wake();
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.completed");
  EXPECT_EQ(client.CloseCode(), 1001);
  drain.join();
  EXPECT_TRUE(drained);
}

class SocketKeyTest : public SocketTest {
 protected:
  static HttpOptions WithKey() {
    HttpOptions options;
    options.api_key = "sesame";
    options.socket.auth_time = std::chrono::milliseconds(500);
    return options;
  }
};

TEST_F(SocketKeyTest, AKeyInTheFieldIsJudgedBeforeTheUpgrade) {
  Open(WithKey());
  EXPECT_THAT(SocketClient(port(), "Authorization: Bearer wrong\r\n").head(), HasSubstr(" 401 "));
  EXPECT_EQ(Ask(Get("/v1/responses")).status, 401) << "without an upgrade";
  SocketClient client(port(), "Authorization: Bearer sesame\r\n");
  ASSERT_TRUE(client.accepted()) << client.head();
  client.SendText(CreateText());
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.completed");
}

TEST_F(SocketKeyTest, OrTheFirstMessageSaysWhoAsks) {
  Open(WithKey());
  SocketClient client(port());
  ASSERT_TRUE(client.accepted()) << client.head();
  client.SendText(R"({"type":"auth","token":"sesame"})");
  client.SendText(CreateText());
  EXPECT_EQ(Member(Answer(client).back(), "type"), "response.completed");
  EXPECT_EQ(Generation(0)->request.caller->credential, "key:configured");
  client.SendText(R"({"type":"auth","token":"sesame"})");
  EXPECT_EQ(ErrorCode(client.Text()), "invalid_value");
}

TEST_F(SocketKeyTest, NothingElseIsDoneForWhoDoesNotSayIt) {
  Open(WithKey());
  for (const std::string& first :
       {CreateText(), std::string(R"({"type":"ping"})"), std::string("{"),
        std::string(R"({"type":"auth","token":"wrong"})")}) {
    SocketClient client(port());
    client.SendText(first);
    EXPECT_EQ(ErrorCode(client.Text()), "invalid_api_key") << first;
    EXPECT_EQ(client.CloseCode(), 4401) << first;
  }
  SocketClient silent(port());
  EXPECT_EQ(silent.CloseCode(), 4401);
  SocketClient large(port());
  large.SendRaw(SocketClient::Frame(0x01, std::string(17 << 10, 'x')));
  EXPECT_EQ(large.CloseCode(), 4401);
  EXPECT_EQ(Generations(), 0u);
  EXPECT_THAT(lines_->Joined(), Not(HasSubstr("sesame")));
}

}  // namespace
}  // namespace tutti::http::testing
