// For tests: dialogs over a scripted model and a store in a folder, under a clock that stands
// still.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/responses/testing/responses_fixture.h"
#include "services/sessions/message.h"
#include "services/sessions/sessions.h"
#include "services/sessions/versions.h"

namespace tutti::sessions::testing {

using support::Eventually;

// Blocks the store while it lives.
class HeldStore {
 public:
  explicit HeldStore(store::Store& store) {
    store.Read(
        [released = released_.get_future().share()](store::Database&) {
          released.wait();
          return OkStatus();
        },
        [](const Status&) {});
  }
  ~HeldStore() { LetGo(); }
  HeldStore(const HeldStore&) = delete;
  HeldStore& operator=(const HeldStore&) = delete;
  void LetGo() {
    if (!std::exchange(let_go_, true)) released_.set_value();
  }

 private:
  std::promise<void> released_;
  bool let_go_ = false;
};

class SessionsFixture : public responses::testing::ResponsesFixture {
 protected:
  using Told = support::Call<Result<Acceptance>>;

  std::vector<store::Migration> Tables() const override {
    return {kHistoryTables, kBranchTables,  responses::kResponseTables,
            kOwedTables,    kVersionTables, kFingerprintTables,
            kOwnerTables};
  }
  void Start() override {
    ResponsesFixture::Start();
    sessions_ = std::make_unique<Sessions>(session_options_, *inference_, *store_, *responses_,
                                           clock_, UnixSeconds());
  }
  void Stop() override {
    sessions_.reset();
    ResponsesFixture::Stop();
  }

  static SessionKey Key(const std::string& session = "s", const std::string& project = "p",
                        const std::string& tenant = "t") {
    return {tenant, project, session};
  }
  static Message UserMessage(const std::string& text, const std::string& id = "",
                             BusyPolicy policy = BusyPolicy::kEnqueue) {
    Message message;
    message.id = id;
    message.input = {{api::Role::kUser, text, ""}};
    message.policy = policy;
    message.state.model = "small";
    return message;
  }
  // A call of Sessions that passes a Result<T> or a Status to its callback.
  template <typename T, typename... Parameters, typename... Arguments>
  T Ask(void (Sessions::*method)(Parameters...), Arguments&&... arguments) {
    support::Call<T> call;
    ((*sessions_).*method)(std::forward<Arguments>(arguments)..., call.done());
    return call.Get();
  }
  Result<Acceptance> Submit(const SessionKey& key, Message message) {
    return Ask<Result<Acceptance>>(&Sessions::Submit, key, std::move(message));
  }
  // Submits a message; the test fails if it is refused.
  Acceptance Accepted(const SessionKey& key, Message message) {
    const Result<Acceptance> acceptance = Submit(key, std::move(message));
    EXPECT_TRUE(acceptance.ok()) << acceptance.status();
    return acceptance.ok() ? *acceptance : Acceptance{};
  }
  // Submits the message and runs its turn to the end.
  protocol::ResponseState Answer(const SessionKey& key, Message message) {
    const Acceptance acceptance = Accepted(key, std::move(message));
    if (acceptance.response == nullptr) return {};
    StepAll();
    EXPECT_TRUE(Ended(acceptance.response));
    return acceptance.response->State();
  }
  protocol::ResponseState Answer(const SessionKey& key, const std::string& text) {
    return Answer(key, UserMessage(text));
  }
  ItemList History(const SessionKey& key,
                   const ItemPage& page = {.limit = 100, .ascending = true, .after = ""}) {
    const auto list = Ask<Result<ItemList>>(&Sessions::History, key, page);
    return list.ok() ? *list : ItemList{};
  }
  // "u1 a1 u2 a2"
  std::string HistoryText(const SessionKey& key) {
    std::string said;
    for (const Item& item : History(key).items)
      said += (said.empty() ? "" : " ") + item.content + (item.incomplete ? "~" : "");
    return said;
  }
  // The prompt of the k-th request that reached the model, likewise; what the system says in <>.
  std::string Prompt(size_t k) {
    const std::vector<api::GenerateRequest> requests = inference_->requests();
    if (k >= requests.size()) return "no such request";
    std::string prompt;
    for (const api::ChatMessage& message : std::get<api::ChatPrompt>(requests[k].prompt).messages) {
      const bool system = message.role == api::Role::kSystem;
      prompt +=
          (prompt.empty() ? "" : " ") + (system ? "<" + message.content + ">" : message.content);
    }
    return prompt;
  }
  std::string LastPrompt() { return Prompt(inference_->requests().size() - 1); }
  Sessions::Counts Counts() {
    support::Call<Sessions::Counts> call;
    sessions_->Count(call.done());
    return call.Get();
  }
  Status Change(const std::string& sql) {
    return store_->WriteNow([&](store::Database& rows) { return rows.Execute(sql.c_str()); });
  }
  int64_t AskStore(const std::string& sql) {
    int64_t value = -1;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& rows) -> Status {
                      ASSIGN_OR_RETURN(store::Statement row, rows.Prepare(sql));
                      ASSIGN_OR_RETURN(const bool found, row.Step());
                      if (found) value = row.Int(0);
                      return OkStatus();
                    })
                    .ok());
    return value;
  }

  SessionOptions session_options_;
  std::unique_ptr<Sessions> sessions_;
};

}  // namespace tutti::sessions::testing
