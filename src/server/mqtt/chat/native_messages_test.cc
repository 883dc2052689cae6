// The native profile's `.../in`: acceptance, answers, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/mqtt/chat/native_profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NativeMessagesTest : public testing::ProfileFixture {
 protected:
  std::string TextOf(const std::string& topic) const {
    std::string text;
    for (const testing::Event& event : Events(topic)) text += event.Text("delta");
    return text;
  }
};

TEST_F(NativeMessagesTest, AMessageIsAcceptedOnceItIsDurableAndItsEventsFollow) {
  const Delivery delivery = Deliver(Topic("in"), MessageJson("hello", "m1"));
  EXPECT_TRUE(Accepted(delivery));
  EXPECT_EQ(AskStore("SELECT count(*) FROM turn"), 1);
  const testing::Event accepted = Only(Topic("out"), "accepted");
  EXPECT_EQ(accepted.Text("id"), "m1");
  EXPECT_EQ(accepted.Int("turn"), 1);
  EXPECT_EQ(accepted.Int("sequence_number", -1), 0);
  StepAll();
  const std::vector<std::string> types = Types(Topic("out"));
  EXPECT_THAT(std::vector<std::string>(types.begin(), types.begin() + 6),
              ElementsAre("accepted", "response.created", "response.queued", "response.in_progress",
                          "response.output_item.added", "response.content_part.added"));
  EXPECT_THAT(std::vector<std::string>(types.end() - 4, types.end()),
              ElementsAre("response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.completed"));
  EXPECT_EQ(TextOf(Topic("out")), "[hello]");
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[hello]");
}

TEST_F(NativeMessagesTest, EventsAreThoseOfTheLogByteForByte) {
  Deliver(Topic("in"), MessageJson("hi", "m1"));
  const std::string id = Only(Topic("out"), "accepted").Text("response_id");
  StepAll();
  const Result<std::shared_ptr<responses::Response>> response = Find(id, "");
  ASSERT_TRUE(response.ok());
  const std::vector<std::string> log = ResponsesFixture::Events(**response);
  const std::vector<testing::Sent> sent = port_.sent(Topic("out"));
  ASSERT_GT(sent.size(), 8u);
  for (const testing::Sent& each : sent) {
    if (testing::Event(each.message.payload).Has("first_sequence_number")) continue;
    EXPECT_THAT(log, ::testing::Contains(each.message.payload));
  }
}

TEST_F(NativeMessagesTest, DeltasAreOfQosZeroAndAllElseOfQosOneWithTheirProperties) {
  Deliver(Topic("in"), MessageJson("hello", "m1"), "", "attempt-7");
  StepAll();
  const std::string id = Only(Topic("out"), "accepted").Text("response_id");
  const std::vector<testing::Sent> sent = port_.sent(Topic("out"));
  for (const testing::Sent& each : sent) {
    const testing::Event event(each.message.payload);
    EXPECT_EQ(each.message.qos, event.Text("type") == "response.output_text.delta" ? 0 : 1);
    EXPECT_FALSE(each.message.retain);
    EXPECT_TRUE(each.message.payload_is_text);
    EXPECT_EQ(each.message.content_type, "application/json");
    EXPECT_EQ(each.message.correlation_data, "attempt-7");
    EXPECT_EQ(testing::Property(each.message, "resp"), id);
    EXPECT_EQ(testing::Property(each.message, "seq"), std::to_string(event.Int("sequence_number")));
    EXPECT_EQ(testing::Property(each.message, "model"), "small") << "the default";
    EXPECT_EQ(testing::Property(each.message, "last"), &each == &sent.back() ? "true" : "false");
  }
}

TEST_F(NativeMessagesTest, DeltasOfReasoningAreCoalescedApartFromTheText) {
  inference_->script = [](const api::GenerateRequest&) {
    return responses::testing::Script{.pieces = {"x", "y"}, .reasoning = {"a", "b", "c"}};
  };
  Deliver(Topic("in"), MessageJson("hi", "m1"));
  StepAll();
  std::string reasoning, text;
  int64_t next = 0;
  for (const testing::Sent& each : port_.sent(Topic("out"))) {
    const testing::Event event(each.message.payload);
    const int64_t last = event.Int("sequence_number");
    EXPECT_EQ(event.Int("first_sequence_number", last), next) << each.message.payload;
    next = last + 1;
    if (event.Text("type") == "response.reasoning_text.delta") {
      EXPECT_EQ(each.message.qos, 0);
      EXPECT_EQ(event.Int("output_index"), 0);
      EXPECT_EQ(event.Text("item_id").substr(0, 3), "rs_");
      reasoning += event.Text("delta");
    } else if (event.Text("type") == "response.output_text.delta") {
      EXPECT_EQ(event.Int("output_index"), 1);
      EXPECT_EQ(event.Text("item_id").substr(0, 4), "msg_");
      text += event.Text("delta");
    }
  }
  EXPECT_EQ(reasoning, "abc");
  EXPECT_EQ(text, "xy");
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "xy");
}

