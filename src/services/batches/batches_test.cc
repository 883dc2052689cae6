#include "services/batches/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/json/json.h"
#include "protocol/responses/events.h"
#include "services/batches/control.h"
#include "services/responses/response_rows.h"
#include "services/responses/testing/responses_fixture.h"
#include "services/responses/testing/scripted_inference.h"
#include "waiting.h"

namespace tutti::batches {
namespace {

using protocol::BatchView;
using responses::testing::Script;
using responses::testing::ScriptedInference;
using responses::testing::TemporaryFolder;
using std::chrono::seconds;
using support::Call;
using support::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ChatLine(const std::string& id, const std::string& more = "") {
  return R"({"custom_id":")" + id +
         R"(","method":"POST","url":"/v1/chat/completions","body":{"model":"small","messages":)" +
         R"([{"role":"user","content":")" + id + R"("}])" + more + "}}\n";
}
std::string ChatLines(int count, const std::string& prefix = "r") {
  std::string text;
  for (int i = 0; i < count; ++i) text += ChatLine(prefix + std::to_string(i));
  return text;
}

// Batches with a scripted model, a store in a folder, and a manual clock.
class BatchesTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override { Close(); }

  void Open() {
    const std::vector<store::Migration> tables = {kFileTables, kBatchTables,
                                                  responses::kResponseTables};
    auto store = store::Store::Open({.folder = folder_.path()}, tables);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    inference_ = std::make_unique<ScriptedInference>(max_num_seqs_);
    inference_->script = script_;
    inference_->refuse = [this](const api::GenerateRequest&) {
      return refusals_ > 0 && refusals_-- > 0 ? refusal_ : OkStatus();
    };
    Files::Options files_options;
    files_options.folder = folder_.path() + "/files";
    files_options.open = [this](const std::string& path) {
      return open_failures_ > 0 && open_failures_-- > 0
                 ? Result<std::shared_ptr<const DiskReader>>(DiskError(EMFILE))
             : read_failures_ > 0 && read_failures_-- > 0
                 ? DiskReader::Open(folder_.path())  // a folder opens, but cannot be read
                 : DiskReader::Open(path);
    };
    auto files = Files::Open(files_options, *store_, clock_, [this] { return WallMs(); });
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    batches_ = std::make_unique<Batches>(
        options_, *inference_, *store_, *files_, clock_, [this] { return WallMs(); },
        [this](const api::CallerRef& caller) -> Result<api::CallerRef> {
          if (revoked_) return Status(StatusCode::kUnauthenticated, "key_revoked", "revoked");
          return caller;
        });
  }
  void Close() {
    batches_.reset();
    files_.reset();
    inference_.reset();
    store_.reset();
  }
  // Restarts as after a kill: leases are not released.
  void Restart() {
    Close();
    Open();
    batches_->Start();
  }
  int64_t WallMs() const {
    return clock_.Now().time_since_epoch() / std::chrono::milliseconds(1) + 1'000'000'000;
  }
  void Pass(Duration time) {
    clock_.Advance(time);
    batches_->strand()->Look();
    files_->strand()->Look();
  }

