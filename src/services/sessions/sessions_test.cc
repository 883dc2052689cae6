#include "services/sessions/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using protocol::ResponseStatus;
using support::Eventually;
using ::testing::HasSubstr;
using testing::HeldStore;
using ::testing::StartsWith;

using SessionsTest = testing::SessionsFixture;

TEST_F(SessionsTest, ATurnIsAcceptedAnsweredAndRemembered) {
  const Acceptance first = Accepted(Key(), UserMessage("u1", "m1"));
  EXPECT_EQ(first.turn, 1);
  EXPECT_EQ(first.position, 0u);
  EXPECT_EQ(first.response_id, first.response->id());
  EXPECT_THAT(Events(*first.response)[0], StartsWith("{\"type\":\"accepted\",\"id\":\"m1\""));
  StepAll();
  ASSERT_TRUE(Ended(first.response));
  EXPECT_EQ(first.response->State().text, "[u1]");
  Answer(Key(), "u2");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2");
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
  EXPECT_EQ(History(Key()).version, 2);
}

TEST_F(SessionsTest, AnswersRapidMessagesInOrderWithEarlierAnswersAsContext) {
  std::vector<Acceptance> accepted;
  for (const char* text : {"u1", "u2", "u3"})
    accepted.push_back(Accepted(Key(), UserMessage(text)));
  EXPECT_EQ(accepted[1].position, 1u);
  EXPECT_EQ(accepted[2].position, 2u);
  EXPECT_EQ(inference_->active(), 1u) << "one turn runs";
  StepAll();
  for (const Acceptance& each : accepted) ASSERT_TRUE(Ended(each.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2] u3 [u3]");
  EXPECT_EQ(Prompt(1), "u1 [u1] u2");
  EXPECT_EQ(Prompt(2), "u1 [u1] u2 [u2] u3");
}

TEST_F(SessionsTest, SessionsRunBesideEachOtherAndNeverShareAHistory) {
  const SessionKey driving = Key("s", "driving"), general = Key("s", "general");
  const Acceptance a = Accepted(driving, UserMessage("left"));
  const Acceptance b = Accepted(general, UserMessage("hello"));
  Settle();
  EXPECT_EQ(inference_->active(), 2u) << "neither waits for the other";
  StepAll();
  Answer(general, "again");
  EXPECT_EQ(LastPrompt(), "hello [hello] again");
  EXPECT_EQ(HistoryText(driving), "left [left]");
  EXPECT_EQ(HistoryText(Key("s", "general", "another")), "");
}

TEST_F(SessionsTest, TenSessionsOnEightLanesAreAllAnswered) {
  std::vector<Acceptance> accepted;
  for (int i = 0; i < 10; ++i)
    accepted.push_back(Accepted(Key("session-" + std::to_string(i)), UserMessage("Hello!")));
  Settle();
  EXPECT_EQ(inference_->active(), 10u) << "no turn holds back another session's";
  StepAll();
  for (const Acceptance& each : accepted) {
    ASSERT_TRUE(Ended(each.response));
    EXPECT_EQ(each.response->State().text, "[Hello!]");
  }
  EXPECT_EQ(inference_->most_running(), 8u);
}

TEST_F(SessionsTest, ARepeatedMessageReturnsItsTurnEvenAfterARestart) {
  const Acceptance first = Accepted(Key(), UserMessage("u1", "m1"));
  const auto again = [&] {
    const Acceptance repeated = Accepted(Key(), UserMessage("u1", "m1"));
    EXPECT_TRUE(repeated.repeated);
    EXPECT_EQ(repeated.turn, first.turn);
    EXPECT_EQ(repeated.response_id, first.response_id);
  };
  again();
  StepAll();
  again();
  Restart();
  again();
  Settle();
  EXPECT_EQ(inference_->active(), 0u);
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
}

TEST_F(SessionsTest, RefusesARepeatedIdWithOtherTextEvenAfterARestart) {
  Accepted(Key(), UserMessage("u1", "m1"));
  const auto other = [&] {
    Message instructed = UserMessage("u1", "m1");
    instructed.system_prompt = "Be brief.";
    for (const Message& message : {UserMessage("other words", "m1"), instructed}) {
      const Status status = Submit(Key(), message).status();
      EXPECT_EQ(status.reason(), "idempotency_key_mismatch") << status;
      EXPECT_EQ(status.param(), "id");
    }
    EXPECT_TRUE(Accepted(Key(), UserMessage("u1", "m1")).repeated)
        << "its own words are still the same";
  };
  other();
  Restart();  // while it waits
  other();
  sessions_->Resume();
  Settle();
  StepAll();
  other();
  Restart();
  other();
  Settle();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
  EXPECT_EQ(Answer(Key("elsewhere"), UserMessage("other words", "m1")).text, "[other words]")
      << "an id is one session's";
}

TEST_F(SessionsTest, TheSameMessageTwiceAtOnceIsOneTurn) {
  Told first, second;
  sessions_->Submit(Key(), UserMessage("u1", "m1"), first.done());
  sessions_->Submit(Key(), UserMessage("u1", "m1"), second.done());
  const Result<Acceptance> a = first.Get(), b = second.Get();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(a->repeated);
  EXPECT_TRUE(b->repeated);
  EXPECT_EQ(a->response_id, b->response_id);
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
}

TEST_F(SessionsTest, AFailedTurnLeavesNoTextAndTheNextOneGoesOn) {
  inference_->script = [](const api::GenerateRequest& request) {
    responses::testing::Script script = responses::testing::EchoScript(request);
    if (script.pieces.front() == "[ba") script.end = Unavailable("overloaded", "it failed");
    return script;
  };
  Answer(Key(), "u1");
  const protocol::ResponseState failed = Answer(Key(), "bad");
  EXPECT_EQ(failed.status, ResponseStatus::kFailed);
  EXPECT_EQ(failed.error_code, "overloaded");
  Answer(Key(), "u3");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u3");
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u3 [u3]");
}

TEST_F(SessionsTest, WhatIsRefusedAtOnceIsNotAccepted) {
  inference_->refuse = [](const api::GenerateRequest&) { return api::ModelNotFound("large"); };
  const Result<Acceptance> refused = Submit(Key(), UserMessage("u1", "m1"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().reason(), "model_not_found");
  EXPECT_EQ(HistoryText(Key()), "");
  EXPECT_EQ(AskStore("SELECT count(*) FROM turn"), 0);
  inference_->refuse = nullptr;
  EXPECT_EQ(Answer(Key(), UserMessage("u1", "m1")).text, "[u1]") << "its id is free";
}

TEST_F(SessionsTest, WhatIsRefusedWhenItsTurnComesEndsItAsFailed) {
  const Acceptance first = Accepted(Key(), UserMessage("u1"));
  const Acceptance second = Accepted(Key(), UserMessage("u2"));
  inference_->refuse = [](const api::GenerateRequest&) { return api::ModelNotFound("large"); };
  StepAll();
  ASSERT_TRUE(Ended(first.response) && Ended(second.response));
  EXPECT_EQ(second.response->State().status, ResponseStatus::kFailed);
  EXPECT_EQ(second.response->State().error_code, "model_not_found");
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
}

TEST_F(SessionsTest, ATurnBeginsWhileItsRowIsOnItsWayToTheDiskAndIsSeenAfterwards) {
  Answer(Key(), "u1");
  HeldStore held(*store_);
  Told told;
  sessions_->Submit(Key(), UserMessage("u2"), told.done());
  ASSERT_TRUE(Eventually([&] { return inference_->active() == 1u; }));
  while (inference_->Step()) {
  }
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2");
  EXPECT_FALSE(told.called()) << "nobody is told before it is durable";
  held.LetGo();
  const Result<Acceptance> accepted = told.Get();
  ASSERT_TRUE(accepted.ok());
  ASSERT_TRUE(Ended(accepted->response));
  EXPECT_EQ(accepted->response->State().text, "[u2]");
  EXPECT_THAT(Events(*accepted->response)[0], HasSubstr("\"accepted\""));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
}

TEST_F(SessionsTest, WhatBeganAndDidNotReachTheDiskNeverWas) {
  Answer(Key(), "u1");
  ASSERT_TRUE(Change("CREATE TRIGGER refuses BEFORE INSERT ON turn BEGIN SELECT "
                     "RAISE(ABORT, 'no'); END")
                  .ok());
  const Result<Acceptance> refused = Submit(Key(), UserMessage("u2", "m2"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2") << "it had begun";
  EXPECT_TRUE(Eventually([&] {
    (void)inference_->Step();
    return inference_->active() == 0u;
  })) << "and is cancelled";
  ASSERT_TRUE(Change("DROP TRIGGER refuses").ok());
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
  EXPECT_EQ(Answer(Key(), UserMessage("u3", "m2")).text, "[u3]") << "its id is free";
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u3 [u3]");
}

TEST_F(SessionsTest, WhatIsCutShortBeforeItIsDurableIsAcceptedAndThenCut) {
  Answer(Key(), "u1");
  HeldStore held(*store_);
  Told first, second;
  sessions_->Submit(Key(), UserMessage("u2", "m2"), first.done());
  sessions_->Submit(Key(), UserMessage("u3", "m3", BusyPolicy::kRollback), second.done());
  ASSERT_TRUE(Eventually([&] { return inference_->active() == 1u; }));
  held.LetGo();
  const Result<Acceptance> u2 = first.Get(), u3 = second.Get();
  ASSERT_TRUE(u2.ok() && u3.ok());
  StepAll();
  ASSERT_TRUE(Ended(u2->response) && Ended(u3->response));
  EXPECT_EQ(u2->response->State().status, ResponseStatus::kCancelled);
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u3 [u3]");
}

TEST_F(SessionsTest, AFullQueueIsTriedAgain) {
  std::atomic<int> refusals{2};
  inference_->refuse = [&](const api::GenerateRequest&) {
    return refusals.fetch_sub(1) > 0 ? Unavailable("queue_full", "full") : OkStatus();
  };
  const Acceptance accepted = Accepted(Key(), UserMessage("u1"));
  Settle();
  EXPECT_EQ(inference_->active(), 0u);
  for (int i = 0; i < 2; ++i) {
    Pass(std::chrono::milliseconds(200));
    Settle();
  }
  StepAll();
  ASSERT_TRUE(Ended(accepted.response));
  EXPECT_EQ(accepted.response->State().text, "[u1]");
}

TEST_F(SessionsTest, AQueueThatStaysFullFailsTheTurnInTheEnd) {
  inference_->refuse = [](const api::GenerateRequest&) {
    return Unavailable("queue_full", "full");
  };
  const Acceptance accepted = Accepted(Key(), UserMessage("u1"));
  Settle();
  Pass(std::chrono::seconds(61));
  ASSERT_TRUE(Ended(accepted.response));
  EXPECT_EQ(accepted.response->State().error_code, "queue_full");
}

TEST_F(SessionsTest, ACancelledTurnLeavesNothingWhetherItRanOrWaited) {
  Answer(Key(), "u1");
  const Acceptance running = Accepted(Key(), UserMessage("to be cancelled", "m2"));
  const Acceptance waiting = Accepted(Key(), UserMessage("waits", "m3"));
  Settle();
  inference_->Step();
  Settle();
  for (const char* id : {"m3", "m2"})
    EXPECT_TRUE(Ask<Status>(&Sessions::Cancel, Key(), std::string(id)).ok());
  StepAll();
  for (const Acceptance& each : {running, waiting}) {
    ASSERT_TRUE(Ended(each.response));
    EXPECT_EQ(each.response->State().status, ResponseStatus::kCancelled);
  }
  Settle();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
  EXPECT_EQ(Ask<Status>(&Sessions::Cancel, Key(), std::string("m2")).reason(), "already_finished");
  EXPECT_EQ(Ask<Status>(&Sessions::Cancel, Key(), std::string("m9")).reason(), "not_found");
  Answer(Key(), "u4");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u4");
}

TEST_F(SessionsTest, AResponseThatWaitsCanBeCancelledByItsId) {
  const Acceptance running = Accepted(Key(), UserMessage("u1"));
  const Acceptance waiting = Accepted(Key(), UserMessage("u2"));
  support::Call<Result<std::shared_ptr<responses::Response>>> cancel;
  responses_->Cancel("t", waiting.response_id, cancel.done());
  EXPECT_TRUE(cancel.Get().ok());
  ASSERT_TRUE(Ended(waiting.response));
  EXPECT_FALSE(running.response->ended());
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
}

TEST_F(SessionsTest, CancelThatKeepsTheTextLeavesTheOrder) {
  const Acceptance cut = Accepted(Key(), UserMessage("long question"));
  const Acceptance waiting = Accepted(Key(), UserMessage("waits"));
  const Acceptance later = Accepted(Key(), UserMessage("later"));
  Settle();
  inference_->Step();
  Settle();
  for (const Acceptance& each : {waiting, cut}) {
    support::Call<Result<std::shared_ptr<responses::Response>>> cancel;
    responses_->Cancel("t", each.response_id, cancel.done(), /*keeps=*/true);
    EXPECT_TRUE(cancel.Get().ok());
  }
  StepAll();
  for (const Acceptance& each : {cut, waiting, later}) ASSERT_TRUE(Ended(each.response));
  EXPECT_EQ(cut.response->State().status, ResponseStatus::kCancelled);
  EXPECT_EQ(HistoryText(Key()), "long question [lo~ later [later]");
  Restart();
  EXPECT_EQ(HistoryText(Key()), "long question [lo~ later [later]");
}

TEST_F(SessionsTest, RejectIsRefusedWhileATurnRuns) {
  Accepted(Key(), UserMessage("u1"));
  EXPECT_EQ(Submit(Key(), UserMessage("u2", "", BusyPolicy::kReject)).status().reason(),
            "conversation_busy");
  StepAll();
  Settle();
  EXPECT_TRUE(Submit(Key(), UserMessage("u3", "", BusyPolicy::kReject)).ok());
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u3 [u3]");
}

TEST_F(SessionsTest, InterruptKeepsThePartialAnswerAndRollbackForgetsTheTurn) {
  for (const BusyPolicy policy : {BusyPolicy::kInterrupt, BusyPolicy::kRollback}) {
    const SessionKey key = Key("s" + std::to_string(static_cast<int>(policy)));
    const Acceptance cut = Accepted(key, UserMessage("long question"));
    const Acceptance waits = Accepted(key, UserMessage("later"));
    Settle();
    inference_->Step();
    Settle();
    const Acceptance next = Accepted(key, UserMessage("wait", "", policy));
    EXPECT_EQ(next.position, 1u);
    StepAll();
    for (const Acceptance& each : {cut, waits, next}) ASSERT_TRUE(Ended(each.response));
    EXPECT_EQ(cut.response->State().status, ResponseStatus::kCancelled);
    const bool keeps = policy == BusyPolicy::kInterrupt;
    const std::string kept = keeps ? "long question [lo~ " : "";
    EXPECT_EQ(HistoryText(key), kept + "wait [wait] later [later]");
    Restart();
    EXPECT_EQ(HistoryText(key), kept + "wait [wait] later [later]") << "the order of the answers";
    Answer(key, "more");
    EXPECT_THAT(LastPrompt(), HasSubstr("wait [wait] later [later] more"));
  }
}

TEST_F(SessionsTest, SteerGoesOnFromWhatTheTurnHasSaid) {
  Answer(Key(), UserMessage("u1", "", BusyPolicy::kSteer));  // nothing runs: it is as any other
  const Acceptance cut = Accepted(Key(), UserMessage("long question"));
  const Acceptance waits = Accepted(Key(), UserMessage("later"));
  Settle();
  inference_->Step();
  Settle();
  const Acceptance next = Accepted(Key(), UserMessage("no, short", "", BusyPolicy::kSteer));
  EXPECT_EQ(next.position, 1u);
  StepAll();
  for (const Acceptance& each : {cut, waits, next}) ASSERT_TRUE(Ended(each.response));
  const protocol::ResponseState end = cut.response->State();
  EXPECT_EQ(end.status, ResponseStatus::kIncomplete);
  EXPECT_EQ(end.incomplete_reason, "steered");
  EXPECT_EQ(end.text, "[lo");
  EXPECT_THAT(Events(*cut.response).back(), HasSubstr("\"response.incomplete\""));
  EXPECT_EQ(Prompt(2), "u1 [u1] long question [lo no, short") << "all that was computed, and it";
  const std::string said = "u1 [u1] long question [lo~ no, short [no, short] later [later]";
  EXPECT_EQ(HistoryText(Key()), said);
  Restart();
  EXPECT_EQ(HistoryText(Key()), said);
  const auto again = Find(cut.response_id);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->State().incomplete_reason, "steered");
}

TEST_F(SessionsTest, ATurnThatIsSteeredBeforeItHasSaidAnythingLeavesItsQuestion) {
  const Acceptance cut = Accepted(Key(), UserMessage("u1"));
  const Acceptance next = Accepted(Key(), UserMessage("u2", "", BusyPolicy::kSteer));
  StepAll();
  ASSERT_TRUE(Ended(cut.response) && Ended(next.response));
  EXPECT_EQ(cut.response->State().incomplete_reason, "steered");
  EXPECT_EQ(LastPrompt(), "u1 u2");
  EXPECT_EQ(HistoryText(Key()), "u1 u2 [u2]");
  // The same holds for a turn that had not begun because the queue was full.
  inference_->refuse = [](const api::GenerateRequest&) {
    return Unavailable("queue_full", "full");
  };
  const Acceptance held = Accepted(Key(), UserMessage("u3"));
  Settle();
  Accepted(Key(), UserMessage("u4", "", BusyPolicy::kSteer));
  ASSERT_TRUE(Ended(held.response));
  EXPECT_EQ(held.response->State().incomplete_reason, "steered");
  inference_->refuse = nullptr;
  Pass(std::chrono::milliseconds(200));
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 u2 [u2] u3 u4 [u4]");
  for (const Item& item : History(Key()).items)
    EXPECT_EQ(item.tokens, static_cast<int>(item.content.size()) + 2) << item.content;
}

// Reasoning, then a call for the first prompt and a text for the others.
responses::testing::Script ThinkingScript(const api::GenerateRequest& request) {
  const auto& messages = std::get<api::ChatPrompt>(request.prompt).messages;
  responses::testing::Script script{.pieces = {"so"}, .reasoning = {"why ", "not"}};
  if (messages.size() > 1) return script;
  script.pieces.clear();
  script.finish = api::FinishReason::kToolCalls;
  script.calls = {{0, "call_1", "f", "{}"}};
  return script;
}

TEST_F(SessionsTest, ReasoningIsAnItemAndGoesOnWithTheCallBehindIt) {
  inference_->script = ThinkingScript;
  Answer(Key(), "u1");
  Message output = UserMessage("");
  output.input = {{api::Role::kTool, "42", ""}};
  output.input[0].tool_call_id = "call_1";
  const protocol::ResponseState second = Answer(Key(), output);
  EXPECT_EQ(second.usage->reasoning_tokens, 2);
  Restart();
  inference_->script = ThinkingScript;
  const ItemList list = History(Key());
  ASSERT_EQ(list.items.size(), 6u) << "u1 reasoning call, output reasoning text";
  EXPECT_EQ(list.items[1].reasoning, "why not");
  EXPECT_EQ(list.items[1].tokens, 9) << "it is in the prompts that follow";
  EXPECT_THAT(list.items[1].id, StartsWith("rs_"));
  EXPECT_EQ(list.items[4].reasoning, "why not");
  EXPECT_EQ(list.items[4].tokens, 0) << "it is in no later prompt";
  EXPECT_EQ(list.items[5].id, second.item_id);
  Answer(Key(), "u2");
  const auto requests = inference_->requests();
  const auto& messages = std::get<api::ChatPrompt>(requests.back().prompt).messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[1].reasoning, "why not");
  EXPECT_EQ(messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(messages[3].content, "so");
  EXPECT_EQ(messages[3].reasoning, "");
}

TEST_F(SessionsTest, ATurnThatWasCutWhileItThoughtLeavesAnEmptyAnswer) {
  inference_->script = [](const api::GenerateRequest&) {
    return responses::testing::Script{
        .pieces = {}, .finish = api::FinishReason::kLength, .reasoning = {"why"}};
  };
  EXPECT_EQ(Answer(Key(), "u1").status, ResponseStatus::kIncomplete);
  Answer(Key(), "u2");
  const auto requests = inference_->requests();
  const auto& messages = std::get<api::ChatPrompt>(requests.back().prompt).messages;
  ASSERT_EQ(messages.size(), 3u) << "roles alternate";
  EXPECT_EQ(messages[1].role, api::Role::kAssistant);
  EXPECT_EQ(messages[1].content + messages[1].reasoning, "");
}

TEST_F(SessionsTest, RefusesSteerWithoutOutputIfTheTemplateNeedsAlternation) {
  inference_->template_of = [](const api::ChatPrompt& prompt) {
    for (size_t i = 1; i < prompt.messages.size(); ++i) {
      if (prompt.messages[i].role == prompt.messages[i - 1].role)
        return InvalidArgument("template_refused", "roles must alternate");
    }
    return OkStatus();
  };
  const Acceptance cut = Accepted(Key(), UserMessage("u1"));
  const Result<Acceptance> refused = Submit(Key(), UserMessage("u2", "m2", BusyPolicy::kSteer));
  EXPECT_EQ(refused.status().reason(), "steer_unsupported");
  Settle();
  inference_->Step();
  Settle();
  const Acceptance next = Accepted(Key(), UserMessage("u2", "m2", BusyPolicy::kSteer));
  EXPECT_TRUE(Accepted(Key(), UserMessage("u2", "m2", BusyPolicy::kSteer)).repeated);
  StepAll();
  ASSERT_TRUE(Ended(cut.response) && Ended(next.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1~ u2 [u2]");
}

TEST_F(SessionsTest, SeveralThatSteerAreAnsweredInTheirOrder) {
  Accepted(Key(), UserMessage("u1"));
  Accepted(Key(), UserMessage("waits"));
  Settle();
  inference_->Step();
  Settle();
  std::vector<Acceptance> steer;
  for (const char* text : {"u2", "u3", "u4"})
    steer.push_back(Accepted(Key(), UserMessage(text, "", BusyPolicy::kSteer)));
  EXPECT_EQ(steer[2].position, 3u);
  StepAll();
  for (const Acceptance& each : steer) ASSERT_TRUE(Ended(each.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1~ u2 [u2] u3 [u3] u4 [u4] waits [waits]");
}

TEST_F(SessionsTest, WhoCancelsATurnThatIsBeingSteeredLeavesNothingOfIt) {
  const Acceptance cut = Accepted(Key(), UserMessage("u1", "m1"));
  Settle();
  inference_->Step();
  Settle();
  const Acceptance next = Accepted(Key(), UserMessage("u2", "", BusyPolicy::kSteer));
  EXPECT_TRUE(Ask<Status>(&Sessions::Cancel, Key(), std::string("m1")).ok());
  StepAll();
  ASSERT_TRUE(Ended(cut.response) && Ended(next.response));
  EXPECT_EQ(cut.response->State().status, ResponseStatus::kCancelled);
  EXPECT_EQ(HistoryText(Key()), "u2 [u2]");
}

// At any moment of a turn: before its first piece, in its middle, and after its last.
TEST_F(SessionsTest, EachPolicyHasItsHistoryAndItsReplyInAHundredRepeats) {
  constexpr int kRepeats = 100;
  options_.memory.per_owner = 10'000;
  session_options_.resident = 1000;
  Restart();
  std::map<BusyPolicy, int> cut_short;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (const BusyPolicy policy :
         {BusyPolicy::kEnqueue, BusyPolicy::kReject, BusyPolicy::kInterrupt, BusyPolicy::kRollback,
          BusyPolicy::kSteer}) {
      const SessionKey key =
          Key(std::to_string(static_cast<int>(policy)) + "-" + std::to_string(repeat));
      const Acceptance first = Accepted(key, UserMessage("a question"));
      Settle();
      for (int steps = repeat % 6; steps > 0; --steps) {
        inference_->Step();
        Settle();
      }
      const bool ran = !first.response->ended();
      const Result<Acceptance> second = Submit(key, UserMessage("another", "", policy));
      StepAll();
      ASSERT_TRUE(Ended(first.response));
      const protocol::ResponseState end = first.response->State();
      const bool cut = end.status != ResponseStatus::kCompleted;
      cut_short[policy] += cut ? 1 : 0;
      if (policy == BusyPolicy::kReject && ran) {
        EXPECT_EQ(second.status().reason(), "conversation_busy");
        EXPECT_EQ(HistoryText(key), "a question [a question]");
        continue;
      }
      ASSERT_TRUE(second.ok()) << second.status();
      ASSERT_TRUE(Ended(second->response));
      EXPECT_EQ(second->response->State().text, "[another]");
      std::string before = "a question [a question] ";
      if (cut) {
        before = policy == BusyPolicy::kRollback ? "" : "a question " + end.text + "~ ";
        if (policy == BusyPolicy::kSteer && end.text.empty()) before = "a question ";
        const bool steered = policy == BusyPolicy::kSteer;
        EXPECT_EQ(end.status, steered ? ResponseStatus::kIncomplete : ResponseStatus::kCancelled);
        EXPECT_EQ(end.incomplete_reason, steered ? "steered" : "");
        EXPECT_EQ(end.text, std::string("[a question]").substr(0, end.text.size()));
      }
      EXPECT_EQ(HistoryText(key), before + "another [another]");
    }
  }
  for (const BusyPolicy policy :
       {BusyPolicy::kInterrupt, BusyPolicy::kRollback, BusyPolicy::kSteer})
    EXPECT_GT(cut_short[policy], kRepeats / 2);
  EXPECT_EQ(cut_short[BusyPolicy::kEnqueue], 0);
}

TEST_F(SessionsTest, RefusesTheSeventeenthWaitingMessageOfASession) {
  Accepted(Key(), UserMessage("runs"));
  for (int i = 0; i < 16; ++i) Accepted(Key(), UserMessage("waits"));
  const Result<Acceptance> refused = Submit(Key(), UserMessage("too many"));
  EXPECT_EQ(refused.status().reason(), "session_queue_full");
  EXPECT_EQ(refused.status().excess(), (Status::Excess{17, 16}));
  Accepted(Key("another"), UserMessage("hello"));
  Settle();
  EXPECT_EQ(inference_->active(), 2u);
  StepAll();
  EXPECT_EQ(History(Key()).items.size(), 34u);
}

// A limit of the sender's is asked last: what is refused or repeated costs nothing of it.
TEST_F(SessionsTest, OnlyANewMessageThatHasAPlaceAsksWhetherItIsAdmitted) {
  int asked = 0;
  const auto say = [&](const std::string& id, const Status& answer = OkStatus()) {
    Message message = UserMessage("x", id);
    message.admit = [&asked, answer]() -> Result<Admitted> {
      ++asked;
      if (!answer.ok()) return answer;
      return Admitted();
    };
    return Submit(Key(), std::move(message));
  };
  EXPECT_EQ(say("m1").value().turn, 1);
  EXPECT_TRUE(say("m1").value().repeated);
  EXPECT_EQ(asked, 1);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(say("").ok());
  const Status limited = ResourceExhausted("rate_limit_exceeded", "too often");
  EXPECT_EQ(say("late", limited).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(asked, 17);
  EXPECT_FALSE(say("late").value().repeated) << "it was never accepted, and left its place";
  EXPECT_EQ(say("").status().reason(), "session_queue_full");
  EXPECT_EQ(asked, 18);
  StepAll();
  EXPECT_EQ(History(Key()).items.size(), 34u);
  EXPECT_TRUE(say("late").value().repeated);
  EXPECT_EQ(asked, 18) << "also of one that has ended";
}

TEST_F(SessionsTest, AMessageCountsWhenItIsAcceptedAndNotWhenItIsRefusedAfterAll) {
  std::atomic<int> held{0}, counted{0};
  const auto say = [&](const std::string& text) {
    Message message = UserMessage(text);
    message.admit = [&]() -> Result<Admitted> {
      const auto one = std::shared_ptr<int>(new int(++held), [&](const int* each) {
        --held;
        delete each;
      });
      return Admitted([&, one] { ++counted; });
    };
    return Submit(Key(), std::move(message));
  };
  EXPECT_TRUE(say("u1").ok());
  EXPECT_EQ(counted, 1);
  StepAll();
  inference_->refuse = [](const api::GenerateRequest&) { return api::ModelNotFound("large"); };
  EXPECT_FALSE(say("u2").ok());
  inference_->refuse = nullptr;
  ASSERT_TRUE(Change("CREATE TRIGGER refuses BEFORE INSERT ON turn BEGIN SELECT "
                     "RAISE(ABORT, 'no'); END")
                  .ok());
  EXPECT_FALSE(say("u3").ok());
  Settle();
  EXPECT_EQ(counted, 1);
  EXPECT_TRUE(Eventually([&] { return held == 0; })) << "what was not counted is given back";
}

// One was refused while the session was read, and took it from under those that waited with it.
TEST_F(SessionsTest, ARefusalWhileASessionIsReadLeavesItToTheOthersThatWait) {
  Told refused, second, third;
  {
    HeldStore held(*store_);
    Message message = UserMessage("u1");
    message.admit = []() -> Result<Admitted> {
      return ResourceExhausted("rate_limit_exceeded", "too often");
    };
    sessions_->Submit(Key(), std::move(message), refused.done());
    sessions_->Submit(Key(), UserMessage("u2"), second.done());
  }
  EXPECT_FALSE(refused.Get().ok());
  ASSERT_TRUE(second.Get().ok());
  sessions_->Submit(Key(), UserMessage("u3"), third.done());
  const Result<Acceptance> last = third.Get();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->turn, 3);
  StepAll();
  ASSERT_TRUE(Ended(last->response));
  EXPECT_EQ(LastPrompt(), "u2 [u2] u3");
  EXPECT_EQ(HistoryText(Key()), "u2 [u2] u3 [u3]");
}

TEST_F(SessionsTest, AMessageBehindANewSystemPromptIsAnsweredUnderIt) {
  Answer(Key(), "u1");
  support::Call<Status> prompted;
  Told told;
  {
    HeldStore held(*store_);
    sessions_->SetSystemPrompt(Key(), "new", prompted.done());
    sessions_->Submit(Key(), UserMessage("u2"), told.done());
  }
  EXPECT_TRUE(prompted.Get().ok());
  ASSERT_TRUE(told.Get().ok());
  StepAll();
  EXPECT_EQ(LastPrompt(), "<new> u1 [u1] u2");
}

TEST_F(SessionsTest, ParallelTurnsRunAtOnceAndStandInTheOrderOfTheirNumbers) {
  inference_->script = [](const api::GenerateRequest& request) {
    const std::string& text = std::get<api::ChatPrompt>(request.prompt).messages.back().content;
    // The first takes longest.
    return responses::testing::Script{
        .pieces = std::vector<std::string>(text == "u1" ? 5 : 1, "a" + text.substr(1))};
  };
  std::vector<Acceptance> accepted;
  for (const char* text : {"u1", "u2", "u3"}) {
    Message message = UserMessage(text);
    message.parallel = true;
    accepted.push_back(Accepted(Key(), std::move(message)));
  }
  Settle();
  EXPECT_EQ(inference_->active(), 3u);
  inference_->Step();
  inference_->Step();
  ASSERT_TRUE(Ended(accepted[1].response));
  ASSERT_TRUE(Ended(accepted[2].response));
  EXPECT_FALSE(accepted[0].response->ended());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(accepted[i].turn, static_cast<int64_t>(i) + 1);
    EXPECT_THAT(Events(*accepted[i].response)[0], HasSubstr("\"turn\":" + std::to_string(i + 1)));
  }
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 a1a1a1a1a1 u2 a2 u3 a3");
  Answer(Key(), "u4");
  EXPECT_EQ(LastPrompt(), "u1 a1a1a1a1a1 u2 a2 u3 a3 u4");
}

TEST_F(SessionsTest, WhatTheClientExpectsOfTheDialogMustStillBeSo) {
  Answer(Key(), "u1");
  const ItemList list = History(Key());
  Message stale = UserMessage("u2");
  stale.expected_version = 0;
  EXPECT_EQ(Submit(Key(), stale).status().reason(), "version_mismatch");
  stale = UserMessage("u2");
  stale.expected_last_item_id = list.items.front().id;
  EXPECT_EQ(Submit(Key(), stale).status().reason(), "stale_item");
  Message right = UserMessage("u2");
  right.expected_version = list.version;
  right.expected_last_item_id = list.items.back().id;
  EXPECT_TRUE(Submit(Key(), right).ok());
  EXPECT_EQ(Submit(Key(), right).status().reason(), "version_mismatch") << "a turn is under way";
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
}

TEST_F(SessionsTest, TheAnswersItemHasTheIdOfItsResponsesItem) {
  const protocol::ResponseState answer = Answer(Key(), "u1");
  EXPECT_EQ(History(Key()).items.back().id, answer.item_id);
}

TEST_F(SessionsTest, SystemPromptsOfTurnSessionAndProjectGoBeforeEachOther) {
  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "project"), 1);
  Answer(Key(), "u1");
  EXPECT_EQ(LastPrompt(), "<project> u1");
  EXPECT_TRUE(Ask<Status>(&Sessions::SetSystemPrompt, Key(), "session").ok());
  Answer(Key(), "u2");
  EXPECT_EQ(LastPrompt(), "<session> u1 [u1] u2");
  Message message = UserMessage("u3");
  message.system_prompt = "turn";
  Answer(Key(), message);
  EXPECT_EQ(LastPrompt(), "<turn> u1 [u1] u2 [u2] u3");
  Answer(Key(), "u4");
  EXPECT_THAT(LastPrompt(), StartsWith("<session> u1"));
  Answer(Key("other"), "v1");
  EXPECT_EQ(LastPrompt(), "<project> v1");
  Restart();
  Answer(Key(), "u5");
  EXPECT_THAT(LastPrompt(), StartsWith("<session> u1"));
}

TEST_F(SessionsTest, AProjectsNewPromptIsANewVersionAndAnotherKeyOfTheCache) {
  Answer(Key(), "u1");
  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "one"), 1);
  Answer(Key(), "u2");
  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "two"), 2);
  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "two"), 2) << "as it is";
  Answer(Key(), "u3");
  EXPECT_EQ(LastPrompt(), "<two> u1 [u1] u2 [u2] u3") << "also of sessions in memory";
  const auto requests = inference_->requests();
  EXPECT_NE(requests[0].cache_salt, requests[1].cache_salt);
  EXPECT_NE(requests[1].cache_salt, requests[2].cache_salt);
  Answer(Key("s", "q"), "v1");
  EXPECT_EQ(LastPrompt(), "v1");
}

