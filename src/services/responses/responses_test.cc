#include "services/responses/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/responses/inference_guard.h"
#include "services/responses/testing/responses_fixture.h"

namespace tutti::responses {
namespace {

using protocol::ResponseStatus;
using support::Eventually;
using ::testing::HasSubstr;

using ResponsesTest = testing::ResponsesFixture;

TEST_F(ResponsesTest, AnAnswerIsReadAsItComes) {
  const Attachment attachment = Begin(CallOf("hello", false));
  const std::shared_ptr<Response> response = attachment.response();
  EXPECT_THAT(response->id(), ::testing::StartsWith("resp_"));
  EXPECT_EQ(response->State().status, ResponseStatus::kInProgress);
  Settle();
  inference_->Step();
  EXPECT_TRUE(Eventually([&] { return response->State().text == "[he"; }));
  EXPECT_FALSE(response->ended());
  StepAll();
  ASSERT_TRUE(Ended(response));
  const protocol::ResponseState end = response->State();
  EXPECT_EQ(end.text, "[hello]");
  EXPECT_EQ(end.status, ResponseStatus::kCompleted);
  EXPECT_EQ(end.usage->completion_tokens, 3);
  EXPECT_TRUE(end.completed_s.has_value());
}

TEST_F(ResponsesTest, WhatTheEngineRefusesIsRefusedAndLeavesNothing) {
  inference_->refuse = [](const api::GenerateRequest&) {
    return Unavailable("queue_full", "full");
  };
  EXPECT_EQ(responses_->Start(CallOf("hello")).status().reason(), "queue_full");
  EXPECT_EQ(responses_->in_memory(), 0u);
  EXPECT_EQ(responses_->Start(CallOf("hello", false, true)).status().reason(), "invalid_value");
}

TEST_F(ResponsesTest, AFailureInTheMiddleEndsItAsFailedWithItsCode) {
  inference_->script = [](const api::GenerateRequest&) {
    return testing::Script{.pieces = {"so", " far"}, .end = Unavailable("overloaded", "too long")};
  };
  const Attachment attachment = Begin(CallOf("hello"));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  const protocol::ResponseState end = attachment.response()->State();
  EXPECT_EQ(end.status, ResponseStatus::kFailed);
  EXPECT_EQ(end.error_code, "overloaded");
  EXPECT_EQ(end.text, "so far");
}

TEST_F(ResponsesTest, ARefusalNamesItsField) {
  inference_->script = [](const api::GenerateRequest&) {
    return testing::Script{.pieces = {},
                           .end = InvalidArgument("grammar_empty", "no text").WithParam("text")};
  };
  const Attachment attachment = Begin(CallOf("hello", true));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  const Status failure = FailureOf(attachment.response()->State());
  EXPECT_EQ(failure.reason(), "grammar_empty");
  EXPECT_EQ(failure.param(), "text");
}

TEST_F(ResponsesTest, AnAnswerThatReachesItsLimitIsIncomplete) {
  inference_->script = [](const api::GenerateRequest&) {
    return testing::Script{.pieces = {"so"}, .finish = api::FinishReason::kLength};
  };
  const Attachment attachment = Begin(CallOf("hello"));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  EXPECT_EQ(attachment.response()->State().status, ResponseStatus::kIncomplete);
  EXPECT_EQ(attachment.response()->State().incomplete_reason, "max_output_tokens");
}

TEST_F(ResponsesTest, WhoeverLeavesAnAnswerThatIsNotStoredCancelsItWithinAStep) {
  std::shared_ptr<Response> response;
  {
    const Attachment attachment = Begin(CallOf("a long story", false));
    response = attachment.response();
    Settle();
    inference_->Step();
    Settle();
  }
  Settle();
  EXPECT_TRUE(inference_->Step());
  EXPECT_EQ(inference_->active(), 0u) << "one step";
  ASSERT_TRUE(Ended(response));
  EXPECT_EQ(response->State().status, ResponseStatus::kCancelled);
  Settle();
  EXPECT_EQ(responses_->in_memory(), 0u);
  EXPECT_EQ(Find(response->id()).status().reason(), "not_found");
}

TEST_F(ResponsesTest, WhoeverLeavesAStoredOneFindsItAgain) {
  std::string id;
  for (const bool background : {false, true}) {
    { id = Begin(CallOf("hello", true, background)).response()->id(); }
    StepAll();
    const auto found = Find(id);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(Ended(*found));
    EXPECT_EQ((*found)->State().text, "[hello]");
    EXPECT_EQ(Find(id, "another").status().reason(), "not_found");
  }
}

TEST_F(ResponsesTest, NothingIsShownBeforeTheRequestIsInTheStore) {
  auto gate = std::make_shared<std::promise<void>>();
  store_->Read(
      [open = gate->get_future().share()](store::Database&) {
        open.wait();
        return OkStatus();
      },
      [](const Status&) {});
  const Attachment attachment = Begin(CallOf("hello"));
  inference_->Step();
  support::Call<int> barrier;
  responses_->strand()->Post([done = barrier.done()] { done(0); });
  barrier.Get();
  EXPECT_EQ(attachment.response()->log().next(), 0) << "not even that it was made";
  gate->set_value();
  EXPECT_TRUE(Eventually([&] { return attachment.response()->State().text == "[he"; }));
  StepAll();
}

// Regression: an overloaded store refused the end, and the retry stored it after the deletion.
TEST_F(ResponsesTest, StaysDeletedIfDeletedWhileItsEndWaitsForTheStore) {
  for (const bool all : {false, true}) {
    const Attachment attachment = Begin(CallOf("hello"));
    const std::string id = attachment.response()->id();
    Settle();
    {
      testing::FullStore full(*store_);
      while (inference_->Step()) Barrier();
      Barrier();  // the end is refused
    }
    support::Call<Status> deleted;
    all ? responses_->DeleteAll("t", deleted.done()) : responses_->Delete("t", id, deleted.done());
    EXPECT_TRUE(deleted.Get().ok());
    Pass(std::chrono::seconds(1));
    ASSERT_TRUE(Ended(attachment.response()));
    Settle();
    EXPECT_EQ(Find(id).status().reason(), "not_found") << all;
    int64_t rows = -1;
    ASSERT_TRUE(store_
                    ->ReadNow([&](store::Database& database) -> Status {
                      ASSIGN_OR_RETURN(store::Statement row,
                                       database.Prepare("SELECT count(*) FROM response"));
                      ASSIGN_OR_RETURN(const bool found, row.Step());
                      if (found) rows = row.Int(0);
                      return OkStatus();
                    })
                    .ok());
    EXPECT_EQ(rows, 0) << all;
  }
}

// Regression: responses left running by an earlier process were abandoned if the store was
// overloaded.
TEST_F(ResponsesTest, WhatTheStoreCouldNotTellOfAtTheStartRunsOnceItCan) {
  const std::string id = Begin(CallOf("hello")).response()->id();
  Settle();
  Restart();
  {
    testing::FullStore full(*store_);
    responses_->Resume();
    Barrier();
  }
  Pass(std::chrono::seconds(1));
  StepAll();
  const auto found = Find(id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->State().text, "[hello]");
}

// One record that could not be read kept all others from running.
TEST_F(ResponsesTest, ARunningResponseThatCannotBeReadKeepsNoOtherFromRunningAgain) {
  const std::string broken = Begin(CallOf("one")).response()->id();
  Settle();
  const std::string whole = Begin(CallOf("two")).response()->id();
  Settle();
  ASSERT_TRUE(store_
                  ->WriteNow([&](store::Database& rows) {
                    return rows.Execute("UPDATE response SET record='?' WHERE id='" + broken + "'");
                  })
                  .ok());
  Restart();
  responses_->Resume();
  StepAll();
  const auto found = Find(whole);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->State().text, "[two]");
  EXPECT_FALSE(Find(broken).ok());
  EXPECT_TRUE(store_->health().ok()) << store_->health();
}

TEST_F(ResponsesTest, WhatTheStoreDoesNotTakeFailsAndSaysSo) {
  const auto full = [](store::Database& rows) {
    return rows.Execute(
        "CREATE TRIGGER full BEFORE INSERT ON response BEGIN "
        "SELECT RAISE(ABORT, 'full'); END");
  };
  ASSERT_TRUE(store_->WriteNow(full).ok());
  const Attachment refused = Begin(CallOf("hello"));
  StepAll();
  ASSERT_TRUE(Ended(refused.response()));
  EXPECT_EQ(refused.response()->State().status, ResponseStatus::kFailed);
  EXPECT_THAT(Events(*refused.response())[0], HasSubstr("response.created"));
  ASSERT_TRUE(
      store_->WriteNow([](store::Database& rows) { return rows.Execute("DROP TRIGGER full"); })
          .ok());
  const Attachment late = Begin(CallOf("hello"));
  Settle();
  ASSERT_TRUE(store_->WriteNow(full).ok());
  StepAll();
  ASSERT_TRUE(Ended(late.response()));
  EXPECT_EQ(late.response()->State().status, ResponseStatus::kFailed);
}

TEST_F(ResponsesTest, CancelKeepsWhatWasSaidAndCanBeRepeated) {
  const Attachment attachment = Begin(CallOf("a long story", true, true));
  Settle();
  inference_->Step();
  Settle();
  for (int i = 0; i < 3; ++i) {
    support::Call<Result<std::shared_ptr<Response>>> cancel;
    responses_->Cancel("t", attachment.response()->id(), cancel.done());
    EXPECT_TRUE(cancel.Get().ok());
    StepAll();
  }
  ASSERT_TRUE(Ended(attachment.response()));
  EXPECT_EQ(attachment.response()->State().status, ResponseStatus::kCancelled);
  EXPECT_EQ(attachment.response()->State().text, "[a ");
  support::Call<Result<std::shared_ptr<Response>>> foreign;
  responses_->Cancel("another", attachment.response()->id(), foreign.done());
  EXPECT_EQ(foreign.Get().status().reason(), "not_found");
}

TEST_F(ResponsesTest, DeleteTakesItFromMemoryAndStoreAndCancelsIt) {
  const Attachment attachment = Begin(CallOf("a long story", true, true));
  const std::string id = attachment.response()->id();
  Settle();
  inference_->Step();
  Settle();
  for (const char* expected : {"", "not_found"}) {
    support::Call<Status> deleted;
    responses_->Delete("t", id, deleted.done());
    EXPECT_EQ(deleted.Get().reason(), expected);
  }
  StepAll();
  EXPECT_TRUE(Ended(attachment.response())) << "its readers see an end";
  EXPECT_EQ(attachment.response()->State().status, ResponseStatus::kCancelled);
  Settle();
  EXPECT_EQ(Find(id).status().reason(), "not_found");
  Restart();
  EXPECT_EQ(Find(id).status().reason(), "not_found");
}

TEST_F(ResponsesTest, AfterARestartAnEndedOneIsShownEventForEvent) {
  const Attachment attachment = Begin(CallOf("hello", true, true));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  const std::vector<std::string> events = Events(*attachment.response());
  const std::string id = attachment.response()->id();
  Restart();
  const auto found = Find(id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Events(**found), events);
}

TEST_F(ResponsesTest, RestartRerunsResponsesWithTheSameSeedAndNumbers) {
  const auto text_of_seed = [](const api::GenerateRequest& request) {
    const std::string seed = std::to_string(request.sampling.seed.value_or(-1));
    return testing::Script{.pieces = {seed.substr(0, 3), seed.substr(3), "."}};
  };
  inference_->script = text_of_seed;
  std::vector<std::string> seen;
  std::string id;
  {
    const Attachment attachment = Begin(CallOf("hello", true, false));
    id = attachment.response()->id();
    Settle();
    inference_->Step();
    inference_->Step();
    Settle();
    seen = Events(*attachment.response());
    ASSERT_THAT(seen.back(), HasSubstr("output_text.delta"));
    Stop();
  }
  Start();
  inference_->script = text_of_seed;
  responses_->Resume();
  Settle();
  StepAll();
  const auto found = Find(id);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(Ended(*found));
  EXPECT_EQ((*found)->State().status, ResponseStatus::kCompleted);
  const std::vector<std::string> events = Events(**found);
  ASSERT_GT(events.size(), seen.size());
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(events[i], seen[i]);
  Restart();
  responses_->Resume();
  Settle();
  EXPECT_EQ(inference_->active(), 0u) << "it has ended, once";
}

TEST_F(ResponsesTest, WhatADrainCutsShortIsLeftToTheNextProcess) {
  inference_->script = [](const api::GenerateRequest&) {
    return testing::Script{.pieces = {"so"}, .end = Unavailable("draining", "shutting down")};
  };
  const Attachment stored = Begin(CallOf("hello", true));
  const Attachment fleeting = Begin(CallOf("hello", false));
  StepAll();
  ASSERT_TRUE(Ended(fleeting.response()));
  EXPECT_EQ(fleeting.response()->State().error_code, "draining");
  EXPECT_FALSE(stored.response()->ended());
  EXPECT_TRUE(stored.response()->log().interrupted()) << "who reads it is told";
  EXPECT_FALSE(fleeting.response()->log().interrupted());
  Restart();
  EXPECT_EQ(Find(stored.response()->id()).status().reason(), "model_loading") << "come back later";
  EXPECT_EQ(Find(fleeting.response()->id()).status().reason(), "not_found");
  responses_->Resume();
  Settle();
  StepAll();
  const auto found = Find(stored.response()->id());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->State().text, "[hello]");
}

