// LocalDialog: one dialog that a process answers itself and keeps in a store, so that the next
// process goes on with it: `tutti chat --store`.
//
// One thread; calls wait. What was said is durable when Ask() returns. A question that was accepted
// when a process was killed is answered before the next one. No turn of another dialog of the store
// runs here; how long dialogs that nobody uses are kept is that of whoever has the store open, so a
// server on the same folder drops them after its own time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "app/local_inference.h"
#include "base/status.h"
#include "services/responses/responses.h"
#include "services/sessions/sessions.h"
#include "store/store.h"

namespace tutti::app {

class LocalDialog {
 public:
  struct Options {
    std::string folder;   // of the store; "": in memory
    std::string session;  // its name
    std::string model;    // as served
  };
  // `inference`, which serves that model, outlives it. Errors: those of the store (store_locked,
  // where a server has it), invalid_value (the name), overloaded (no thread).
  static Result<std::unique_ptr<LocalDialog>> Open(LocalInference& inference, Options options);
  ~LocalDialog();

  struct Question {
    std::string text, system;  // an empty one: none
    api::SamplingParams sampling;
    std::string template_arguments;  // as api::ChatPrompt
  };
  // Each piece of the answer goes to `on_text` as it comes, and of its reasoning to `on_reasoning`,
  // which may be empty. `stopped` is asked several times a second; true ends the answer, and
  // neither it nor the question was said (cancelled). Errors: else those of the request, and of the
  // store.
  Status Ask(const Question& question, const std::function<void(std::string_view)>& on_text,
             const std::function<bool()>& stopped,
             const std::function<void(std::string_view)>& on_reasoning = nullptr);

  // The last 100 messages, oldest first.
  Result<std::vector<api::ChatMessage>> History();
  Status Clear();  // all that was said

 private:
  LocalDialog(LocalInference& inference, Options options, std::unique_ptr<store::Store> store);

  const Options options_;
  const sessions::SessionKey key_;
  const std::unique_ptr<store::Store> store_;
  responses::Responses responses_;
  sessions::Sessions sessions_;
};

}  // namespace tutti::app