TEST_F(NativeMessagesTest, DeltasAreCoalescedFirstAtOnceThenByThirtyMilliseconds) {
  inference_->script = [](const api::GenerateRequest&) {
    return responses::testing::Script{.pieces = {"a", "b", "c", "d", "e"}, .end = {}};
  };
  Deliver(Topic("in"), MessageJson("hi", "m1"));
  const TimePoint start = clock_.Now();
  for (int i = 0; i < 5; ++i) {  // at 0, 10, 20, 30, 40 ms
    inference_->Step();
    Settle();
    Advance(milliseconds(10));
  }
  for (int i = 0; i < 5; ++i) Advance(milliseconds(10));
  std::vector<std::pair<std::string, Duration>> deltas;
  std::vector<std::pair<int64_t, int64_t>> numbers;
  for (const testing::Sent& each : port_.sent(Topic("out"))) {
    const testing::Event event(each.message.payload);
    if (event.Text("type") != "response.output_text.delta") continue;
    deltas.emplace_back(event.Text("delta"), each.at - start);
    numbers.emplace_back(event.Int("first_sequence_number", event.Int("sequence_number")),
                         event.Int("sequence_number"));
  }
  using Delta = std::pair<std::string, Duration>;
  EXPECT_THAT(deltas, ElementsAre(Delta("a", milliseconds(0)), Delta("bcd", milliseconds(40)),
                                  Delta("e", milliseconds(70))));
  ASSERT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers[1].first, numbers[0].second + 1);
  EXPECT_EQ(numbers[1].second, numbers[1].first + 2);
  EXPECT_EQ(numbers[2].first, numbers[1].second + 1);
}

TEST_F(NativeMessagesTest, WhatIsHeldGoesOutBeforeTheEnd) {
  Deliver(Topic("in"), MessageJson("a long enough text", "m1"));
  StepAll();  // no time passes
  EXPECT_EQ(TextOf(Topic("out")), "[a long enough text]");
  const auto sent = port_.sent(Topic("out"));
  EXPECT_EQ(testing::Event(sent.back().message.payload).Text("type"), "response.completed");
}

TEST_F(NativeMessagesTest, RepeatedIdGetsSameEventsAndNoSecondGeneration) {
  Deliver(Topic("in"), MessageJson("hello", "m1"));
  const std::string first = port_.sent(Topic("out"))[0].message.payload;
  port_.Forget();
  EXPECT_TRUE(Accepted(Deliver(Topic("in"), MessageJson("hello", "m1"), "", "second")));
  EXPECT_EQ(port_.sent(Topic("out"))[0].message.payload, first);
  EXPECT_EQ(port_.sent(Topic("out"))[0].message.correlation_data, "second");
  StepAll();
  EXPECT_EQ(Types(Topic("out")).back(), "response.completed");
  EXPECT_EQ(inference_->requests().size(), 1u);
  port_.Forget();
  Deliver(Topic("in"), MessageJson("hello", "m1"));  // after its end
  EXPECT_EQ(port_.sent(Topic("out"))[0].message.payload, first);
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[hello]");
  EXPECT_EQ(inference_->requests().size(), 1u);
}

TEST_F(NativeMessagesTest, RepeatedIdWithOtherWordsGetsError) {
  Deliver(Topic("in"), MessageJson("hello", "m1"));
  StepAll();
  port_.Forget();
  EXPECT_TRUE(Accepted(Deliver(Topic("in"), MessageJson("other words", "m1"))))
      << "it was answered";
  const testing::Event error = Only(Topic("out"), "error");
  EXPECT_EQ(error.Code(), "idempotency_key_mismatch");
  EXPECT_EQ(error.Text("id"), "m1");
  EXPECT_EQ(port_.sent(Topic("out")).size(), 1u);
  EXPECT_EQ(inference_->requests().size(), 1u);
}