// Regression: while models were loading, responses of the previous process were not found, and
// cancelling them had no effect.
TEST_F(ResponsesTest, ShowsAndCancelsEarlierResponsesBeforeModelsAreLoaded) {
  const auto look = [this](const std::string& id, const std::string& owner = "t") {
    support::Call<Result<protocol::ResponseState>> call;
    responses_->Look(owner, id, call.done());
    return call.Get();
  };
  const auto cancel = [this](const std::string& id, const std::string& owner = "t") {
    support::Call<Result<std::shared_ptr<Response>>> call;
    responses_->Cancel(owner, id, call.done());
    return call.Get();
  };
  const std::string waits = Begin(CallOf("one", true, true)).response()->id();
  const std::string goes_on = Begin(CallOf("two", true, false)).response()->id();
  Settle();
  Restart();
  EXPECT_EQ(look(waits)->status, ResponseStatus::kQueued);
  EXPECT_EQ(look(goes_on)->status, ResponseStatus::kInProgress);
  EXPECT_EQ(look(waits, "another").status().reason(), "not_found");
  EXPECT_EQ(cancel(waits, "another").status().reason(), "not_found");
  EXPECT_EQ(cancel("resp_none").status().reason(), "not_found");
  for (int i = 0; i < 2; ++i) {
    const auto cancelled = cancel(waits);
    ASSERT_TRUE(cancelled.ok()) << cancelled.status();
    EXPECT_TRUE((*cancelled)->ended());
    EXPECT_EQ((*cancelled)->State().status, ResponseStatus::kCancelled);
  }
  Restart();  // killed again before the models are loaded
  EXPECT_EQ(look(waits)->status, ResponseStatus::kCancelled);
  responses_->Resume();
  StepAll();
  EXPECT_EQ(inference_->requests().size(), 1u) << "the other alone ran";
  EXPECT_EQ(look(waits)->status, ResponseStatus::kCancelled);
  EXPECT_EQ(look(goes_on)->text, "[two]");
}