  Result<BatchView> Create(const std::string& text, const std::string& owner = "t") {
    const auto upload = files_->Begin("b", {});
    const std::string form =
        "--b\r\nContent-Disposition: form-data; name=purpose\r\n\r\nbatch\r\n--b\r\n"
        "Content-Disposition: form-data; name=file\r\n\r\n" +
        text + "\r\n--b--";
    Call<Status> appended;
    files_->Append(upload, form, appended.done());
    RETURN_IF_ERROR(appended.Get());
    Call<Result<protocol::FileView>> kept;
    files_->Keep(upload, owner, kept.done());
    ASSIGN_OR_RETURN(const protocol::FileView file, kept.Get());
    return CreateOf(file.id, owner);
  }
  Result<BatchView> CreateOf(const std::string& file, const std::string& owner = "t") {
    NewBatch batch;
    batch.owner = owner;
    batch.create.input_file_id = file;
    batch.create.endpoint = endpoint_;
    Call<Result<BatchView>> call;
    batches_->Create(std::move(batch), call.done());
    return call.Get();
  }
  Result<BatchView> Get(const std::string& id, const std::string& owner = "t") {
    Call<Result<BatchView>> call;
    batches_->Get(owner, id, call.done());
    return call.Get();
  }
  Result<BatchView> Cancel(const std::string& id, const std::string& owner = "t") {
    Call<Result<BatchView>> call;
    batches_->Cancel(owner, id, call.done());
    return call.Get();
  }
  // Steps the model until the batch is in `state`.
  bool Becomes(const std::string& id, BatchState state, const std::string& owner = "t") {
    return Eventually([&] {
      inference_->Step();
      const Result<BatchView> batch = Get(id, owner);
      return batch.ok() && batch->state == state;
    });
  }
  // Lines of a result file: custom_id to status code or error code.
  std::map<std::string, std::string> LinesOf(const std::string& file,
                                             const std::string& owner = "t") {
    std::map<std::string, std::string> lines;
    if (file.empty()) return lines;
    Call<Result<Files::Content>> call;
    files_->OpenContent(owner, file, call.done());
    const auto content = call.Get();
    EXPECT_TRUE(content.ok()) << content.status();
    if (!content.ok()) return lines;
    std::string text = *content->reader->Read(0, 10 << 20);
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const auto line = protocol::ParseJson(text.substr(0, end));
      text.erase(0, end + 1);
      EXPECT_TRUE(line.ok()) << line.status();
      const protocol::JsonObject& object = line->root().get_object();
      const std::string id(protocol::TextOf(object.at("custom_id")));
      EXPECT_EQ(lines.count(id), 0u) << id << " twice";
      const protocol::JsonObject* const response = object.at("response").if_object();
      if (response != nullptr) bodies_[id] = protocol::PrintJson(response->at("body"));
      lines[id] = response != nullptr
                      ? std::to_string(response->at("status_code").as_int64())
                      : std::string(protocol::TextOf(object.at("error").get_object().at("code")));
    }
    return lines;
  }
  size_t OnDisk() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/files"))
      count += entry.exists() ? 1 : 0;
    return count;
  }
  int64_t LinesInStore() {
    int64_t count = 0;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& rows) -> Status {
                      ASSIGN_OR_RETURN(store::Statement row,
                                       rows.Prepare("SELECT count(*) FROM batch_line"));
                      RETURN_IF_ERROR(row.Step().status());
                      count = row.Int(0);
                      return OkStatus();
                    })
                    .ok());
    return count;
  }

  // Number of ended responses in the store.
  int64_t KeptResponses() {
    int64_t count = 0;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& rows) -> Status {
                      ASSIGN_OR_RETURN(store::Statement row,
                                       rows.Prepare("SELECT count(*) FROM response WHERE ended=1"));
                      RETURN_IF_ERROR(row.Step().status());
                      count = row.Int(0);
                      return OkStatus();
                    })
                    .ok());
    return count;
  }
  std::optional<responses::ResponseRecord> Kept(const std::string& body) {
    const auto document = protocol::ParseJson(body);
    const std::string id(protocol::TextOf(document->root().get_object().at("id")));
    std::optional<responses::ResponseRecord> record;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& rows) -> Status {
                      ASSIGN_OR_RETURN(record,
                                       responses::LoadEnded(rows, "t", id, WallMs() / 1000));
                      return OkStatus();
                    })
                    .ok());
    return record;
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  std::string endpoint_ = "/v1/chat/completions";
  std::map<std::string, std::string> bodies_;  // by custom_id, of the files that were read
  Batches::Options options_;
  size_t max_num_seqs_ = 8;
  std::function<Script(const api::GenerateRequest&)> script_ = responses::testing::EchoScript;
  std::atomic<int> refusals_{0};
  std::atomic<int> open_failures_{0}, read_failures_{0};  // of files, from now on
  Status refusal_;
  std::atomic<bool> revoked_{false};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<ScriptedInference> inference_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<Batches> batches_;
};

