// Grammar and parsers of the answer to one request, derived from the request's constraint, its
// tools and the model's reasoning format.
//
// Functions over immutable values; any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
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

// True if white space at the sides of the answer's text belongs to it.
bool KeepsSpace(const api::GenerateRequest& request);

// The tools that the answer may call; null: it may call none.
const api::ChatPrompt* ToolsOf(const api::GenerateRequest& request);

// Properties of the answer that follow from the model and the prompt.
struct AnswerFrame {
  bool reasons = false;           // it may begin with reasoning, which is returned separately
  bool inside_reasoning = false;  // the prompt ends within reasoning, which the answer continues
  // White space at the sides of the text behind the reasoning belongs to the answer, because its
  // constraint allows it there: it is not that of the tags.
  bool keep_space = false;
};

// A compiled grammar, or the need to compile one.
struct KnownAnswer {
  bool compiled = false;                              // false: CompileAnswer() has to be called
  std::shared_ptr<grammar::TokenMasker> masker = {};  // null: any text is allowed
};
// The result of CompileAnswer() where it needs no compilation. Errors: tools that the model's
// format cannot write or enforce; a constraint of an unknown kind.
Result<KnownAnswer> FindAnswer(Constraints& constraints, const ServedModel& model,
                               const api::GenerateRequest& request, const AnswerFrame& frame);

// Compiles the token mask of an answer that FindAnswer() has accepted; null: any text is allowed.
// If the schema of a tool that is not strict cannot be enforced completely, or is too complex, only
// its types are.
// Errors: those of Constraints::Get().
Result<std::shared_ptr<grammar::TokenMasker>> CompileAnswer(Constraints& constraints,
                                                            const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            const AnswerFrame& frame,
                                                            const std::atomic<bool>* cancelled);

// Limit on the answer's reasoning tokens; no limit if the request has none or the model does not
// reason.
engine::ReasoningLimit ReasoningLimitOf(const ServedModel& model,
                                        const api::GenerateRequest& request,
                                        const AnswerFrame& frame);

struct ParserContext {
  api::ReasoningMode reasoning = api::ReasoningMode::kKeep;
  bool keep_space = false;  // AnswerFrame::keep_space
  uint64_t id_seed = 0;     // seeds the ids of tool calls
  // See ToolParserOptions.
  std::function<void(std::string_view)> on_broken_call = {};
};
// Makes one parser per choice; empty if the text needs no parsing.
std::vector<std::unique_ptr<api::OutputParser>> MakeParsers(const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            ParserContext context);

}  // namespace tutti::gateway