// A response that was already read from the store when its cancel arrived.
TEST_F(ResponsesTest, ACancelReachesWhatWaitsToRunAgain) {
  const std::string id = Begin(CallOf("one", true, true)).response()->id();
  Settle();
  Restart();
  inference_->refuse = [](const api::GenerateRequest&) {
    return Unavailable("queue_full", "later");
  };
  responses_->Resume();
  Settle();
  support::Call<Result<std::shared_ptr<Response>>> cancel;
  responses_->Cancel("t", id, cancel.done());
  ASSERT_TRUE(cancel.Get().ok());
  inference_->refuse = nullptr;
  Pass(std::chrono::seconds(1));
  StepAll();
  EXPECT_TRUE(inference_->requests().empty());
  const auto found = Find(id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->State().status, ResponseStatus::kCancelled);
}

TEST_F(ResponsesTest, AnEndedOneLeavesMemoryAfterAWhileAndTheStoreAfterALongerOne) {
  const Attachment attachment = Begin(CallOf("hello", true, true));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  Settle();
  Pass(std::chrono::minutes(9));
  Settle();
  EXPECT_EQ(responses_->in_memory(), 1u);
  Pass(std::chrono::minutes(2));
  EXPECT_TRUE(Eventually([&] { return responses_->in_memory() == 0; }));
  EXPECT_TRUE(Find(attachment.response()->id()).ok());
  Pass(std::chrono::hours(24 * 31));
  EXPECT_EQ(Find(attachment.response()->id()).status().reason(), "not_found");
}

