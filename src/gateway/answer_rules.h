// AnswerRules: what the answer to one request must satisfy, and how its text is read: the
// request's constraint, its tools and the model's reasoning together.
//
// Functions over immutable values; any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "api/output_parser.h"
#include "api/reasoning_filter.h"
#include "api/types.h"
#include "base/status.h"
#include "engine/reasoning_budget.h"
#include "gateway/constraints.h"
#include "gateway/served_model.h"
#include "grammar/structure.h"
#include "grammar/token_masker.h"

namespace tutti::gateway {

// The tools that the answer may call; null: it may call none.
const api::ChatPrompt* ToolsOf(const api::GenerateRequest& request);

// A grammar that is kept, or must be compiled: `compiled` says which.
struct KnownAnswer {
  bool compiled = false;
  std::shared_ptr<grammar::TokenMasker> masker = {};  // null: the answer may be any text
};
// What CompileAnswer() would give, as far as that needs no compiling. Errors: those of a tool that
// cannot be kept to, and of a constraint of an unknown kind.
Result<KnownAnswer> FindAnswer(Constraints& constraints, const ServedModel& model,
                               const api::GenerateRequest& request, bool reasons,
                               bool inside_reasoning);

// Null: the answer may be any text. `inside_reasoning`: the prompt ends within reasoning, which the
// answer goes on with; `reasons`: it may begin with reasoning, which is returned separately.
// A tool that is not strict and whose schema cannot be enforced in full is held to its types.
// Errors: those of Constraints::Get().
Result<std::shared_ptr<grammar::TokenMasker>> CompileAnswer(Constraints& constraints,
                                                            const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            bool reasons, bool inside_reasoning,
                                                            const std::atomic<bool>* cancelled);

// The bound on the answer's reasoning; without a limit where the request has none or the model does
// not reason.
engine::ReasoningLimit ReasoningLimitOf(const ServedModel& model,
                                        const api::GenerateRequest& request, bool inside_reasoning);

// One for each choice; none where the answer is its text as it is. `mode`: what becomes of
// reasoning. `id_seed`: of the calls' ids. `on_broken_call`: as ToolParserOptions'.
std::vector<std::unique_ptr<api::OutputParser>> MakeParsers(
    const ServedModel& model, const api::GenerateRequest& request, api::ReasoningMode mode,
    uint64_t id_seed, std::function<void(std::string_view)> on_broken_call = nullptr);

}  // namespace tutti::gateway
