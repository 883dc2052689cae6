// StepState: a generation that advances by one token per Model::Step() call. Made by
// Model::CreateState().
//
// A state owns its tokens, KV blocks, random stream, stop-string matcher and incomplete characters.
// For use by one thread at a time; another thread may continue it. Between steps a state uses no
// processor time and does not count as a running sequence, so many states share the model with each
// other and with ordinary requests. Calling Step() in a loop gives the tokens of Model::Generate().
// The destructor frees the KV blocks.
#pragma once

#include <memory>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti {

struct StepResult {
  TokenId id = Token::kNone;  // kNone: the generation ended without a further token
  std::string text = {};      // whole UTF-8 characters only
  bool done = false;          // the generation has ended
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
      const;  // the answer so far; its finish reason is valid after done()

  struct Impl;  // internal
  explicit StepState(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