TEST_F(BatchesTest, EachLineIsAnsweredOnce) {
  batches_->Start();
  const auto made = Create(ChatLines(40) + ChatLine("bad", R"(,"temperature":7)"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->state, BatchState::kValidating);
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  const BatchView batch = *Get(made->id);
  EXPECT_EQ(batch.total, 41);
  EXPECT_EQ(batch.completed, 40);
  EXPECT_EQ(batch.failed, 1);
  EXPECT_EQ(batch.model, "small");
  EXPECT_GT(batch.input_tokens, 0);
  EXPECT_GT(batch.output_tokens, 40);
  const auto output = LinesOf(batch.output_file);
  EXPECT_EQ(output.size(), 40u);
  EXPECT_TRUE(std::all_of(output.begin(), output.end(),
                          [](const auto& line) { return line.second == "200"; }));
  EXPECT_EQ(LinesOf(batch.error_file), (std::map<std::string, std::string>{{"bad", "400"}}));
  const auto requests = inference_->requests();
  EXPECT_EQ(requests.size(), 40u);
  for (const api::GenerateRequest& request : requests) {
    EXPECT_EQ(request.priority, api::Priority::kBatch);
    EXPECT_TRUE(request.detached);
    EXPECT_EQ(request.route, "chat.completions");
  }
  EXPECT_TRUE(Eventually([&] { return LinesInStore() == 0 && OnDisk() == 3; }))
      << "its input, output and errors alone";
  EXPECT_EQ(batches_->stats().lines_completed, 40u);
  EXPECT_EQ(batches_->stats().lines_failed, 1u);
  EXPECT_EQ(batches_->stats().completed, 1u);
  EXPECT_EQ(batches_->stats().open, 0);
}

std::string ResponsesInputLine(const std::string& id, const std::string& more = "") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/responses","body":{)" +
         R"("model":"small","input":"say )" + id + '"' + more + "}}\n";
}

TEST_F(BatchesTest, LinesOfResponsesAreKeptAsTheRouteKeepsThem) {
  endpoint_ = "/v1/responses";
  batches_->Start();
  const auto first = Create(ResponsesInputLine("kept", R"(,"metadata":{"a":"b"})") +
                            ResponsesInputLine("unkept", R"(,"store":false)"));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Becomes(first->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(first->id)->output_file).size(), 2u);
  EXPECT_EQ(KeptResponses(), 1);
  const auto kept = Kept(bodies_["kept"]);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(protocol::ResponseJson(kept->end), bodies_["kept"])
      << "as it is shown when it is asked for";
  EXPECT_EQ(kept->base.input.front().content, "say kept");
  EXPECT_EQ(kept->end.metadata, (protocol::Metadata{{"a", "b"}}));
  EXPECT_NE(kept->end.text, "");
  EXPECT_EQ(responses::Replay(*kept, 1 << 20)->State().text, kept->end.text) << "its events too";
  EXPECT_FALSE(Kept(bodies_["unkept"]).has_value());
  for (const api::GenerateRequest& request : inference_->requests()) {
    EXPECT_EQ(request.route, "responses");
    EXPECT_EQ(request.priority, api::Priority::kBatch);
    EXPECT_EQ(request.tenant, "t");
    EXPECT_TRUE(request.detached);
  }

  const size_t before = inference_->requests().size();
  const std::string id = kept->base.state.id;
  const auto second =
      Create(ResponsesInputLine(
                 "next", R"(,"instructions":"Be brief.","previous_response_id":")" + id + "\"") +
             ResponsesInputLine("lost", R"(,"previous_response_id":"resp_0")"));
  ASSERT_TRUE(Becomes(second->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(second->id)->output_file).count("next"), 1u);
  EXPECT_EQ(LinesOf(Get(second->id)->error_file),
            (std::map<std::string, std::string>{{"lost", "404"}}));
  EXPECT_NE(bodies_["lost"].find(R"("param":"previous_response_id")"), std::string::npos)
      << bodies_["lost"];
  const auto asked = inference_->requests();
  ASSERT_EQ(asked.size(), before + 1);
  std::vector<std::string> said;
  for (const api::ChatMessage& message : std::get<api::ChatPrompt>(asked.back().prompt).messages)
    said.push_back(message.content);
  EXPECT_EQ(said, (std::vector<std::string>{"Be brief.", "say kept", kept->end.text, "say next"}));

  const auto others =
      Create(ResponsesInputLine("o", R"(,"previous_response_id":")" + id + "\""), "another");
  ASSERT_TRUE(Becomes(others->id, BatchState::kCompleted, "another"));
  EXPECT_EQ(LinesOf(Get(others->id, "another")->error_file, "another"),
            (std::map<std::string, std::string>{{"o", "404"}}));
}