TEST_F(SessionsTest, PromptsStayWithinTheWindowAndTellWhatTheyDropped) {
  session_options_.window.limit = 400;
  Restart();
  EXPECT_TRUE(Ask<Status>(&Sessions::SetSystemPrompt, Key(), "be brief").ok());
  int64_t dropped = 0, cuts = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const Acceptance accepted =
        Accepted(Key(), UserMessage("message number " + std::to_string(turn)));
    StepAll();
    ASSERT_TRUE(Ended(accepted.response));
    const auto requests = inference_->requests();
    EXPECT_LE(responses::testing::ScriptedInference::CountOf(requests.back().prompt), 400);
    EXPECT_THAT(LastPrompt(), StartsWith("<be brief>"));
    if (accepted.response->dropped().turns > 0) {
      ++cuts;
      dropped += accepted.response->dropped().turns;
      EXPECT_THAT(Events(*accepted.response)[3], HasSubstr("context.truncated"));
    }
  }
  const auto left = std::get<api::ChatPrompt>(inference_->requests().back().prompt).messages;
  EXPECT_EQ(dropped + static_cast<int64_t>(left.size() - 2) / 2, 99) << "none is lost unsaid";
  EXPECT_LE(cuts, 100 * 42 / 100 + 1) << "a quarter of the window at once";
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 200) << "the history keeps all";
}