TEST_F(NativeMessagesTest, TheSameIdAgainAfterARestartHasTheSameAnswer) {
  Deliver(Topic("in"), MessageJson("hello", "m1"));
  StepAll();
  const std::string first = port_.sent(Topic("out"))[0].message.payload;
  Again();
  Deliver(Topic("in"), MessageJson("hello", "m1"));
  ASSERT_FALSE(port_.sent(Topic("out")).empty());
  EXPECT_EQ(port_.sent(Topic("out"))[0].message.payload, first);
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[hello]");
  EXPECT_THAT(inference_->requests(), IsEmpty());
}

TEST_F(NativeMessagesTest, WrongPayloadsAreToldAsErrorEventsWithTheClientsId) {
  const auto error = [&](const std::string& payload) {
    port_.Forget();
    EXPECT_TRUE(Accepted(Deliver(Topic("in"), payload))) << "it was answered";
    return Only(Topic("out"), "error");
  };
  EXPECT_EQ(error("{").Code(), "invalid_json");
  EXPECT_EQ(error(R"({"id":"m1","type":"message"})").Code(), "missing_required_parameter");
  EXPECT_EQ(error(R"({"id":"m1","type":"message"})").Text("id"), "m1");
  EXPECT_EQ(error(MessageJson("x", "m1", R"("temperature":"hot")")).Code(), "invalid_value");
  EXPECT_EQ(error(MessageJson("", "m1")).Code(), "empty_prompt");
  EXPECT_EQ(inference_->requests().size(), 0u);
  EXPECT_EQ(profile_->statistics().errors, 5u);
}

// Regression: any name was accepted as a project, and its dialog was stored.
TEST_F(NativeMessagesTest, AProjectThatTheSettingsDoNotKnowIsRefusedAndNothingIsKept) {
  ProjectSettings known, of_others;
  known.name = "driving";  // in the tenant of unauthenticated users
  of_others.name = "general";
  of_others.tenant = "another";
  profile_options_.projects = {known, of_others};
  Again();
  for (const char* const project : {"drivng", "general"}) {
    port_.Forget();
    const Delivery delivery = Deliver(
        Topic("in"), MessageJson("hi", "m1", R"("project":")" + std::string(project) + "\""));
    EXPECT_TRUE(Accepted(delivery)) << "it was answered";
    const testing::Event error = Only(Topic("out"), "error");
    EXPECT_EQ(error.Code(), "not_found");
    EXPECT_EQ(error.Text("id"), "m1");
    EXPECT_THAT(error.Text("message"), HasSubstr(project));
  }
  EXPECT_EQ(AskStore("SELECT count(*) FROM turn"), 0);
  EXPECT_THAT(inference_->requests(), IsEmpty());
  for (const char* const project : {"driving", "default"}) {
    port_.Forget();
    Deliver(Topic("in"), MessageJson("hi", "of-" + std::string(project),
                                     R"("project":")" + std::string(project) + "\""));
    EXPECT_THAT(Types(Topic("out")), ::testing::Contains("accepted")) << project;
  }
}

TEST_F(NativeMessagesTest, ParametersReachTheModel) {
  ProjectSettings project;
  project.name = "driving";
  profile_options_.projects = {project};
  Again();
  Deliver(
      Topic("in"),
      MessageJson("hi", "m1",
                  R"("model":"other","temperature":0,"max_output_tokens":7,"project":"driving",)"
                  R"("instructions":"be brief","seed":11)"));
  ASSERT_EQ(inference_->requests().size(), 1u);
  const api::GenerateRequest request = inference_->requests()[0];
  EXPECT_EQ(request.model, "other");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.max_tokens, 7);
  EXPECT_EQ(request.sampling.seed, 11);
  EXPECT_EQ(LastPrompt(), "<be brief> hi");
  StepAll();
  EXPECT_EQ(SessionsFixture::HistoryText(Key("alice/s", "driving", "")), "hi [hi]");
}

TEST_F(NativeMessagesTest, MessagesOfOneSessionAreAnsweredInTheirOrder) {
  for (int i = 1; i <= 3; ++i)
    Deliver(Topic("in"), MessageJson("u" + std::to_string(i), "m" + std::to_string(i)));
  StepAll();
  std::vector<std::string> answers;
  for (const testing::Event& event : Events(Topic("out"))) {
    if (event.Text("type") == "response.completed") answers.push_back(event.Answer());
  }
  EXPECT_THAT(answers, ElementsAre("[u1]", "[u2]", "[u3]"));
  EXPECT_EQ(Prompt(1), "u1 [u1] u2");
}