TEST_F(BatchesTest, LinesOfResponsesKeepReasoningAndCalls) {
  endpoint_ = "/v1/responses";
  inference_->script = [](const api::GenerateRequest&) {
    return Script{.pieces = {"So", ":"},
                  .finish = api::FinishReason::kToolCalls,
                  .calls = {{0, "call_1", "f", ""}, {0, "", "", "{"}, {0, "", "", "}"}},
                  .reasoning = {"\n", "Why", "?"}};
  };
  batches_->Start();
  const auto made = Create(ResponsesInputLine("a", R"(,"tools":[{"type":"function","name":"f"}])"));
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 1u);
  const auto kept = Kept(bodies_["a"]);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(protocol::ResponseJson(kept->end), bodies_["a"]);
  EXPECT_EQ(kept->end.calls, std::vector<protocol::OutputCall>({{{"call_1", "f", "{}"}, 3}}));
  const auto again = responses::Replay(*kept, 1 << 20);
  EXPECT_EQ(again->State().calls, kept->end.calls);
  EXPECT_EQ(again->State().reasoning, std::vector<protocol::OutputReasoning>({{"\nWhy?", 0, 0}}));
  EXPECT_EQ(kept->pieces, (std::vector<uint32_t>{4, 1, 2, 1, 1, 1}));
  EXPECT_GT(again->log().next(), 17) << "with the deltas of reasoning, text and call";
}

TEST_F(BatchesTest, AResponseIsThereExactlyWhereItsLineHasEndedWhateverIsKilled) {
  endpoint_ = "/v1/responses";
  max_num_seqs_ = 2;
  options_.max_attempts = 100;
  Close();
  Open();
  batches_->Start();
  std::string text;
  for (int i = 0; i < 30; ++i) text += ResponsesInputLine("r" + std::to_string(i));
  const auto made = Create(text);
  for (int kills = 0; kills < 10; ++kills) {
    const int64_t before = Get(made->id)->completed;
    EXPECT_TRUE(Eventually([&] {
      inference_->Step();
      return Get(made->id)->completed >= std::min<int64_t>(before + 2, 30);
    }));
    Restart();
    EXPECT_EQ(KeptResponses(), Get(made->id)->completed);
  }
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 30u);
  EXPECT_EQ(KeptResponses(), 30);
  for (const auto& [id, body] : bodies_) EXPECT_TRUE(Kept(body).has_value()) << id;
}

TEST_F(BatchesTest, WhatAResponsesLineMayNotAskIsToldByItsLine) {
  endpoint_ = "/v1/responses";
  batches_->Start();
  const auto made = Create(ResponsesInputLine("a", R"(,"stream":true)") +
                           ResponsesInputLine("b", R"(,"background":true)") +
                           ResponsesInputLine("c", R"(,"conversation":"conv_1")"));
  ASSERT_TRUE(Becomes(made->id, BatchState::kFailed));
  const std::string errors = Get(made->id)->errors;
  for (const char* param : {"body.stream", "body.background", "body.conversation"})
    EXPECT_NE(errors.find(param), std::string::npos) << errors;
  EXPECT_EQ(inference_->requests().size(), 0u);
}

