#include "protocol/openai/decisions.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "api/validate.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/chat_fields.h"

namespace tutti::protocol {
namespace {

using QuestionKind = DecisionQuestion::Kind;

constexpr size_t kLeastLabels = 2;

// DecisionFields of both forms that chats have too, with the same meaning.
constexpr std::array<std::string_view, 16> kSharedFields = {"model",
                                                            "request_id",
                                                            "service_tier",
                                                            "priority",
                                                            "deadline_ms",
                                                            "cache_salt",
                                                            "cache",
                                                            "user",
                                                            "metadata",
                                                            "store",
                                                            "safety_identifier",
                                                            "prompt_cache_key",
                                                            "stream",
                                                            "chat_template_kwargs",
                                                            "enable_thinking",
                                                            "reasoning_effort"};

// Reads an object whose fields this file knows itself.
class DecisionFields {
 public:
  DecisionFields(const JsonObject& object, std::string path, bool strict, IgnoredFields* ignored)
      : object_(object), path_(std::move(path)), strict_(strict), ignored_(ignored) {}

  static Result<DecisionFields> Of(const Json& value, const std::string& path, bool strict,
                                   IgnoredFields* ignored) {
    if (!value.is_object()) return MustBe(path, "an object");
    return DecisionFields(value.get_object(), path, strict, ignored);
  }

