#include "gateway/answer_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chat_template/harmony.h"
#include "chat_template/reasoning_syntax.h"
#include "chat_template/tool_parser.h"
#include "chat_template/tool_schema.h"
#include "chat_template/tool_structure.h"
#include "grammar/automaton.h"
#include "grammar/expression.h"
#include "grammar/limits.h"
#include "grammar/structure.h"

namespace tutti::gateway {
namespace {

using grammar::Structure;

Result<std::optional<Structure>> AnswerStructure(const ServedModel& model,
                                                 const api::GenerateRequest& request,
                                                 const std::vector<api::Tool>& tools,
                                                 const AnswerFrame& frame) {
  std::optional<Structure> answer;
  if (request.score_only) return answer;
  chat_template::AnswerTags tags;
  if (frame.reasons) {
    tags = chat_template::AnswerTagsOf(*model.tools->reasoning, model.tools->reasoning_tokens);
    const auto* const chat = std::get_if<api::ChatPrompt>(&request.prompt);
    tags.opened = chat != nullptr && chat->continue_final_message;
    tags.keep_space = frame.keep_space;
  }
  if (request.constraint) {
    ASSIGN_OR_RETURN(answer, StructureOf(*request.constraint));
  }
  if (const api::ChatPrompt* chat = ToolsOf(request); chat != nullptr) {
    answer = chat_template::ToolAnswer(*model.tools->syntax,
                                       {.tools = tools,
                                        .choice = chat->tool_choice,
                                        .parallel = chat->parallel_tool_calls,
                                        .text = std::move(answer),
                                        .tags = tags},
                                       model.tools->marker_tokens);
  } else if (answer) {
    answer = chat_template::BetweenTags(tags, *std::move(answer));
  }
  // If reasoning stays in the text, a constraint holds from the first token on.
  const bool limited = !answer && ReasoningLimitOf(model, request, frame).limited();
  if (limited) answer = Structure{.kind = Structure::Kind::kFreeText};
  // A prompt that is no chat is answered without channels.
  const bool harmony = chat_template::IsHarmony(model.tools) &&
                       std::holds_alternative<api::ChatPrompt>(request.prompt);
  if (harmony && answer && ToolsOf(request) == nullptr) {
    answer = chat_template::HarmonyAnswer({.text = std::move(answer)}, model.tools->marker_tokens);
  }
  if (answer && !harmony && (frame.reasons || limited)) {
    answer = chat_template::BehindReasoning(*model.tools->reasoning, model.tools->reasoning_tokens,
                                            *std::move(answer), frame.inside_reasoning,
                                            frame.keep_space);
  }
  return answer;
}

// Refusals of a schema whose types alone may be enforced.
bool IsRelaxable(const Status& status) {
  return status.reason() == "schema_unsupported" || status.reason() == "schema_reference" ||
         status.reason() == "grammar_regex" || status.reason() == "grammar_too_complex";
}

bool IsEnforceable(const std::string& schema, grammar::Budget& budget) {
  grammar::Grammar scratch(budget);
  const auto structure = Structure::Schema(chat_template::ArgumentsSchema(schema), "");
  Result<grammar::RuleId> root = grammar::AddStructure(scratch, structure, budget);
  if (!root.ok()) return !IsRelaxable(root.status());
  scratch.root = *root;
  return !IsRelaxable(grammar::Automaton::Create(scratch, budget).status());
}

// The work that compiling a request's tools may take: all attempts together take no more than the
// limit of one grammar.
constexpr uint64_t kWork = grammar::Limits().work;
constexpr uint64_t kFirstWork = kWork / 2, kCheckWork = kWork / 4, kRelaxedWork = kWork / 4;
constexpr uint64_t kMaxWorkOfTool = kWork / 16;

// The tools, those that are not strict with the types of their schemas alone where the schema
// cannot be enforced in full; all of them if each one could be, but not all together.
std::vector<api::Tool> Relaxed(std::vector<api::Tool> tools, const std::atomic<bool>* cancelled) {
  uint64_t left = kCheckWork;
  const auto enforceable = [&](const std::string& schema) {
    grammar::Limits limits;
    limits.work = std::min(left, kMaxWorkOfTool);
    grammar::Budget budget(limits, cancelled);
    const bool result = IsEnforceable(schema, budget);
    left -= std::min(left, budget.work());
    return result;
  };
  std::vector<bool> in_full;
  for (const api::Tool& tool : tools)
    in_full.push_back(tool.strict || enforceable(tool.parameters));
  const bool all = std::find(in_full.begin(), in_full.end(), false) == in_full.end();
  for (size_t i = 0; i < tools.size(); ++i) {
    api::Tool& tool = tools[i];
    if (tool.strict || tool.parameters.empty() || (in_full[i] && !all)) continue;
    tool.parameters = chat_template::RelaxedSchema(tool.parameters);
    if (!enforceable(tool.parameters)) tool.parameters = R"({"type":"object"})";
  }
  return tools;
}

// Which tools may be relaxed, as a key of the cache: two requests whose tools differ in that alone
// may have different grammars. Empty: none.
std::string RelaxableTools(const std::vector<api::Tool>& tools) {
  std::string key;
  for (const api::Tool& tool : tools) key += tool.strict ? 's' : 'r';
  return key.find('r') == std::string::npos ? "" : "relaxed:" + key;
}

// Refuses what the model's tool format cannot write or enforce.
Status CheckTools(const ServedModel& model, const api::ChatPrompt& chat) {
  for (const api::Tool& tool : chat.tools) {
    if (const std::string path = chat_template::UnwritableParameter(*model.tools->syntax, tool);
        !path.empty()) {
      return InvalidArgument("schema_unsupported",
                             "this model's tool format cannot write the name " + path +
                                 "; use letters, digits and _")
          .WithParam(path);
    }
    const std::string path =
        tool.strict ? chat_template::UnenforcedKeyword(*model.tools->syntax, tool) : "";
    if (path.empty()) continue;
    return InvalidArgument("schema_unsupported", "this model's tool format cannot enforce " + path +
                                                     "; leave it out, or set strict to false")
        .WithParam(path);
  }
  return OkStatus();
}

}  // namespace

bool KeepsSpace(const api::GenerateRequest& request) {
  if (!request.constraint) return false;
  const Result<Structure> structure = StructureOf(*request.constraint);
  return structure.ok() && grammar::MayHaveOuterSpace(*structure);
}

Result<KnownAnswer> FindAnswer(Constraints& constraints, const ServedModel& model,
                               const api::GenerateRequest& request, const AnswerFrame& frame) {
  const api::ChatPrompt* const chat = ToolsOf(request);
  if (chat != nullptr) RETURN_IF_ERROR(CheckTools(model, *chat));
  ASSIGN_OR_RETURN(
      const std::optional<Structure> answer,
      AnswerStructure(model, request, chat != nullptr ? chat->tools : std::vector<api::Tool>(),
                      frame));
  if (!answer) return KnownAnswer{.compiled = true};
  std::shared_ptr<grammar::TokenMasker> masker = constraints.Find(model, *answer);
  if (masker == nullptr && chat != nullptr) {
    const std::string relaxable = RelaxableTools(chat->tools);
    if (!relaxable.empty()) masker = constraints.Find(model, *answer, relaxable);
  }
  return KnownAnswer{.compiled = masker != nullptr, .masker = std::move(masker)};
}

const api::ChatPrompt* ToolsOf(const api::GenerateRequest& request) {
  const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
  return chat != nullptr && !chat->tools.empty() ? chat : nullptr;
}

Result<std::shared_ptr<grammar::TokenMasker>> CompileAnswer(Constraints& constraints,
                                                            const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            const AnswerFrame& frame,
                                                            const std::atomic<bool>* cancelled) {
  using Masker = std::shared_ptr<grammar::TokenMasker>;
  const auto compile = [&](const std::vector<api::Tool>& tools, uint64_t work) -> Result<Masker> {
    ASSIGN_OR_RETURN(const std::optional<Structure> answer,
                     AnswerStructure(model, request, tools, frame));
    if (!answer) return Masker();
    grammar::Limits limits;
    limits.work = work;
    return constraints.Get(model, *answer, limits, cancelled);
  };
  const api::ChatPrompt* const chat = ToolsOf(request);
  if (chat == nullptr) {
    Result<Masker> masker = compile({}, kWork);
    if (masker.ok() || !masker.status().param().empty() || !request.constraint) return masker;
    // Contradictions and limits are found in the whole answer, reasoning and tags included.
    return std::move(masker).status().WithParam(request.constraint->param);
  }
  const std::string relaxable = RelaxableTools(chat->tools);
  Result<Masker> masker = compile(chat->tools, relaxable.empty() ? kWork : kFirstWork);
  if (!masker.ok() && !relaxable.empty() && IsRelaxable(masker.status())) {
    masker = compile(Relaxed(chat->tools, cancelled), kRelaxedWork);
    if (masker.ok() && *masker != nullptr) {
      ASSIGN_OR_RETURN(const std::optional<Structure> answer,
                       AnswerStructure(model, request, chat->tools, frame));
      if (answer) constraints.UseFor(model, *answer, relaxable, *masker);
    }
  }
  if (masker.ok() || !masker.status().param().empty()) return masker;
  // Limits are those of all schemas together.
  return std::move(masker).status().WithParam("tools");
}

engine::ReasoningLimit ReasoningLimitOf(const ServedModel& model,
                                        const api::GenerateRequest& request,
                                        const AnswerFrame& frame) {
  engine::ReasoningLimit limit;
  if (!request.max_reasoning_tokens || !model.tools || model.tools->reasoning == nullptr ||
      !std::holds_alternative<api::ChatPrompt>(request.prompt))
    return limit;
  const chat_template::ReasoningSyntax& syntax = *model.tools->reasoning;
  limit.tokens = *request.max_reasoning_tokens;
  limit.inside = frame.inside_reasoning;
  std::string_view close = syntax.forced_close;
  if (frame.keep_space) close = close.substr(0, close.find_last_not_of(" \t\r\n") + 1);
  limit.close = model.tokenizer->Encode(close, {.add_special = false, .parse_special = true});
  limit.open_tag = chat_template::TagBytes(syntax.open, model.tools->reasoning_tokens);
  limit.close_tag = chat_template::TagBytes(syntax.close, model.tools->reasoning_tokens);
  return limit;
}

std::vector<std::unique_ptr<api::OutputParser>> MakeParsers(const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            ParserContext context) {
  std::vector<std::unique_ptr<api::OutputParser>> parsers;
  const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
  if (chat == nullptr || !model.tools) return parsers;
  const bool harmony = chat_template::IsHarmony(model.tools);
  const bool calls = !chat->tools.empty() && chat->tool_choice.kind != api::ToolChoice::Kind::kNone;
  const chat_template::ReasoningSyntax* const reasoning = model.tools->reasoning;
  const bool tags = context.reasoning != api::ReasoningMode::kKeep && reasoning != nullptr &&
                    !reasoning->answer_open.empty();
  // Harmony's texts are never for clients as they are.
  if (!calls && !harmony && !tags) return parsers;
  auto options = std::make_shared<chat_template::ToolParserOptions>();
  options->syntax = model.tools->syntax;
  options->tools = chat->tools;
  options->constrained = true;
  options->leading = request.constraint.has_value();
  options->id_seed = context.id_seed;
  options->on_broken_call = std::move(context.on_broken_call);
  for (int i = 0; i < request.n; ++i) {
    std::unique_ptr<api::OutputParser> parser;
    if (harmony) {
      parser = std::make_unique<chat_template::HarmonyParser>(options, i, context.reasoning);
    } else if (calls) {
      parser = std::make_unique<chat_template::ToolParser>(options, i);
    }
    if (tags) {
      parser = std::make_unique<chat_template::AnswerTagParser>(
          chat_template::AnswerTagParser::Tags{.open = std::string(reasoning->answer_open),
                                               .close = std::string(reasoning->answer_close),
                                               .opened = chat->continue_final_message,
                                               .keep_space = context.keep_space},
          std::move(parser));
    }
    parsers.push_back(std::move(parser));
  }
  return parsers;
}

}  // namespace tutti::gateway