TEST_F(BatchesTest, ACancelEndsLinesThatWaitForWhatTheyGoOnFrom) {
  endpoint_ = "/v1/responses";
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += ResponsesInputLine("r" + std::to_string(i), R"(,"previous_response_id":"resp_0")");
  }
  const auto made = Create(text);
  batches_->Start();
  (void)Eventually([&] { return Get(made->id)->state == BatchState::kInProgress; });
  (void)Cancel(made->id);
  EXPECT_TRUE(Eventually([&] {
    const BatchState state = Get(made->id)->state;
    return state == BatchState::kCancelled || state == BatchState::kCompleted;
  }));
  EXPECT_EQ(LinesOf(Get(made->id)->error_file).size(), 20u);
}

// Regression: a batch failed for good if the process had no free descriptor for a moment.
TEST_F(BatchesTest, AnInputThatCannotBeReadForAMomentIsTriedAgain) {
  open_failures_ = 3;
  read_failures_ = 3;
  batches_->Start();
  const auto made = Create(ChatLines(5));
  EXPECT_TRUE(Eventually([&] { return open_failures_ == 2; }));
  EXPECT_EQ(Get(made->id)->state, BatchState::kValidating);
  ASSERT_TRUE(Eventually([&] {
    Pass(std::chrono::milliseconds(500));
    inference_->Step();
    return Get(made->id)->state == BatchState::kCompleted;
  }));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 5u);
  EXPECT_EQ(Get(made->id)->errors, "");
}

TEST_F(BatchesTest, UnreadableInputFailsItsBatchAfterAMinuteWithAReason) {
  open_failures_ = 1000;
  batches_->Start();
  const auto made = Create(ChatLines(5));
  const TimePoint begun = clock_.Now();
  ASSERT_TRUE(Eventually([&] {
    Pass(seconds(1));
    return Get(made->id)->state == BatchState::kFailed;
  }));
  EXPECT_GE(clock_.Now() - begun, seconds(60));
  EXPECT_NE(Get(made->id)->errors.find("could not be read for 60 s"), std::string::npos)
      << Get(made->id)->errors;
  EXPECT_NE(Get(made->id)->errors.find("Too many open files"), std::string::npos);
  EXPECT_LT(1000 - open_failures_, 25) << "with growing waits";
}

TEST_F(BatchesTest, ALineWhoseInputCannotBeReadForAMomentWaits) {
  options_.slots = 1;
  max_num_seqs_ = 1;
  Close();
  Open();
  const auto made = Create(ChatLines(3));
  batches_->Start();
  EXPECT_TRUE(Eventually([&] { return inference_->active() == 1; }));
  Close();
  Open();
  open_failures_ = 2;
  read_failures_ = 1;
  batches_->Start();
  ASSERT_TRUE(Eventually([&] {
    Pass(seconds(1));
    inference_->Step();
    return Get(made->id)->state == BatchState::kCompleted;
  }));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 3u);
}

TEST_F(BatchesTest, AWrongInputFailsWithTheLinesThatAreWrong) {
  batches_->Start();
  const auto made = Create(ChatLine("a") + ChatLine("a") + "x\n");
  ASSERT_TRUE(Becomes(made->id, BatchState::kFailed));
  const BatchView batch = *Get(made->id);
  EXPECT_NE(batch.errors.find(R"("code":"duplicate_custom_id")"), std::string::npos);
  EXPECT_NE(batch.errors.find(R"("line":2)"), std::string::npos) << batch.errors;
  EXPECT_NE(batch.errors.find(R"("line":3)"), std::string::npos) << batch.errors;
  EXPECT_EQ(inference_->requests().size(), 0u);
  EXPECT_TRUE(Eventually([&] { return LinesInStore() == 0 && OnDisk() == 1; }));
  EXPECT_EQ(Cancel(made->id).status().reason(), "already_finished");
}