TEST_F(NativeMessagesTest, UsersWithTheSameSessionNameShareNothing) {
  Deliver(Topic("in", "s", "alice"), MessageJson("secret", "m1"));
  StepAll();
  Deliver(Topic("in", "s", "bob"), MessageJson("hello", "m1"));
  StepAll();
  EXPECT_EQ(LastPrompt(), "hello");
  for (const testing::Sent& each : port_.sent(Topic("out", "s", "bob")))
    EXPECT_THAT(each.message.payload, Not(HasSubstr("secret")));
}

TEST_F(NativeMessagesTest, AnExpiredMessageNeverReachesTheModel) {
  Message message;
  message.topic = Topic("in");
  message.payload = MessageJson("late", "m1");
  message.qos = 1;
  message.expires = clock_.Now();
  EXPECT_TRUE(Accepted(Deliver(message)));
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "deadline_exceeded");
  EXPECT_EQ(Only(Topic("out"), "error").Text("id"), "m1");
  EXPECT_EQ(AskStore("SELECT count(*) FROM turn"), 0);
}

TEST_F(NativeMessagesTest, AMessageThatExpiresWhileItWaitsIsDroppedBeforePrefill) {
  inference_->refuse = [this](const api::GenerateRequest& request) {
    if (request.deadline > clock_.Now()) return OkStatus();
    return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "too late");
  };
  Deliver(Topic("in"), MessageJson("first", "m1"));
  Message message;
  message.topic = Topic("in");
  message.payload = MessageJson("second", "m2", R"("deadline_ms":60000)");
  message.qos = 1;
  message.expires = clock_.Now() + milliseconds(100);
  Deliver(message);
  Work(milliseconds(60));
  EXPECT_EQ(inference_->requests().size(), 1u);
  const testing::Event failed = Only(Topic("out"), "response.failed");
  EXPECT_THAT(failed.Json("response"), HasSubstr("deadline_exceeded"));
}

TEST_F(NativeMessagesTest, AFullMailboxIsAnErrorWithARetryAndTheOthersAreAnswered) {
  for (int i = 0; i < 18; ++i) Deliver(Topic("in"), MessageJson("u", "m" + std::to_string(i)));
  const testing::Event error = Only(Topic("out"), "error");
  EXPECT_EQ(error.Code(), "session_queue_full");
  EXPECT_EQ(error.Text("id"), "m17");
  EXPECT_GT(error.Int("retry_after_ms"), 0);
  StepAll();
  int completed = 0;
  for (const std::string& type : Types(Topic("out"))) completed += type == "response.completed";
  EXPECT_EQ(completed, 17);
  EXPECT_EQ(profile_->statistics().rejected, 1u);
  EXPECT_EQ(profile_->statistics().processed, 17u);
  EXPECT_EQ(profile_->statistics().waiting, 0u);
}

TEST_F(NativeMessagesTest, PoliciesOfABusySession) {
  Deliver(Topic("in"), MessageJson("one", "m1"));
  inference_->Step();
  Deliver(Topic("in"), MessageJson("two", "m2", R"("policy":"reject")"));
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "conversation_busy");
  Deliver(Topic("in"), MessageJson("three", "m3", R"("policy":"interrupt")"));
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "response.cancelled").Answer(), "[on");
  EXPECT_EQ(LastPrompt(), "one [on three");
  Deliver(Topic("in"), MessageJson("four", "m4"));
  inference_->Step();
  Deliver(Topic("in"), MessageJson("five", "m5", R"("policy":"rollback")"));
  StepAll();
  EXPECT_EQ(LastPrompt(), "one [on three [three] five");
  Deliver(Topic("in"), MessageJson("six", "m6"));
  inference_->Step();
  Deliver(Topic("in"), MessageJson("seven", "m7", R"("policy":"steer")"));
  StepAll();
  const testing::Event steered = Only(Topic("out"), "response.incomplete");
  EXPECT_EQ(steered.Answer(), "[si");
  EXPECT_THAT(steered.Json("response"), HasSubstr(R"("incomplete_details":{"reason":"steered"})"));
  EXPECT_EQ(LastPrompt(), "one [on three [three] five [five] six [si seven");
}

