// StepState: a generation that advances one token at a time, when told to (Model::CreateState,
// Model::Step).
//
// The state owns tokens, position, KV blocks, random stream, stop strings and half characters. One
// thread at a time; it may move to another between steps. Between steps it uses no core and holds
// no lane, so states of many conversations share the model with each other and with ordinary
// requests. Looping over Step gives the tokens of Model::Generate. Destroying it gives everything
// back.
#pragma once

#include <memory>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti {

struct StepResult {
  TokenId id = Token::kNone;  // kNone: it had ended without a further token
  std::string text = {};      // whole UTF-8 characters only
  bool done = false;          // there is nothing more to come
  std::optional<TokenLogprobs> logprobs = {};
  std::string reasoning = {};
  std::vector<ToolCallDelta> tool_calls = {};
};

class TUTTI_API StepState {
 public:
  StepState(StepState&&) noexcept;
  StepState& operator=(StepState&&) noexcept;
  ~StepState();

  bool done() const;
  int position() const;  // tokens of prompt and output so far
  const Completion& completion()
      const;  // what was made so far; the finish reason counts once done()

  struct Impl;  // the library's own
  explicit StepState(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