TEST_F(BatchesTest, AKillRunsAgainWhatHadNotEndedAndNothingElse) {
  max_num_seqs_ = 2;
  options_.max_attempts = 100;
  Close();
  Open();
  batches_->Start();
  const auto made = Create(ChatLines(30));
  int64_t asked = 0;
  std::map<std::string, int> ended;
  for (int kills = 0; kills < 10; ++kills) {
    const int64_t before = Get(made->id)->completed;
    EXPECT_TRUE(Eventually([&] {
      inference_->Step();
      return Get(made->id)->completed >= std::min<int64_t>(before + 2, 30);
    }));
    const int64_t told = Get(made->id)->completed;
    asked += std::ssize(inference_->requests());
    Restart();
    EXPECT_GE(Get(made->id)->completed, told);
  }
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  asked += std::ssize(inference_->requests());
  EXPECT_LE(asked, 30 + 10 * options_.slots) << "a kill repeats what was submitted";
  const BatchView batch = *Get(made->id);
  EXPECT_EQ(batch.completed, 30);
  EXPECT_EQ(LinesOf(batch.output_file).size(), 30u);
  EXPECT_EQ(batch.error_file, "");
}

TEST_F(BatchesTest, AKillWhileTheInputIsCheckedBeginsItAnew) {
  const auto made = Create(ChatLines(5000));  // not started: nothing is checked
  ASSERT_TRUE(made.ok()) << made.status();
  Restart();
  EXPECT_TRUE(Eventually([&] { return LinesInStore() > 0; }));
  Restart();
  inference_->Run();
  ASSERT_TRUE(Eventually([&] { return Get(made->id)->state == BatchState::kCompleted; }));
  EXPECT_EQ(Get(made->id)->completed, 5000);
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 5000u);
}

TEST_F(BatchesTest, ALineThatKillsTheProcessEachTimeIsGivenUp) {
  options_.max_attempts = 2;
  Close();
  Open();
  batches_->Start();
  const auto made = Create(ChatLine("poison"));
  for (int kills = 0; kills < 2; ++kills) {
    EXPECT_TRUE(Eventually([&] { return inference_->active() == 1; }));
    Restart();
  }
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(made->id)->error_file),
            (std::map<std::string, std::string>{{"poison", "500"}}));
}

TEST_F(BatchesTest, AStopSpendsNoAttempt) {
  options_.max_attempts = 1;
  Close();
  Open();
  batches_->Start();
  const auto made = Create(ChatLines(3));
  for (int stops = 0; stops < 3; ++stops) {
    EXPECT_TRUE(Eventually([&] { return inference_->active() == 3; }));
    batches_->ReleaseLeases();
    Restart();
  }
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 3u);
}

TEST_F(BatchesTest, ACancelKeepsWhatHasEnded) {
  max_num_seqs_ = 1;
  options_.slots = 2;
  Close();
  Open();
  batches_->Start();
  const auto made = Create(ChatLines(20));
  EXPECT_TRUE(Eventually([&] {
    inference_->Step();
    return Get(made->id)->completed >= 2;
  }));
  EXPECT_EQ(Cancel(made->id, "u").status().reason(), "not_found");
  EXPECT_EQ(Cancel(made->id)->state, BatchState::kCancelling);
  ASSERT_TRUE(Becomes(made->id, BatchState::kCancelled));
  const BatchView batch = *Get(made->id);
  const auto output = LinesOf(batch.output_file), errors = LinesOf(batch.error_file);
  EXPECT_EQ(std::ssize(output), batch.completed);
  EXPECT_EQ(output.size() + errors.size(), 20u);
  for (const auto& [id, code] : errors) EXPECT_EQ(code, "batch_cancelled") << id;
  EXPECT_EQ(Cancel(made->id)->state, BatchState::kCancelled) << "once more changes nothing";
  EXPECT_EQ(inference_->active(), 0u);
}

TEST_F(BatchesTest, ACancelOfAKilledProcessIsCarriedOut) {
  const auto made = Create(ChatLines(3));
  EXPECT_EQ(Cancel(made->id)->state, BatchState::kCancelling);
  Restart();
  ASSERT_TRUE(Becomes(made->id, BatchState::kCancelled));
  EXPECT_EQ(inference_->requests().size(), 0u);
}