TEST_F(NativeMessagesTest, MoreMessagesThanMayWaitAreRefusedAtOnceAndTheOthersAnswered) {
  profile_options_.waiting.all = 10;
  Again();
  for (int i = 0; i < 11; ++i) {
    const std::string session = "s" + std::to_string(i);
    EXPECT_TRUE(Accepted(Deliver(Topic("in", session), MessageJson("u", "m"))));
  }
  EXPECT_EQ(Only(Topic("out", "s10"), "error").Code(), "overloaded");
  EXPECT_THAT(lines_->all(), HasSubstr("mqtt.backlog_high waiting=7 most=10"));
  StepAll();
  for (int i = 0; i < 10; ++i) Only(Topic("out", "s" + std::to_string(i)), "response.completed");
  EXPECT_THAT(lines_->all(), HasSubstr("mqtt.backlog_normal waiting=6 most=10"));
  EXPECT_EQ(profile_->statistics().rejected, 1u);
}

TEST_F(NativeMessagesTest, ARateLimitIsToldWithItsWaitAndARepeatedMessageIsNotCounted) {
  int asked = 0;
  admit_ = [&](const sessions::SessionKey& key) {
    EXPECT_EQ(key, (sessions::SessionKey{"", "default", "alice/s"}));
    if (++asked <= 1) return OkStatus();
    return ResourceExhausted("rate_limit_exceeded", "20 in 60 s")
        .WithRetryAfter(milliseconds(1200));
  };
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  Deliver(Topic("in"), MessageJson("u1", "m1"));
  EXPECT_EQ(asked, 1);
  Deliver(Topic("in"), MessageJson("u2", "m2"));
  const testing::Event error = Only(Topic("out"), "error");
  EXPECT_EQ(error.Code(), "rate_limit_exceeded");
  EXPECT_EQ(error.Int("retry_after_ms"), 1200);
}

TEST_F(NativeMessagesTest, AnswersGoToAResponseTopicOfTheUsersOwn) {
  Deliver(Topic("in"), MessageJson("hi", "m1"), "llm/v1/alice/inbox/7");
  StepAll();
  EXPECT_THAT(port_.sent(Topic("out")), IsEmpty());
  EXPECT_EQ(Only("llm/v1/alice/inbox/7", "response.completed").Answer(), "[hi]");
}

TEST_F(NativeMessagesTest, AForeignResponseTopicIsAnErrorOnTheOrdinaryOneAndNothingElse) {
  for (const char* const topic :
       {"llm/v1/bob/s/out", "llm/v1/alice/+/out", "llm/v1/alice/#", "other/alice/s/out",
        "llm/v1/server/x/status", "llm/v1/alice/s/in", "llm/v1/alicex/s/out"}) {
    port_.Forget();
    EXPECT_TRUE(Accepted(Deliver(Topic("in"), MessageJson("hi", "m1"), topic)));
    ASSERT_EQ(port_.sent().size(), 1u) << topic;
    EXPECT_EQ(Only(Topic("out"), "error").Text("id"), "m1");
  }
  EXPECT_EQ(inference_->requests().size(), 0u);
  EXPECT_THAT(lines_->all(), HasSubstr("mqtt.refused"));
  EXPECT_THAT(lines_->all(), Not(HasSubstr("\"hi\"")));
}

TEST_F(NativeMessagesTest, WhoIsKnownMayWriteToItsOwnTopicsOnly) {
  Message message;
  message.topic = Topic("in", "s", "bob");
  message.payload = MessageJson("hi", "m1");
  message.qos = 1;
  message.user = "alice";
  message.tenant = "acme";
  const Delivery refused = Deliver(message);
  EXPECT_EQ((*refused.told)->reason(), "insufficient_scope");
  EXPECT_THAT(port_.sent(), IsEmpty());
  message.topic = Topic("in", "s", "alice");
  EXPECT_TRUE(Accepted(Deliver(message)));
  StepAll();
  EXPECT_EQ(SessionsFixture::HistoryText(Key("alice/s", "default", "acme")), "hi [hi]");
}

TEST_F(NativeMessagesTest, AnotherPrefixHasItsOwnTopicsAndNoOthers) {
  profile_options_.prefix = "house/ai";
  Again();
  EXPECT_EQ(Deliver(Topic("in"), MessageJson("hi", "m1")).sinks, 0);
  Deliver("house/ai/alice/s/in", MessageJson("hi", "m1"), "llm/v1/alice/s/out");
  EXPECT_EQ(Only("house/ai/alice/s/out", "error").Code(), "insufficient_scope");
  Deliver("house/ai/alice/s/in", MessageJson("hi", "m2"));
  StepAll();
  EXPECT_EQ(Only("house/ai/alice/s/out", "response.completed").Answer(), "[hi]");
}

