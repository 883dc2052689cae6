// LocalDialog: the dialog of `tutti chat --store`: answered by a model in this process and kept in
// a store, so that a later process can continue it.
//
// For use by one thread; calls block. Question and answer are durable when Ask() returns. If the
// process is killed after it accepted a question, the next process answers it first. Turns of other
// dialogs in the store do not run here. This process never drops idle dialogs, but a server that
// opens the same folder later applies its own session lifetime.
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
  // Asks a question and streams the answer to `on_text`, and its reasoning to `on_reasoning`, which
  // may be empty. `stopped` is polled several times a second; if it returns true, the turn is
  // cancelled and leaves neither question nor answer. Errors: cancelled; those of the request and
  // of the store.
  Status Ask(const Question& question, const std::function<void(std::string_view)>& on_text,
             const std::function<bool()>& stopped,
             const std::function<void(std::string_view)>& on_reasoning = nullptr);

  // The last 100 messages, oldest first.
  Result<std::vector<api::ChatMessage>> History();
  Status Clear();  // deletes the whole history

 private:
  LocalDialog(LocalInference& inference, Options options, std::unique_ptr<store::Store> store);

  const Options options_;
  const sessions::SessionKey key_;
  const std::unique_ptr<store::Store> store_;
  responses::Responses responses_;
  sessions::Sessions sessions_;
};

}  // namespace tutti::app