TEST_F(ResponsesTest, AChainOfResponsesGivesAllThatWasSaid) {
  std::string previous;
  for (const char* text : {"one", "two", "three"}) {
    Call call = CallOf(text);
    call.state.previous_response_id = previous;
    const Attachment attachment = Begin(std::move(call));
    StepAll();
    ASSERT_TRUE(Ended(attachment.response()));
    previous = attachment.response()->id();
  }
  support::Call<Result<Responses::Messages>> call;
  responses_->Chain("t", previous, call.done());
  const auto chain = call.Get();
  ASSERT_TRUE(chain.ok()) << chain.status();
  std::string said;
  for (const api::ChatMessage& message : *chain) said += message.content + " ";
  EXPECT_EQ(said, "one [one] two [two] three [three] ");
  support::Call<Result<Responses::Messages>> foreign;
  responses_->Chain("another", previous, foreign.done());
  EXPECT_EQ(foreign.Get().status().reason(), "not_found");
}

// A text, a call in two deltas and a second call.
testing::Script CallingScript(const api::GenerateRequest&) {
  return {.pieces = {"So", ":"},
          .finish = api::FinishReason::kToolCalls,
          .calls = {{0, "call_1", "f", ""},
                    {0, "", "", R"({"a":)"},
                    {0, "", "", "1}"},
                    {1, "call_2", "g", "{}"}}};
}