TEST_F(SessionsTest, AWindowThatMayNotBeCutRefusesWhatDoesNotFit) {
  Message message = UserMessage(std::string(300, 'x'));
  message.window = ContextWindow{.limit = 200, .truncate = false};
  const Result<Acceptance> refused = Submit(Key(), message);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().reason(), "context_length_exceeded");
  EXPECT_EQ(HistoryText(Key()), "");
}

TEST_F(SessionsTest, OnlyWhatIsNewIsTokenised) {
  Answer(Key(), std::string(500, 'a'));
  const int before = inference_->tokenized_bytes;
  Answer(Key(), "short");
  EXPECT_LT(inference_->tokenized_bytes - before, 100);
}

TEST_F(SessionsTest, WhatIsTooLargeOrNamelessIsRefused) {
  EXPECT_EQ(Submit(Key(), UserMessage(std::string(300 << 10, 'x'))).status().reason(),
            "request_too_large");
  EXPECT_EQ(Submit(Key(""), UserMessage("u")).status().reason(), "invalid_value");
  EXPECT_EQ(Submit(Key("s", "a/b"), UserMessage("u")).status().reason(), "invalid_value");
  EXPECT_EQ(Submit(Key(std::string("s\1", 2)), UserMessage("u")).status().reason(),
            "invalid_value");
  EXPECT_EQ(Submit(Key(), UserMessage("u", std::string(129, 'i'))).status().reason(),
            "invalid_value");
  Message silent = UserMessage("");
  silent.input.clear();
  EXPECT_EQ(Submit(Key(), silent).status().reason(), "empty_prompt");
}

TEST_F(SessionsTest, SectionsAreMeasuredAndShort) {
  inference_->Run();
  std::vector<Acceptance> accepted;
  for (int i = 0; i < 200; ++i)
    accepted.push_back(Accepted(Key("s" + std::to_string(i % 10)), UserMessage("hello")));
  for (const Acceptance& each : accepted) ASSERT_TRUE(Ended(each.response));
  EXPECT_GE(sessions_->hold_times().count(), 600u);
#ifndef TUTTI_SANITIZED  // a sanitizer's time is not the program's
  EXPECT_LE(sessions_->hold_times().Quantile(0.99), std::chrono::milliseconds(12));  // row U21
#endif
}

}  // namespace
}  // namespace tutti::sessions
