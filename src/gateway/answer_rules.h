// Grammar and parsers of the answer to one request, derived from the request's constraint, its
// tools and the model's reasoning format.
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

// A compiled grammar, or the need to compile one.
struct KnownAnswer {
  bool compiled = false;                              // false: CompileAnswer() has to be called
  std::shared_ptr<grammar::TokenMasker> masker = {};  // null: any text is allowed
};
// The result of CompileAnswer() where it needs no compilation. Errors: tools that the model's
// format cannot write or enforce; a constraint of an unknown kind.
Result<KnownAnswer> FindAnswer(Constraints& constraints, const ServedModel& model,
                               const api::GenerateRequest& request, bool reasons,
                               bool inside_reasoning);

// Compiles the token mask of the answer; null: any text is allowed. `inside_reasoning`: the prompt
// ends within reasoning, which the answer continues. `reasons`: the answer may begin with
// reasoning, which is returned separately. If the schema of a tool that is not strict cannot be
// enforced completely, only its types are. Errors: those of Constraints::Get().
Result<std::shared_ptr<grammar::TokenMasker>> CompileAnswer(Constraints& constraints,
                                                            const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            bool reasons, bool inside_reasoning,
                                                            const std::atomic<bool>* cancelled);

// Limit on the answer's reasoning tokens; no limit if the request has none or the model does not
// reason.
engine::ReasoningLimit ReasoningLimitOf(const ServedModel& model,
                                        const api::GenerateRequest& request, bool inside_reasoning);

// Makes one parser per choice; empty if the text needs no parsing. `mode`: treatment of reasoning.
// `id_seed`: seed of the tool-call ids. `on_broken_call`: as in ToolParserOptions.
std::vector<std::unique_ptr<api::OutputParser>> MakeParsers(
    const ServedModel& model, const api::GenerateRequest& request, api::ReasoningMode mode,
    uint64_t id_seed, std::function<void(std::string_view)> on_broken_call = nullptr);

}  // namespace tutti::gateway