  std::string Param(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }
  const Json* Find(std::string_view name) const {
    const Json* value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  Result<const Json*> Need(std::string_view name) const {
    const Json* value = Find(name);
    if (value == nullptr) return IsMissing(Param(name));
    return value;
  }
  Result<std::string> NeedText(std::string_view name) const {
    ASSIGN_OR_RETURN(const Json* value, Need(name));
    if (!value->is_string()) return MustBe(Param(name), "a string");
    if (value->get_string().empty()) return MustBe(Param(name), "not empty");
    return std::string(TextOf(*value));
  }
  // Empty if it is absent.
  Result<std::string> Text(std::string_view name) const {
    const Json* value = Find(name);
    if (value == nullptr) return std::string();
    if (!value->is_string()) return MustBe(Param(name), "a string");
    return std::string(TextOf(*value));
  }
  // Refuses or reports all other fields.
  Status Only(std::initializer_list<std::string_view> known) const {
    for (const auto& member : object_) {
      const std::string_view name(member.key().data(), member.key().size());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string shown = Excerpt(Param(name));
      if (strict_)
        return InvalidArgument("unknown_parameter", "unknown field " + shown).WithParam(shown);
      ignored_->Add(Param(name));
    }
    return OkStatus();
  }

  bool strict() const { return strict_; }
  IgnoredFields* ignored() const { return ignored_; }

 private:
  const JsonObject& object_;
  std::string path_;
  bool strict_;
  IgnoredFields* ignored_;
};

// Text of a value that may be structured.
Result<std::string> TextOrJson(const Json& value, const std::string& param) {
  if (!value.is_string() && !value.is_object() && !value.is_array())
    return MustBe(param, "a string, an object or an array");
  std::string text = value.is_string() ? std::string(TextOf(value)) : PrintJson(value);
  if (text.empty()) return MustBe(param, "not empty");
  return text;
}

// A string, or a list of parts of type input_text, output_text, input_json.
Result<std::string> ReadParts(const Json& value, const std::string& param, bool strict,
                              IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(
      TextContent content,
      ReadTextContent(value, param,
                      [&](const Json& part, const std::string& path) -> Result<std::string> {
                        ASSIGN_OR_RETURN(const DecisionFields fields,
                                         DecisionFields::Of(part, path, strict, ignored));
                        ASSIGN_OR_RETURN(const std::string type, fields.NeedText("type"));
                        if (type == "input_json") {
                          RETURN_IF_ERROR(fields.Only({"type", "data"}));
                          ASSIGN_OR_RETURN(const Json* data, fields.Need("data"));
                          if (!data->is_object() && !data->is_array())
                            return MustBe(path + ".data", "an object or an array");
                          return PrintJson(*data);
                        }
                        if (type != "input_text" && type != "output_text") {
                          return NotSupported(path, path + " is of type " + Excerpt(type) +
                                                        "; this model reads text parts only");
                        }
                        RETURN_IF_ERROR(fields.Only({"type", "text", "prompt_cache_breakpoint"}));
                        return fields.NeedText("text");
                      }));
  if (content.text.empty()) return MustBe(param, "not empty");
  return std::move(content.text);
}

// The messages of `input`; the last one is the user's, so that questions can be added to it.
Result<std::vector<api::ChatMessage>> ReadInput(const Json& input, bool strict,
                                                IgnoredFields* ignored) {
  std::vector<api::ChatMessage> messages;
  if (input.is_string()) {
    if (input.get_string().empty()) return MustBe("input", "not empty");
    messages.emplace_back().content = TextOf(input);
    return messages;
  }
  if (!input.is_array() || input.get_array().empty())
    return MustBe("input", "a string or a list of messages");
  if (input.get_array().size() > api::kMaxMessages)
    return BadValue("input",
                    "input has more than " + std::to_string(api::kMaxMessages) + " messages");
  for (size_t i = 0; i < input.get_array().size(); ++i) {
    const std::string path = ElementPath("input", i);
    ASSIGN_OR_RETURN(const DecisionFields fields,
                     DecisionFields::Of(input.get_array()[i], path, strict, ignored));
    ASSIGN_OR_RETURN(const std::string type, fields.Text("type"));
    if (!type.empty() && type != "message")
      return NotSupported(path, path + " is of type " + Excerpt(type) + "; only messages are read");
    RETURN_IF_ERROR(fields.Only({"type", "role", "content", "phase"}));
    ASSIGN_OR_RETURN(const std::string role, fields.NeedText("role"));
    api::ChatMessage message;
    if (role == "system" || role == "developer") {
      message.role = api::Role::kSystem;
    } else if (role == "assistant") {
      message.role = api::Role::kAssistant;
    } else if (role != "user") {
      return MustBe(path + ".role", "user, assistant, system or developer");
    }
    ASSIGN_OR_RETURN(const Json* content, fields.Need("content"));
    ASSIGN_OR_RETURN(message.content, ReadParts(*content, path + ".content", strict, ignored));
    messages.push_back(std::move(message));
  }
  if (messages.back().role != api::Role::kUser) messages.push_back({});
  return messages;
}

struct ReadQuestion {
  DecisionQuestion question;
  std::string text;  // what follows the input in the prompt
};

// One line for each label: "label: description", or the label alone.
void AddLine(const std::string& label, const std::string& description, std::string* text) {
  *text += "\n" + label + (description.empty() ? "" : ": " + description);
}

void MakePredicate(const std::string& param, const std::string& yes, const std::string& no,
                   ReadQuestion* read) {
  read->question.kind = QuestionKind::kPredicate;
  read->question.labels = {{.scored = "yes", .param = param}, {.scored = "no", .param = param}};
  read->text += "\nAnswer with yes or no.";
  if (!yes.empty()) AddLine("yes", yes, &read->text);
  if (!no.empty()) AddLine("no", no, &read->text);
}

void BeginLabels(QuestionKind kind, ReadQuestion* read) {
  read->question.kind = kind;
  read->text += kind == QuestionKind::kChoice
                    ? "\nAnswer with one of these:"
                    : "\nAnswer with the number of the level that fits best:";
}

Status AddLabel(DecisionLabel label, const std::string& description, std::set<std::string>* known,
                ReadQuestion* read) {
  if (label.shown.empty() || label.shown.size() > api::kMaxLabelBytes) {
    return MustBe(label.param, "1 to " + std::to_string(api::kMaxLabelBytes) + " bytes");
  }
  if (!known->insert(label.shown).second)
    return BadValue(label.param, label.param + " repeats a label of the question");
  AddLine(label.scored, description, &read->text);
  read->question.labels.push_back(std::move(label));
  return OkStatus();
}

Status CheckCount(size_t count, const std::string& param) {
  if (count >= kLeastLabels && count <= api::kMaxLabels) return OkStatus();
  return BadValue(param, param + " must hold " + std::to_string(kLeastLabels) + " to " +
                             std::to_string(api::kMaxLabels) + " elements, not " +
                             std::to_string(count));
}

Status UnknownQuestionType(const std::string& param, const std::string& type,
                           const std::string& kinds) {
  return BadValue(param, param + " must be " + kinds + ", not " + Excerpt(type));
}

// --- /v1/decisions ---

Status ReadChoices(const DecisionFields& fields, ReadQuestion* read) {
  const std::string param = fields.Param("choices");
  ASSIGN_OR_RETURN(const Json* choices, fields.Need("choices"));
  if (!choices->is_array()) return MustBe(param, "a list");
  RETURN_IF_ERROR(CheckCount(choices->get_array().size(), param));
  BeginLabels(QuestionKind::kChoice, read);
  std::set<std::string> known;
  for (size_t i = 0; i < choices->get_array().size(); ++i) {
    const std::string path = ElementPath(param, i);
    ASSIGN_OR_RETURN(
        const DecisionFields choice,
        DecisionFields::Of(choices->get_array()[i], path, fields.strict(), fields.ignored()));
    RETURN_IF_ERROR(choice.Only({"value", "description"}));
    ASSIGN_OR_RETURN(const Json* value, choice.Need("value"));
    ASSIGN_OR_RETURN(const std::string description, choice.Text("description"));
    DecisionLabel label{.scored = "", .boolean = value->is_bool(), .param = path + ".value"};
    if (!label.boolean && !value->is_string()) return MustBe(label.param, "a string or a boolean");
    label.scored = label.shown =
        label.boolean ? (value->get_bool() ? "true" : "false") : std::string(TextOf(*value));
    RETURN_IF_ERROR(AddLabel(std::move(label), description, &known, read));
  }
  return OkStatus();
}

Status ReadLevels(const DecisionFields& fields, ReadQuestion* read) {
  const std::string param = fields.Param("levels");
  ASSIGN_OR_RETURN(const Json* levels, fields.Need("levels"));
  if (!levels->is_array()) return MustBe(param, "a list");
  RETURN_IF_ERROR(CheckCount(levels->get_array().size(), param));
  BeginLabels(QuestionKind::kScore, read);
  std::set<std::string> known;
  for (size_t i = 0; i < levels->get_array().size(); ++i) {
    const std::string path = ElementPath(param, i);
    ASSIGN_OR_RETURN(
        const DecisionFields level,
        DecisionFields::Of(levels->get_array()[i], path, fields.strict(), fields.ignored()));
    RETURN_IF_ERROR(level.Only({"label", "description"}));
    ASSIGN_OR_RETURN(const std::string shown, level.NeedText("label"));
    ASSIGN_OR_RETURN(const std::string description, level.Text("description"));
    RETURN_IF_ERROR(
        AddLabel({.scored = std::to_string(i), .shown = shown, .param = path + ".label"},
                 description.empty() ? shown : shown + " (" + description + ")", &known, read));
  }
  return OkStatus();
}

Result<ReadQuestion> ReadOpenAiQuestion(const Json& value, const std::string& path, bool strict,
                                        IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const DecisionFields fields, DecisionFields::Of(value, path, strict, ignored));
  ReadQuestion read;
  ASSIGN_OR_RETURN(const std::string type, fields.NeedText("type"));
  ASSIGN_OR_RETURN(read.question.name, fields.Text("name"));
  read.question.named = fields.Find("name") != nullptr;
  ASSIGN_OR_RETURN(const Json* instructions, fields.Need("instructions"));
  ASSIGN_OR_RETURN(read.text,
                   ReadParts(*instructions, fields.Param("instructions"), strict, ignored));
  if (type == "predicate") {
    RETURN_IF_ERROR(fields.Only({"type", "name", "instructions"}));
    MakePredicate(path, "", "", &read);
  } else if (type == "choice") {
    RETURN_IF_ERROR(fields.Only({"type", "name", "instructions", "choices"}));
    RETURN_IF_ERROR(ReadChoices(fields, &read));
  } else if (type == "score") {
    RETURN_IF_ERROR(fields.Only({"type", "name", "instructions", "levels"}));
    RETURN_IF_ERROR(ReadLevels(fields, &read));
  } else {
    return UnknownQuestionType(path + ".type", type, "predicate, choice or score");
  }
  return read;
}

// --- /v1/systemone ---

Status ReadNoulCriteria(const DecisionFields& fields, ReadQuestion* read) {
  std::string yes, no;
  if (const Json* criteria = fields.Find("criteria"); criteria != nullptr) {
    ASSIGN_OR_RETURN(
        const DecisionFields both,
        DecisionFields::Of(*criteria, fields.Param("criteria"), fields.strict(), fields.ignored()));
    RETURN_IF_ERROR(both.Only({"true", "false"}));
    ASSIGN_OR_RETURN(yes, both.Text("true"));
    ASSIGN_OR_RETURN(no, both.Text("false"));
  }
  MakePredicate(fields.Param("type"), yes, no, read);
  return OkStatus();
}

Status ReadChoiceCriteria(const DecisionFields& fields, ReadQuestion* read) {
  const std::string param = fields.Param("criteria");
  ASSIGN_OR_RETURN(const Json* criteria, fields.Need("criteria"));
  if (!criteria->is_object()) return MustBe(param, "an object of labels and their descriptions");
  RETURN_IF_ERROR(CheckCount(criteria->get_object().size(), param));
  BeginLabels(QuestionKind::kChoice, read);
  std::set<std::string> known;
  for (const auto& member : criteria->get_object()) {
    const std::string label(member.key().data(), member.key().size());
    const std::string path = param + "." + Excerpt(label);
    std::string description;
    if (!member.value().is_null()) {
      ASSIGN_OR_RETURN(description, TextOrJson(member.value(), path));
    }
    RETURN_IF_ERROR(
        AddLabel({.scored = label, .shown = label, .param = path}, description, &known, read));
  }
  return OkStatus();
}

Status ReadScoreCriteria(const DecisionFields& fields, ReadQuestion* read) {
  const std::string param = fields.Param("criteria");
  ASSIGN_OR_RETURN(const Json* criteria, fields.Need("criteria"));
  if (!criteria->is_array()) return MustBe(param, "a list of levels");
  RETURN_IF_ERROR(CheckCount(criteria->get_array().size(), param));
  BeginLabels(QuestionKind::kScore, read);
  std::set<std::string> known;
  for (size_t i = 0; i < criteria->get_array().size(); ++i) {
    const std::string path = ElementPath(param, i);
    ASSIGN_OR_RETURN(const std::string shown, TextOrJson(criteria->get_array()[i], path));
    RETURN_IF_ERROR(AddLabel({.scored = std::to_string(i), .shown = shown, .param = path}, shown,
                             &known, read));
  }
  return OkStatus();
}

Result<ReadQuestion> ReadSystemOneQuestion(const std::string& name, const Json& value, bool strict,
                                           IgnoredFields* ignored) {
  const std::string path = "questions." + Excerpt(name);
  ASSIGN_OR_RETURN(const DecisionFields fields, DecisionFields::Of(value, path, strict, ignored));
  RETURN_IF_ERROR(fields.Only({"type", "instructions", "criteria"}));
  ReadQuestion read;
  read.question.name = name;
  read.question.named = true;
  ASSIGN_OR_RETURN(const std::string type, fields.NeedText("type"));
  ASSIGN_OR_RETURN(const Json* instructions, fields.Need("instructions"));
  ASSIGN_OR_RETURN(read.text, TextOrJson(*instructions, fields.Param("instructions")));
  if (type == "noul") {
    RETURN_IF_ERROR(ReadNoulCriteria(fields, &read));
  } else if (type == "choice") {
    RETURN_IF_ERROR(ReadChoiceCriteria(fields, &read));
  } else if (type == "score") {
    RETURN_IF_ERROR(ReadScoreCriteria(fields, &read));
  } else {
    return UnknownQuestionType(path + ".type", type, "noul, choice or score");
  }
  return read;
}

// --- both ---

Result<std::vector<ReadQuestion>> ReadQuestions(Dialect dialect, const Json& value, bool strict,
                                                IgnoredFields* ignored) {
  const bool openai = dialect == Dialect::kDecisions;
  if (openai && !value.is_array()) return MustBe("questions", "a list");
  if (!openai && !value.is_object()) return MustBe("questions", "an object of named questions");
  const size_t count = openai ? value.get_array().size() : value.get_object().size();
  if (count == 0 || count > kMaxQuestions) {
    return BadValue("questions", "questions must hold 1 to " + std::to_string(kMaxQuestions) +
                                     " questions, not " + std::to_string(count));
  }
  std::vector<ReadQuestion> questions;
  size_t labels = 0;
  const auto add = [&](Result<ReadQuestion> question) -> Status {
    RETURN_IF_ERROR(question.status());
    question->question.first = labels;
    labels += question->question.labels.size();
    questions.push_back(*std::move(question));
    return OkStatus();
  };
  if (openai) {
    for (size_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(add(
          ReadOpenAiQuestion(value.get_array()[i], ElementPath("questions", i), strict, ignored)));
    }
  } else {
    for (const auto& member : value.get_object()) {
      const std::string name(member.key().data(), member.key().size());
      RETURN_IF_ERROR(add(ReadSystemOneQuestion(name, member.value(), strict, ignored)));
    }
  }
  if (labels > kMaxDecisionLabels) {
    return BadValue("questions", "the questions have " + std::to_string(labels) +
                                     " labels together; at most " +
                                     std::to_string(kMaxDecisionLabels) + " are allowed");
  }
  return questions;
}

// Reads the fields that chats have too, of an object that has no others.
Result<api::GenerateRequest> ReadShared(const JsonObject& object, const ParseOptions& options,
                                        api::ChatPrompt* chat, GenerationCall* call) {
  JsonObject shared;
  for (const std::string_view name : kSharedFields) {
    if (const Json* value = object.if_contains(name); value != nullptr)
      shared.emplace(name, *value);
  }
  const Json value(std::move(shared));
  IgnoredFields none;
  ASSIGN_OR_RETURN(const CheckedObject checked,
                   CheckedObject::CheckPart(kChat, value, "", options.strict, &none));
  if (checked.Bool("stream").value_or(false))
    return NotSupported("stream", "decisions are not streamed");
  call->model = checked.Text("model").value_or("");
  if (call->model.empty()) return IsMissing("model");
  ASSIGN_OR_RETURN(chat->template_arguments, ReadTemplateArguments(checked));
  ASSIGN_OR_RETURN(Placement placement, ReadPlacement(checked, options));
  api::GenerateRequest base;
  base.model = call->model;
  base.score_only = true;
  base.sampling.max_tokens = 0;
  base.priority = placement.priority;
  base.request_id = std::move(placement.request_id);
  base.deadline = placement.deadline;
  base.user = checked.Text("user").value_or("");
  base.cache_salt = checked.Text("cache_salt").value_or("");
  base.use_prefix_cache = checked.Text("cache").value_or("auto") != "bypass";
  return base;
}

// One request for each label. The first one of a question also scores the others of one token.
void AddRequests(const api::GenerateRequest& base, const api::ChatPrompt& chat,
                 const ReadQuestion& read, GenerationCall* call) {
  const std::vector<DecisionLabel>& labels = read.question.labels;
  for (size_t i = 0; i < labels.size(); ++i) {
    api::GenerateRequest request = base;
    api::ChatPrompt prompt = chat;
    std::string& last = prompt.messages.back().content;
    last += (last.empty() ? "" : "\n\n") + read.text;
    prompt.messages.back().part_ends.clear();
    request.prompt = std::move(prompt);
    request.continuation.emplace(api::Continuation{.text = labels[i].scored, .covered = i > 0});
    for (size_t k = 1; i == 0 && k < labels.size(); ++k)
      request.continuation->others.push_back(labels[k].scored);
    if (i == 0) {
      api::Continuation::Classes& classes = request.continuation->classes;
      classes.text_bytes = chat.messages.back().content.size();
      classes.yes_or_no = read.question.kind == QuestionKind::kPredicate;
      if (read.question.kind == QuestionKind::kScore) {
        for (const DecisionLabel& label : labels) classes.names.push_back(label.shown);
      }
    }
    call->requests.push_back(std::move(request));
  }
}

}  // namespace

Result<GenerationCall> ParseDecisions(Dialect dialect, const Json& body,
                                      const ParseOptions& options) {
  if (!body.is_object()) return InvalidArgument("invalid_json", "the body must be a JSON object");
  const JsonObject& object = body.get_object();
  IgnoredFields ignored;
  const DecisionFields fields(object, "", options.strict, &ignored);
  const std::string_view evidence = dialect == Dialect::kDecisions ? "input" : "state";
  JsonObject rest = object;  // what no field below is
  for (const std::string_view name : kSharedFields) rest.erase(name);
  RETURN_IF_ERROR(DecisionFields(rest, "", options.strict, &ignored)
                      .Only({evidence, "questions", "prompt_cache_options"}));
  GenerationCall call;
  call.dialect = dialect;
  api::ChatPrompt chat;
  ASSIGN_OR_RETURN(const api::GenerateRequest base, ReadShared(object, options, &chat, &call));
  ASSIGN_OR_RETURN(const Json* text, fields.Need(evidence));
  if (dialect == Dialect::kDecisions) {
    ASSIGN_OR_RETURN(chat.messages, ReadInput(*text, options.strict, &ignored));
  } else {
    ASSIGN_OR_RETURN(std::string state, TextOrJson(*text, "state"));
    chat.messages.emplace_back().content = std::move(state);
  }
  ASSIGN_OR_RETURN(const Json* asked, fields.Need("questions"));
  ASSIGN_OR_RETURN(std::vector<ReadQuestion> questions,
                   ReadQuestions(dialect, *asked, options.strict, &ignored));
  const size_t labels = questions.back().question.first + questions.back().question.labels.size();
  if (api::PromptBytes(chat) * labels > api::kMaxPairBytes) {
    return InvalidArgument("request_too_large",
                           std::string(evidence) + " times " + std::to_string(labels) +
                               " labels is more than " + std::to_string(api::kMaxPairBytes) +
                               " bytes; ask fewer questions at once")
        .WithParam(std::string(evidence));
  }
  for (ReadQuestion& read : questions) {
    AddRequests(base, chat, read, &call);
    call.questions.push_back(std::move(read.question));
  }
  call.ignored = ignored.names();
  return call;
}

std::string DecisionParam(const GenerationCall& call, const std::string& param, size_t index) {
  const bool openai = call.dialect == Dialect::kDecisions;
  if (param.starts_with("messages") || param == "prompt" || param == "max_tokens")
    return openai ? "input" : "state";
  if (!param.starts_with("continuation")) return param;
  // "continuation" is the label of the request; "continuation[2]" is the second one after it.
  constexpr std::string_view kIndexed = "continuation[";
  size_t label = index;
  if (param.starts_with(kIndexed))
    label += std::strtoul(param.c_str() + kIndexed.size(), nullptr, 10);
  for (const DecisionQuestion& question : call.questions) {
    if (label >= question.first && label < question.first + question.labels.size())
      return question.labels[label - question.first].param;
  }
  return "questions";
}

}  // namespace tutti::protocol