TEST_F(ResponsesTest, CallsAreShownStoredAndPartOfTheChain) {
  inference_->script = CallingScript;
  Call asked = CallOf("hello", true, true);
  std::get<api::ChatPrompt>(asked.request.prompt).tools = {{.name = "f"}, {.name = "g"}};
  const Attachment attachment = Begin(std::move(asked));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  const protocol::ResponseState state = attachment.response()->State();
  EXPECT_EQ(state.status, ResponseStatus::kCompleted);
  EXPECT_EQ(state.calls, std::vector<protocol::OutputCall>(
                             {{{"call_1", "f", R"({"a":1})"}, 3}, {{"call_2", "g", "{}"}, 3}}));
  const std::vector<std::string> events = Events(*attachment.response());
  Restart();
  const auto found = Find(state.id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Events(**found), events);
  support::Call<Result<Responses::Messages>> call;
  responses_->Chain("t", state.id, call.done());
  const auto chain = call.Get();
  ASSERT_TRUE(chain.ok()) << chain.status();
  ASSERT_EQ(chain->size(), 4u) << "an item each, until they are asked with";
  EXPECT_EQ((*chain)[1].content, "So:");
  EXPECT_EQ((*chain)[2].tool_calls, std::vector<api::ToolCall>({{"call_1", "f", R"({"a":1})"}}));

  Call next = CallOf("");
  auto& prompt = std::get<api::ChatPrompt>(next.request.prompt);
  prompt.messages.insert(prompt.messages.begin(), chain->begin(), chain->end());
  const Attachment second = Begin(std::move(next));
  const std::vector<api::GenerateRequest> requests = inference_->requests();
  const auto& messages = std::get<api::ChatPrompt>(requests.back().prompt).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].content, "So:");
  EXPECT_EQ(messages[1].tool_calls.size(), 2u) << "one message of the assistant's";
  StepAll();
}

// Reasoning before a call.
testing::Script ThinkingScript(const api::GenerateRequest& request) {
  testing::Script script = CallingScript(request);
  script.pieces.clear();
  script.reasoning = {"\n", "Why", "?\n"};
  return script;
}

TEST_F(ResponsesTest, ReasoningIsShownStoredAndPartOfTheChain) {
  inference_->script = ThinkingScript;
  const Attachment attachment = Begin(CallOf("hello", true, true));
  StepAll();
  ASSERT_TRUE(Ended(attachment.response()));
  const protocol::ResponseState state = attachment.response()->State();
  EXPECT_EQ(state.reasoning, std::vector<protocol::OutputReasoning>({{"\nWhy?\n", 0, 0}}));
  EXPECT_EQ(state.usage->reasoning_tokens, 3);
  const std::vector<std::string> events = Events(*attachment.response());
  Restart();
  const auto found = Find(state.id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Events(**found), events);
  EXPECT_EQ((*found)->State().usage->reasoning_tokens, 3);
  support::Call<Result<Responses::Messages>> call;
  responses_->Chain("t", state.id, call.done());
  const auto chain = call.Get();
  ASSERT_TRUE(chain.ok()) << chain.status();
  ASSERT_EQ(chain->size(), 4u) << "an item each, until they are asked with";
  EXPECT_EQ((*chain)[1].reasoning, "\nWhy?\n");

  Call next = CallOf("");
  auto& prompt = std::get<api::ChatPrompt>(next.request.prompt);
  prompt.messages.insert(prompt.messages.begin(), chain->begin(), chain->end());
  const Attachment second = Begin(std::move(next));
  const std::vector<api::GenerateRequest> requests = inference_->requests();
  const auto& messages = std::get<api::ChatPrompt>(requests.back().prompt).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].reasoning, "\nWhy?\n");
  EXPECT_EQ(messages[1].tool_calls.size(), 2u);
  StepAll();
}