// Regression: the batch ended as cancelled with no lines, because only the lines that were already
// stored went to the files.
TEST_F(BatchesTest, ABatchCancelledWhileItsLinesWereReadTellsThemAllAfterAKill) {
  const auto made = Create(ChatLines(30));
  EXPECT_EQ(Cancel(made->id)->state, BatchState::kCancelling);
  ASSERT_TRUE(store_
                  ->WriteNow([](store::Database& rows) {  // as if the kill came in between
                    return store::Run(rows,
                                      "INSERT INTO batch_line SELECT number, 1, 'r0', 0, 1, 0, 0, "
                                      "0, '' FROM batch");
                  })
                  .ok());
  Restart();
  ASSERT_TRUE(Becomes(made->id, BatchState::kCancelled));
  const BatchView batch = *Get(made->id);
  const auto errors = LinesOf(batch.error_file);
  EXPECT_EQ(errors.size(), 30u);
  for (const auto& [id, code] : errors) EXPECT_EQ(code, "batch_cancelled") << id;
  EXPECT_EQ(batch.total, 30);
  EXPECT_EQ(batch.output_file, "");
  EXPECT_EQ(inference_->requests().size(), 0u);
}

TEST_F(BatchesTest, ABatchExpiresWithWhatItHas) {
  max_num_seqs_ = 1;
  options_.slots = 2;
  options_.window = seconds(60);
  Close();
  Open();
  batches_->Start();
  const auto made = Create(ChatLines(20));
  EXPECT_TRUE(Eventually([&] {
    inference_->Step();
    return Get(made->id)->completed >= 2;
  }));
  EXPECT_TRUE(Eventually([&] {
    Pass(seconds(61));
    inference_->Step();
    return Get(made->id)->state == BatchState::kExpired;
  }));
  const BatchView batch = *Get(made->id);
  const auto output = LinesOf(batch.output_file), errors = LinesOf(batch.error_file);
  EXPECT_EQ(std::ssize(output), batch.completed);
  EXPECT_EQ(output.size() + errors.size(), 20u);
  for (const auto& [id, code] : errors) EXPECT_EQ(code, "batch_expired") << id;
}

TEST_F(BatchesTest, ARefusalThatPassesIsWaitedOut) {
  refusals_ = 5;
  refusal_ = Unavailable("queue_full", "later");
  batches_->Start();
  const auto made = Create(ChatLines(10));
  EXPECT_TRUE(Eventually([&] { return batches_->stats().lines_put_off == 5; }));
  ASSERT_TRUE(Eventually([&] {
    Pass(seconds(1));
    inference_->Step();
    return Get(made->id)->state == BatchState::kCompleted;
  }));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file).size(), 10u);
  EXPECT_EQ(Get(made->id)->error_file, "");
}

TEST_F(BatchesTest, AFailureOfOursIsTriedAgainAndThenTheLinesAnswer) {
  refusals_ = 4;  // the first line three times, the second once
  refusal_ = Internal("broken");
  options_.slots = 1;
  Close();
  Open();
  batches_->Start();
  const auto made = Create(ChatLines(2));
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(made->id)->error_file),
            (std::map<std::string, std::string>{{"r0", "500"}}));
  EXPECT_EQ(LinesOf(Get(made->id)->output_file),
            (std::map<std::string, std::string>{{"r1", "200"}}));
  EXPECT_EQ(batches_->stats().lines_retried, 3u);
}

TEST_F(BatchesTest, AKeyThatIsRevokedIsNotServed) {
  revoked_ = true;
  batches_->Start();
  const auto made = Create(ChatLines(2));
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(LinesOf(Get(made->id)->error_file),
            (std::map<std::string, std::string>{{"r0", "401"}, {"r1", "401"}}));
}

TEST_F(BatchesTest, OwnersTakeTurns) {
  max_num_seqs_ = 1;
  options_.slots = 1;
  Close();
  Open();
  batches_->Start();
  const auto many = Create(ChatLines(40, "m"), "many");
  EXPECT_TRUE(Eventually([&] { return Get(many->id, "many")->state == BatchState::kInProgress; }));
  const auto one = Create(ChatLine("o"), "one");
  ASSERT_TRUE(Becomes(one->id, BatchState::kCompleted, "one"));
  EXPECT_LT(Get(many->id, "many")->completed, 30);
  Call<Result<std::vector<BatchView>>> list;
  batches_->List("one", "", "", 20, list.done());
  EXPECT_EQ(list.Get()->size(), 1u);
}