TEST_F(NativeMessagesTest, APortThatTakesNothingLosesDeltasButNoOtherEvent) {
  Deliver(Topic("in"), MessageJson("hello there", "m1"));
  int refusals = 0;
  port_.refuse = [&](const Message&) {
    return ++refusals <= 12 ? Unavailable("overloaded", "full") : OkStatus();
  };
  StepAll();
  for (int i = 0; i < 40; ++i) Advance(milliseconds(50));
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[hello there]");
  std::vector<std::string> others;
  for (const std::string& type : Types(Topic("out"))) {
    if (type != "response.output_text.delta") others.push_back(type);
  }
  EXPECT_EQ(others.size(), 10u) << "each once";
}

TEST_F(NativeMessagesTest, AFinalThatDidNotArriveIsPublishedAgain) {
  int failures = 0;
  port_.outcome = [&](const Message& message) {
    if (testing::Property(message, "last") != "true" || ++failures > 2) return OkStatus();
    return Unavailable("not_connected", "the broker is away");
  };
  Deliver(Topic("in"), MessageJson("hi", "m1"));
  StepAll();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(profile_->statistics().waiting, 1u);
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(failures, 2);
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(failures, 2) << "the second wait is twice as long";
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(Only(Topic("out"), "response.completed").Answer(), "[hi]");
  EXPECT_EQ(profile_->statistics().waiting, 0u);
}

TEST_F(NativeMessagesTest, WhereNobodyListensTwiceOnlyTheFinalIsPublished) {
  int told = 0;
  port_.outcome = [&](const Message& message) {
    if (message.qos == 0 || ++told > 2) return OkStatus();
    return NotFound("not_found", "nobody subscribed");
  };
  Deliver(Topic("in"), MessageJson("hello", "m1"));
  port_.Forget();
  StepAll();
  EXPECT_THAT(Types(Topic("out")), ElementsAre("response.completed"));
}

TEST_F(NativeMessagesTest, AClientsWillDetachesItsStreamsAndKeepsTheirFinals) {
  Deliver(Topic("in", "s", "alice"), MessageJson("hello", "m1"));
  Deliver(Topic("in", "s", "bob"), MessageJson("hello", "m1"));
  port_.Forget();
  Deliver("llm/v1/alice/status", R"({"online":false})");
  StepAll();
  EXPECT_THAT(Types(Topic("out", "s", "alice")), ElementsAre("response.completed"));
  EXPECT_GT(Types(Topic("out", "s", "bob")).size(), 4u);
}

TEST_F(NativeMessagesTest, ARetainedMessageIsNoMessage) {
  Message message;
  message.topic = Topic("in");
  message.payload = MessageJson("hi", "m1");
  message.qos = 1;
  message.retain = true;
  EXPECT_TRUE(Accepted(Deliver(message)));
  EXPECT_THAT(port_.sent(), IsEmpty());
  EXPECT_THAT(lines_->all(), HasSubstr("mqtt.retained topic=llm/v1/alice/s/in"));
}

TEST_F(NativeMessagesTest, ADialogIsCutWhereItIsLongUnlessItsClientSaysOtherwise) {
  session_options_.window.limit = 60;  // tokens, which are bytes here
  Again();
  inference_->max_model_len = 70;
  for (int i = 0; i < 4; ++i) {
    Deliver(Topic("in"), MessageJson("0123456789", "m" + std::to_string(i)));
    StepAll();
  }
  EXPECT_LT(LastPrompt().size(), 60u);
  port_.Forget();
  Deliver(Topic("in"),
          MessageJson("0123456789", "m5", R"("truncation":"disabled","max_tokens":9)"));
  StepAll();
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "context_length_exceeded");
}

TEST_F(NativeMessagesTest, AfterItsEndNothingOfItIsPublishedAndMessagesAreRefused) {
  Deliver(Topic("in"), MessageJson("hello", "m1"));
  profile_->Stop();
  port_.Forget();
  StepAll();
  const Delivery late = Deliver(Topic("in"), MessageJson("hello", "m2"));
  EXPECT_EQ((*late.told)->reason(), "draining");
  EXPECT_THAT(port_.sent(), IsEmpty());
}

}  // namespace
}  // namespace tutti::mqtt::chat