TEST_F(ResponsesTest, RestartRerunsReasoningWithTheSameEventNumbers) {
  inference_->script = ThinkingScript;
  std::string id;
  std::vector<std::string> before;
  {
    Call call = CallOf("hello");
    call.request.max_reasoning_tokens = 9;
    const Attachment attachment = Begin(std::move(call));
    id = attachment.response()->id();
    Settle();
    for (int i = 0; i < 2; ++i) inference_->Step();
    Settle();
    before = Events(*attachment.response());
  }
  ASSERT_EQ(before.size(), 5u) << "up to the first delta of the reasoning";
  Restart();
  inference_->script = ThinkingScript;
  responses_->Resume();
  EXPECT_TRUE(Eventually([&] { return inference_->active() > 0; }));
  EXPECT_EQ(inference_->requests().back().max_reasoning_tokens, 9);
  StepAll();
  const auto found = Find(id);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(Ended(*found));
  const std::vector<std::string> after = Events(**found);
  ASSERT_GT(after.size(), before.size());
  EXPECT_EQ(std::vector<std::string>(after.begin(), after.begin() + 5), before);
  EXPECT_EQ(Events(**found, 4), std::vector<std::string>(after.begin() + 5, after.end()));
}

TEST_F(ResponsesTest, ACallThatRanWhenTheProcessEndedRunsAgainWithTheSameNumbers) {
  inference_->script = CallingScript;
  std::string id;
  std::vector<std::string> before;
  {
    const Attachment attachment = Begin(CallOf("hello"));
    id = attachment.response()->id();
    Settle();
    for (int i = 0; i < 4; ++i) inference_->Step();
    Settle();
    before = Events(*attachment.response());
  }
  ASSERT_GT(before.size(), 6u);
  Restart();
  inference_->script = CallingScript;
  responses_->Resume();
  EXPECT_TRUE(Eventually([&] { return inference_->active() > 0; }));
  StepAll();
  const auto found = Find(id);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(Ended(*found));
  const std::vector<std::string> after = Events(**found);
  ASSERT_GT(after.size(), before.size());
  EXPECT_EQ(std::vector<std::string>(after.begin(),
                                     after.begin() + static_cast<ptrdiff_t>(before.size())),
            before);
}

TEST_F(ResponsesTest, AChainWithoutItsMiddleIsRefused) {
  const Attachment first = Begin(CallOf("one"));
  StepAll();
  Call call = CallOf("two");
  call.state.previous_response_id = first.response()->id();
  const Attachment second = Begin(std::move(call));
  StepAll();
  support::Call<Status> deleted;
  responses_->Delete("t", first.response()->id(), deleted.done());
  EXPECT_TRUE(deleted.Get().ok());
  support::Call<Result<Responses::Messages>> chain;
  responses_->Chain("t", second.response()->id(), chain.done());
  EXPECT_EQ(chain.Get().status().reason(), "not_found");
}

TEST_F(ResponsesTest, ManyRunBesideEachOtherOnOneThreadAndAreReadByMany) {
  options_.memory.per_owner = 10'000;
  max_num_seqs_ = 64;
  Restart();
  inference_->Run();
  std::vector<Attachment> attachments;
  for (int i = 0; i < 300; ++i)
    attachments.push_back(Begin(CallOf("number " + std::to_string(i), i % 2 == 0)));
  for (size_t i = 0; i < attachments.size(); ++i) {
    const std::shared_ptr<Response>& response = attachments[i].response();
    ASSERT_TRUE(Ended(response));
    EXPECT_EQ(response->State().text, "[number " + std::to_string(i) + "]");
    EXPECT_EQ(Events(*response).size(), static_cast<size_t>(response->log().next()));
  }
}

using ResponsesDeathTest = ResponsesTest;

TEST_F(ResponsesDeathTest, InferenceThatBeginsInACriticalSectionEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const CriticalSection section(nullptr);
        (void)responses_->Start(CallOf("hello"));
      },
      "inference begins with a dialog's data held");
}

}  // namespace
}  // namespace tutti::responses