TEST_F(BatchesTest, WhatMayWaitIsLimitedAndTold) {
  options_.limits = {.batches = 2, .lines = 10, .bytes = 1 << 20};
  Close();
  Open();
  ASSERT_TRUE(Create(ChatLines(8)).ok());
  const Status lines = Create(ChatLines(3)).status();
  EXPECT_EQ(lines.reason(), "tenant_queue_full");
  EXPECT_NE(lines.message().find("lines: 8 + 3"), std::string::npos) << lines;
  EXPECT_NE(lines.message().find("limit 10"), std::string::npos) << lines;
  ASSERT_TRUE(Create(ChatLines(2)).ok());
  EXPECT_EQ(Create(ChatLines(1)).status().reason(), "tenant_queue_full") << "batches";
  EXPECT_TRUE(Create(ChatLines(1), "another").ok());
  EXPECT_EQ(Create(ChatLines(11), "third").status().reason(), "request_too_large")
      << "which does not say that it may be tried again";
  EXPECT_EQ(CreateOf("file-0").status().param(), "input_file_id");
}

TEST_F(BatchesTest, TheInputMayBeDeletedWhileItRuns) {
  batches_->Start();
  const auto made = Create(ChatLines(20));
  Call<Status> deleted;
  files_->Delete("t", made->input_file, deleted.done());
  ASSERT_TRUE(deleted.Get().ok());
  Restart();
  ASSERT_TRUE(Becomes(made->id, BatchState::kCompleted));
  EXPECT_EQ(Get(made->id)->completed, 20);
  EXPECT_EQ(CreateOf(made->input_file).status().reason(), "not_found");
  EXPECT_EQ(CreateOf(Get(made->id)->output_file).status().param(), "input_file_id");
}

TEST_F(BatchesTest, OperatorsSeeAndCancelThoseOfAllTenants) {
  const auto one = Create(ChatLines(2), "one"), two = Create(ChatLines(2), "two");
  ASSERT_TRUE(one.ok() && two.ok());
  const auto ask = [&](const std::string& members) {
    const Result<std::string> answer =
        HandleControl(*store_, *batches_, R"({"op":"batches.)" + members + "}");
    return answer.ok() ? *answer : answer.status().reason();
  };
  const std::string all = ask(R"(list")");
  EXPECT_LT(all.find(two->id), all.find(one->id)) << "the newest first";
  EXPECT_THAT(all, HasSubstr(R"(,"tenant":"one"}],"more":false})"));
  EXPECT_THAT(ask(R"(list","limit":1)"), HasSubstr(R"("more":true)"));
  EXPECT_THAT(ask(R"(list","after":")" + two->id + "\""), Not(HasSubstr(two->id)));
  EXPECT_THAT(ask(R"(list","tenant":"two")"), Not(HasSubstr(one->id)));
  EXPECT_EQ(ask(R"(list","tenant":"none")"), R"({"batches":[],"more":false})");
  EXPECT_THAT(ask(R"(cancel","id":")" + one->id + "\""), HasSubstr(R"("status":"cancelling")"));
  EXPECT_EQ(Get(one->id, "one")->state, BatchState::kCancelling);
  EXPECT_THAT(ask(R"(show","id":")" + two->id + "\""), HasSubstr(R"("tenant":"two")"));
  for (const std::string faulty :
       {R"({"op":"batches.show"})", R"({"op":"batches.show","id":7})", R"({"op":"batches.drop"})",
        R"({"op":"batches.show","id":"batch_none"})", R"({"op":"batches.list","limit":0})",
        R"({"op":"batches.list","after":"batch_none"})", R"({"op":"batches.list","tenant":1})"})
    EXPECT_FALSE(HandleControl(*store_, *batches_, faulty).ok()) << faulty;
}

}  // namespace
}  // namespace tutti::batches
