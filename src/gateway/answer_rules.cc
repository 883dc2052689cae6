#include "gateway/answer_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chat_template/answer_tag_parser.h"
#include "chat_template/harmony.h"
#include "chat_template/reasoning_syntax.h"
#include "chat_template/tool_parser.h"
#include "chat_template/tool_structure.h"
#include "grammar/json_schema.h"
#include "grammar/limits.h"

namespace tutti::gateway {
namespace {

using grammar::Structure;

Result<std::optional<Structure>> AnswerStructure(const ServedModel& model,
                                                 const api::GenerateRequest& request,
                                                 const std::vector<api::Tool>& tools, bool reasons,
                                                 bool inside_reasoning) {
  std::optional<Structure> answer;
  if (request.score_only) return answer;
  chat_template::AnswerTags tags;
  if (reasons) {
    tags = chat_template::AnswerTagsOf(*model.tools->reasoning, model.tools->reasoning_tokens);
    const auto* const chat = std::get_if<api::ChatPrompt>(&request.prompt);
    tags.opened = chat != nullptr && chat->continue_final_message;
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
  // Where reasoning stays in the text, a constraint holds from the first token on.
  const bool limited = !answer && ReasoningLimitOf(model, request, inside_reasoning).limited();
  if (limited) answer = Structure{.kind = Structure::Kind::kFreeText};
  // A prompt that is no chat is answered without channels.
  const bool harmony = chat_template::IsHarmony(model.tools) &&
                       std::holds_alternative<api::ChatPrompt>(request.prompt);
  if (harmony && answer && ToolsOf(request) == nullptr) {
    answer = chat_template::HarmonyAnswer({.text = std::move(answer)}, model.tools->marker_tokens);
  }
  if (answer && !harmony && (reasons || limited)) {
    answer = chat_template::BehindReasoning(*model.tools->reasoning, model.tools->reasoning_tokens,
                                            *std::move(answer), inside_reasoning);
  }
  return answer;
}

bool IsEnforceable(const std::string& schema, grammar::Budget& budget) {
  grammar::Grammar scratch;
  const Status status =
      grammar::AddJsonSchema(scratch, chat_template::ArgumentsSchema(schema), {}, budget).status();
  return status.reason() != "schema_unsupported" && status.reason() != "schema_reference";
}

// Tools that are not strict and whose schemas cannot be enforced in full are held to their types.
// One budget bounds the checks of all.
std::vector<api::Tool> Relaxed(std::vector<api::Tool> tools, const std::atomic<bool>* cancelled) {
  grammar::Budget budget(grammar::Limits(), cancelled);
  for (api::Tool& tool : tools) {
    if (tool.strict || IsEnforceable(tool.parameters, budget)) continue;
    tool.parameters = chat_template::RelaxedSchema(tool.parameters);
    if (!IsEnforceable(tool.parameters, budget)) tool.parameters = R"({"type":"object"})";
  }
  return tools;
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

Result<KnownAnswer> FindAnswer(Constraints& constraints, const ServedModel& model,
                               const api::GenerateRequest& request, bool reasons,
                               bool inside_reasoning) {
  const api::ChatPrompt* const chat = ToolsOf(request);
  if (chat != nullptr) RETURN_IF_ERROR(CheckTools(model, *chat));
  ASSIGN_OR_RETURN(
      const std::optional<Structure> answer,
      AnswerStructure(model, request, chat != nullptr ? chat->tools : std::vector<api::Tool>(),
                      reasons, inside_reasoning));
  if (!answer) return KnownAnswer{.compiled = true};
  std::shared_ptr<grammar::TokenMasker> masker = constraints.Find(model, *answer);
  return KnownAnswer{.compiled = masker != nullptr, .masker = std::move(masker)};
}

const api::ChatPrompt* ToolsOf(const api::GenerateRequest& request) {
  const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
  return chat != nullptr && !chat->tools.empty() ? chat : nullptr;
}

Result<std::shared_ptr<grammar::TokenMasker>> CompileAnswer(Constraints& constraints,
                                                            const ServedModel& model,
                                                            const api::GenerateRequest& request,
                                                            bool reasons, bool inside_reasoning,
                                                            const std::atomic<bool>* cancelled) {
  const auto compile =
      [&](const std::vector<api::Tool>& tools) -> Result<std::shared_ptr<grammar::TokenMasker>> {
    ASSIGN_OR_RETURN(const std::optional<Structure> answer,
                     AnswerStructure(model, request, tools, reasons, inside_reasoning));
    if (!answer) return std::shared_ptr<grammar::TokenMasker>();
    return constraints.Get(model, *answer, cancelled);
  };
  const api::ChatPrompt* const chat = ToolsOf(request);
  if (chat == nullptr) {
    Result<std::shared_ptr<grammar::TokenMasker>> masker = compile({});
    if (masker.ok() || !masker.status().param().empty() || !request.constraint) return masker;
    // Contradictions and limits are found in the whole answer, reasoning and tags included.
    return std::move(masker).status().WithParam(request.constraint->param);
  }
  RETURN_IF_ERROR(CheckTools(model, *chat));
  Result<std::shared_ptr<grammar::TokenMasker>> masker = compile(chat->tools);
  if (!masker.ok() && (masker.status().reason() == "schema_unsupported" ||
                       masker.status().reason() == "schema_reference"))
    masker = compile(Relaxed(chat->tools, cancelled));
  if (masker.ok() || !masker.status().param().empty()) return masker;
  // Limits are those of all schemas together.
  return std::move(masker).status().WithParam("tools");
}

engine::ReasoningLimit ReasoningLimitOf(const ServedModel& model,
                                        const api::GenerateRequest& request,
                                        bool inside_reasoning) {
  engine::ReasoningLimit limit;
  if (!request.max_reasoning_tokens || !model.tools || model.tools->reasoning == nullptr ||
      !std::holds_alternative<api::ChatPrompt>(request.prompt))
    return limit;
  const chat_template::ReasoningSyntax& syntax = *model.tools->reasoning;
  limit.tokens = *request.max_reasoning_tokens;
  limit.inside = inside_reasoning;
  limit.close =
      model.tokenizer->Encode(syntax.forced_close, {.add_special = false, .parse_special = true});
  limit.open_tag = chat_template::TagBytes(syntax.open, model.tools->reasoning_tokens);
  limit.close_tag = chat_template::TagBytes(syntax.close, model.tools->reasoning_tokens);
  return limit;
}

std::vector<std::unique_ptr<api::OutputParser>> MakeParsers(
    const ServedModel& model, const api::GenerateRequest& request, api::ReasoningMode mode,
    uint64_t id_seed, std::function<void(std::string_view)> on_broken_call) {
  std::vector<std::unique_ptr<api::OutputParser>> parsers;
  const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
  if (chat == nullptr || !model.tools) return parsers;
  const bool harmony = chat_template::IsHarmony(model.tools);
  const bool calls = !chat->tools.empty() && chat->tool_choice.kind != api::ToolChoice::Kind::kNone;
  const chat_template::ReasoningSyntax* const reasoning = model.tools->reasoning;
  const bool tags =
      mode != api::ReasoningMode::kKeep && reasoning != nullptr && !reasoning->answer_open.empty();
  // Harmony's texts are never for clients as they are.
  if (!calls && !harmony && !tags) return parsers;
  auto options = std::make_shared<chat_template::ToolParserOptions>();
  options->syntax = model.tools->syntax;
  options->tools = chat->tools;
  options->constrained = true;
  options->leading = request.constraint.has_value();
  options->id_seed = id_seed;
  options->on_broken_call = std::move(on_broken_call);
  for (int i = 0; i < request.n; ++i) {
    std::unique_ptr<api::OutputParser> parser;
    if (harmony) {
      parser = std::make_unique<chat_template::HarmonyParser>(options, i, mode);
    } else if (calls) {
      parser = std::make_unique<chat_template::ToolParser>(options, i);
    }
    if (tags) {
      parser = std::make_unique<chat_template::AnswerTagParser>(
          std::string(reasoning->answer_open), std::string(reasoning->answer_close),
          chat->continue_final_message, std::move(parser));
    }
    parsers.push_back(std::move(parser));
  }
  return parsers;
}

}  // namespace tutti::gateway
