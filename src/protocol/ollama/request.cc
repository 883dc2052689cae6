#include "protocol/ollama/request.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "api/encoding.h"
#include "api/validate.h"
#include "base/ascii.h"
#include "base/clock.h"
#include "base/go_duration.h"
#include "protocol/encoding/request.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/field_check.h"
#include "protocol/schema/json_schema.h"
#include "protocol/schema/rows.h"
#include "protocol/schema/table_fields.h"

namespace tutti::protocol::ollama {
namespace {

// --- the fields of each object ---

// The rows are found by their table, not by a scope.
constexpr ScopeSet kOwn = 0;
constexpr std::string_view kTextsOnly = "the models of this server read text";

using Fields = TableFields;
using FieldRows = TableFields::Rows;

FieldRows Joined(FieldRows first, FieldRows second) {
  for (FieldSpec& row : second) first.push_back(std::move(row));
  return first;
}

// Members of both generating routes.
FieldRows SharedRows() {
  return {
      Required(Text("model", kOwn, 1, kNameBytes)),
      Flag("stream", kOwn),
      Row("format", kOwn, FieldType::kAny),
      Row("options", kOwn, FieldType::kObject, 0, kMetadataBytes),
      Row("keep_alive", kOwn, FieldType::kAny),
      Row("think", kOwn, FieldType::kAny),
      Flag("logprobs", kOwn),
      Int("top_logprobs", kOwn, 0, api::kMaxLogprobs),
      // A prompt beyond the context is refused, and an answer ends there.
      WithoutEffect(Flag("truncate", kOwn)),
      WithoutEffect(Flag("shift", kOwn)),
      Refused("_debug_render_only", kOwn, {"false"}, "use /apply-template"),
  };
}

const FieldRows& ChatRows() {
  static const FieldRows rows =
      Joined(SharedRows(), {
                               Row("messages", kOwn, FieldType::kArray, 0, api::kMaxMessages),
                               Row("tools", kOwn, FieldType::kArray, 0, api::kMaxTools),
                           });
  return rows;
}

const FieldRows& GenerateRows() {
  static const FieldRows rows =
      Joined(SharedRows(), {
                               Text("prompt", kOwn, 0, kTextBytes),
                               Text("suffix", kOwn, 0, kTextBytes),
                               Text("system", kOwn, 0, kTextBytes),
                               Flag("raw", kOwn),
                               Refused("template", kOwn, {"\"\""}, "use raw"),
                               Refused("context", kOwn, {"[]"}, "use /api/chat"),
                               Refused("images", kOwn, {"[]"}, kTextsOnly),
                           });
  return rows;
}

const FieldRows& MessageRows() {
  static const FieldRows rows = {
      Required(Text("role", kOwn, 1, kNameBytes)),
      Text("content", kOwn, 0, kTextBytes),
      Text("thinking", kOwn, 0, kTextBytes),
      Refused("images", kOwn, {"[]"}, kTextsOnly),
      Row("tool_calls", kOwn, FieldType::kArray, 0, api::kMaxToolCalls),
      Text("tool_name", kOwn, 0, kNameBytes),
      Text("tool_call_id", kOwn, 0, kNameBytes),
  };
  return rows;
}

const FieldRows& ToolCallRows() {
  static const FieldRows rows = {
      Text("id", kOwn, 0, kNameBytes),
      WithoutEffect(Text("type", kOwn, 0, kNameBytes)),
      Required(Row("function", kOwn, FieldType::kAny)),
  };
  return rows;
}

const FieldRows& CalledRows() {
  static const FieldRows rows = {
      WithoutEffect(Int("index", kOwn, 0, kInt32Max)),
      Required(Text("name", kOwn, 1, kNameBytes)),
      Row("arguments", kOwn, FieldType::kAny),
  };
  return rows;
}

const FieldRows& OptionRows() {
  static const FieldRows rows = [] {
    FieldRows made = {
        Num("temperature", kOwn, 0, api::kMaxTemperature),
        Int("top_k", kOwn, -1, kInt32Max),
        Num("top_p", kOwn, 0, 1),
        Num("min_p", kOwn, 0, 1),
        Int("seed", kOwn, kInt64Low, kInt64High),
        Int("num_predict", kOwn, -2, kInt32Max),
        AboveLow(Num("repeat_penalty", kOwn, 0, api::kMaxRepetitionPenalty)),
        Num("presence_penalty", kOwn, -api::kMaxPenalty, api::kMaxPenalty),
        Num("frequency_penalty", kOwn, -api::kMaxPenalty, api::kMaxPenalty),
        Int("repeat_last_n", kOwn, -1, kInt32Max),
        Refused("typical_p", kOwn, {"1", "1.0"}),
        Refused("tfs_z", kOwn, {"1", "1.0"}),
        Refused("mirostat", kOwn, {"0"}),
        Refused("penalize_newline", kOwn, {"true"}),
        Refused("rope_frequency_base", kOwn, {"0", "0.0"}, "the model's own value is used"),
        Refused("rope_frequency_scale", kOwn, {"0", "0.0", "1", "1.0"},
                "the model's own value is used"),
    };
    // An empty text asks for nothing; the route that reads the list refuses one within it.
    FieldSpec stop = Row("stop", kOwn, FieldType::kStrings, 0, api::kMaxStopBytes);
    stop.count = api::kMaxStops;
    made.push_back(std::move(stop));
    // How a model is loaded and run, and the parameters of samplers that are off.
    for (const char* name :
         {"num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv",
          "use_mmap", "use_mlock", "num_thread", "numa", "num_gqa", "draft_num_predict",
          "logits_all", "vocab_only", "embedding_only", "mirostat_tau", "mirostat_eta"})
      made.push_back(WithoutEffect(Row(name, kOwn, FieldType::kAny)));
    return made;
  }();
  return rows;
}

const FieldRows& EmbedRows() {
  static const FieldRows rows = {
      Required(Text("model", kOwn, 1, kNameBytes)),
      Row("input", kOwn, FieldType::kAny),
      Flag("truncate", kOwn),
      Int("dimensions", kOwn, 0, kInt32Max),
      Row("options", kOwn, FieldType::kObject, 0, kMetadataBytes),
      Row("keep_alive", kOwn, FieldType::kAny),
  };
  return rows;
}

const FieldRows& EmbeddingsRows() {
  static const FieldRows rows = {
      Required(Text("model", kOwn, 1, kNameBytes)),
      Text("prompt", kOwn, 0, kTextBytes),
      Row("options", kOwn, FieldType::kObject, 0, kMetadataBytes),
      Row("keep_alive", kOwn, FieldType::kAny),
  };
  return rows;
}

const FieldRows& ShowRows() {
  static const FieldRows rows = {
      Text("model", kOwn, 1, kNameBytes),
      Text("name", kOwn, 1, kNameBytes),  // the old name of `model`
      WithoutEffect(Flag("verbose", kOwn)),
      WithoutEffect(Row("options", kOwn, FieldType::kAny)),
      Refused("system", kOwn, {"\"\""}),
      Refused("template", kOwn, {"\"\""}),
  };
  return rows;
}

const FieldRows& PullRows() {
  static const FieldRows rows = {
      Text("model", kOwn, 1, kNameBytes),
      Text("name", kOwn, 1, kNameBytes),  // the old name of `model`
      Flag("stream", kOwn),
      // Open WebUI always sends true. A hub is asked by https, with certificates that are checked.
      WithoutEffect(Flag("insecure", kOwn)),
      Refused("username", kOwn, {"\"\""}),
      Refused("password", kOwn, {"\"\""}),
  };
  return rows;
}

const FieldRows& CopyRows() {
  static const FieldRows rows = {
      Required(Text("source", kOwn, 1, kNameBytes)),
      Required(Text("destination", kOwn, 1, kNameBytes)),
  };
  return rows;
}

const FieldRows& DeleteRows() {
  static const FieldRows rows = {
      Text("model", kOwn, 1, kNameBytes),
      Text("name", kOwn, 1, kNameBytes),  // the old name of `model`
  };
  return rows;
}

// --- values of Ollama's own forms ---

// A number of seconds, or a duration of Go ("5m", "1h30m"); a negative one is for ever.
Result<std::optional<Duration>> KeepAliveOf(const Fields& fields) {
  constexpr double kMostSeconds = 1e9;
  const Json* value = fields.Find("keep_alive");
  if (value == nullptr) return std::optional<Duration>();
  std::optional<Duration> parsed;
  if (value->is_number()) {
    const auto seconds = value->to_number<double>();
    parsed = seconds < 0 || seconds > kMostSeconds ? api::kForever : FromSeconds(seconds);
  } else if (value->is_string()) {
    parsed = ParseGoDuration(TextOf(*value));
  }
  if (!parsed.has_value())
    return MustBe("keep_alive", R"(a number of seconds, or a duration such as "5m")");
  if (*parsed < Duration::zero()) parsed = api::kForever;
  return parsed;
}

Status AddFormat(const Fields& fields, JsonObject* out) {
  const Json* format = fields.Find("format");
  if (format == nullptr) return OkStatus();
  if (format->is_string()) {
    const std::string_view text = TextOf(*format);
    if (text.empty()) return OkStatus();
    if (text != "json") return MustBe("format", R"("json" or a JSON schema)");
  } else if (!format->is_object()) {
    return MustBe("format", R"("json" or a JSON schema)");
  }
  (*out)["format"] = *format;
  return OkStatus();
}

// Writes the options that have an effect, under their names in the API of OpenAI and vLLM.
Status AddOptions(const Fields& fields, bool strict, IgnoredFields* ignored, JsonObject* out) {
  const Json* value = fields.Find("options");
  if (value == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(const Fields options,
                   Fields::Check(OptionRows(), *value, "options", strict, ignored));
  for (const char* name : {"temperature", "top_k", "top_p", "min_p", "presence_penalty",
                           "frequency_penalty", "stop"}) {
    if (const Json* given = options.Find(name)) (*out)[name] = *given;
  }
  // -1 draws a seed.
  if (const auto seed = options.Int("seed"); seed.has_value() && *seed != -1)
    (*out)["seed"] = *seed;
  if (const auto most = options.Int("num_predict"); most.has_value() && *most >= 0) {
    if (*most == 0) return MustBe("options.num_predict", "at least 1, or -1 for no limit");
    (*out)["max_tokens"] = *most;
  }
  const std::optional<int64_t> window = options.Int("repeat_last_n");
  const bool penalised = options.Number("repeat_penalty", 1) != 1 ||
                         options.Number("presence_penalty", 0) != 0 ||
                         options.Number("frequency_penalty", 0) != 0;
  if (window == 0) {
    out->erase("presence_penalty");
    out->erase("frequency_penalty");
    return OkStatus();
  }
  // The penalties of this server count all tokens.
  if (penalised && window.value_or(-1) > 0) {
    return NotSupported(
        "options.repeat_last_n",
        "options.repeat_last_n is not supported: penalties count all tokens; use -1");
  }
  if (const Json* penalty = options.Find("repeat_penalty")) (*out)["repetition_penalty"] = *penalty;
  return OkStatus();
}

// --- messages ---

// A call that has no result yet.
struct OpenCall {
  std::string id, name;
};

Result<JsonArray> ConvertCalls(const JsonArray& calls, const std::string& path, size_t message,
                               bool strict, IgnoredFields* ignored, std::vector<OpenCall>* open) {
  JsonArray made;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string at = ElementPath(path, i);
    ASSIGN_OR_RETURN(const Fields call,
                     Fields::Check(ToolCallRows(), calls[i], at, strict, ignored));
    ASSIGN_OR_RETURN(const Fields function, Fields::Check(CalledRows(), *call.Find("function"),
                                                          call.Param("function"), strict, ignored));
    const Json* arguments = function.Find("arguments");
    if (arguments != nullptr && !arguments->is_object())
      return MustBe(function.Param("arguments"), "an object");
    std::string id = call.Text("id");
    // Older servers and clients of this API know no ids.
    if (id.empty()) id = "call_" + std::to_string(message) + "_" + std::to_string(i);
    open->push_back({id, function.Text("name")});
    made.push_back(
        JsonObject{{"id", id},
                   {"type", "function"},
                   {"function",
                    {{"name", function.Text("name")},
                     {"arguments", arguments == nullptr ? "{}" : PrintJson(*arguments)}}}});
  }
  return made;
}

// The id of the call that a message of role tool answers: its own, else that of the first open call
// of its name, else that of the first open one.
std::string TakeCallId(const Fields& message, std::vector<OpenCall>* open) {
  const std::string id = message.Text("tool_call_id"), name = message.Text("tool_name");
  auto found = std::find_if(open->begin(), open->end(), [&](const OpenCall& call) {
    return id.empty() ? call.name == name : call.id == id;
  });
  if (found == open->end() && id.empty()) found = open->begin();
  if (found == open->end()) return id.empty() ? "call" : id;
  std::string taken = found->id;
  open->erase(found);
  return taken;
}

Result<JsonArray> ConvertMessages(const JsonArray& messages, bool strict, IgnoredFields* ignored) {
  JsonArray made;
  std::vector<OpenCall> open;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = ElementPath("messages", i);
    ASSIGN_OR_RETURN(const Fields message,
                     Fields::Check(MessageRows(), messages[i], path, strict, ignored));
    JsonObject out;
    const std::string role = AsciiLower(message.Text("role"));
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      return MustBe(message.Param("role"), "system, user, assistant or tool");
    out["role"] = role;
    const std::string content = message.Text("content");
    const Json* calls = message.Find("tool_calls");
    const bool has_calls = calls != nullptr && !calls->get_array().empty();
    if (has_calls) {
      const std::string at = message.Param("tool_calls");
      if (role != "assistant") return BadValue(at, at + " needs role assistant");
      open.clear();
      ASSIGN_OR_RETURN(out["tool_calls"],
                       ConvertCalls(calls->get_array(), at, i, strict, ignored, &open));
    }
    if (!content.empty() || !has_calls) out["content"] = content;
    if (const std::string thinking = message.Text("thinking"); !thinking.empty())
      out["reasoning_content"] = thinking;
    if (role == "tool") {
      out["tool_call_id"] = TakeCallId(message, &open);
      if (const std::string name = message.Text("tool_name"); !name.empty()) out["name"] = name;
    }
    made.push_back(std::move(out));
  }
  return made;
}

// --- the calls ---

// true, false, or a level of effort.
Status AddThinking(const Fields& fields, JsonObject* out) {
  const Json* think = fields.Find("think");
  if (think == nullptr) return OkStatus();
  if (think->is_bool()) {
    (*out)["enable_thinking"] = think->get_bool();
    return OkStatus();
  }
  for (const std::string_view level : {"low", "medium", "high", "max"}) {
    if (!think->is_string() || TextOf(*think) != level) continue;
    (*out)["reasoning_effort"] = level;
    return OkStatus();
  }
  return MustBe("think", R"(true, false, "low", "medium", "high" or "max")");
}

// Begins the body of the other route with the members that all routes have.
Result<JsonObject> Begin(const Fields& fields, bool strict, IgnoredFields* ignored) {
  JsonObject out;
  out["model"] = UntaggedName(fields.Text("model"));
  out["stream"] = fields.Flag("stream", true);
  RETURN_IF_ERROR(KeepAliveOf(fields).status());
  RETURN_IF_ERROR(AddFormat(fields, &out));
  RETURN_IF_ERROR(AddOptions(fields, strict, ignored, &out));
  return out;
}

// The options and members that other routes have under another name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kOtherNames = {
    {{"max_tokens", "options.num_predict"},
     {"temperature", "options.temperature"},
     {"top_k", "options.top_k"},
     {"top_p", "options.top_p"},
     {"min_p", "options.min_p"},
     {"seed", "options.seed"},
     {"stop", "options.stop"},
     {"repetition_penalty", "options.repeat_penalty"},
     {"presence_penalty", "options.presence_penalty"},
     {"frequency_penalty", "options.frequency_penalty"},
     {"chat_template_kwargs", "think"},
     {"enable_thinking", "think"},
     {"reasoning_effort", "think"}}};

// The model of a body in which its old name is `name`.
Result<std::string> ModelOf(const Fields& fields) {
  std::string model(UntaggedName(fields.Text(fields.Find("model") != nullptr ? "model" : "name")));
  if (model.empty()) return IsMissing("model");
  return model;
}

Result<LibraryCall> ParseLibrary(const FieldRows& rows, const Json& body,
                                 const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const Fields fields, Fields::Check(rows, body, "", options.strict, &ignored));
  LibraryCall call;
  if (fields.Find("source") != nullptr) {
    call.model = UntaggedName(fields.Text("source"));
    call.destination = UntaggedName(fields.Text("destination"));
  } else {
    ASSIGN_OR_RETURN(call.model, ModelOf(fields));
  }
  call.stream = fields.Flag("stream", true);
  call.ignored = ignored.names();
  return call;
}

// Parses the converted body. `ignored`: unknown fields of the client's body.
Result<GenerationCall> Finish(Dialect dialect, const Fields& fields, JsonObject body,
                              const ParseOptions& options, const IgnoredFields& ignored) {
  const Json converted(std::move(body));
  Result<GenerationCall> parsed = ParseGeneration(dialect, converted, options);
  if (!parsed.ok()) {
    std::string param = FieldName(GenerationCall(), parsed.status().param());
    return std::move(parsed).status().WithParam(std::move(param));
  }
  GenerationCall call = *std::move(parsed);
  call.shown_model = fields.Text("model");
  call.stream = fields.Flag("stream", true);
  ASSIGN_OR_RETURN(call.keep_alive, KeepAliveOf(fields));
  for (api::GenerateRequest& request : call.requests) request.keep_alive = call.keep_alive;
  if (fields.Flag("logprobs", false)) {
    call.logprobs = static_cast<int>(fields.Int("top_logprobs").value_or(0));
    for (api::GenerateRequest& request : call.requests) request.sampling.logprobs = call.logprobs;
  }
  call.ignored = ignored.names();
  return call;
}

Result<GenerationCall> LoadOnly(const Fields& fields, const IgnoredFields& ignored) {
  GenerationCall call;
  ASSIGN_OR_RETURN(call.keep_alive, KeepAliveOf(fields));
  call.load_reason = call.keep_alive == Duration::zero() ? "unload" : "load";
  call.model = UntaggedName(fields.Text("model"));
  call.shown_model = fields.Text("model");
  call.ignored = ignored.names();
  return call;
}

}  // namespace

std::string_view UntaggedName(std::string_view name) {
  constexpr std::string_view kTag = ":latest";
  if (name.size() > kTag.size() && name.ends_with(kTag)) name.remove_suffix(kTag.size());
  return name;
}

std::string FieldName(const GenerationCall& call, std::string param) {
  if (param == "messages" && call.dialect == Dialect::kGenerate) return "prompt";
  const size_t index = std::min(param.find('['), param.size());  // of an element: stop[0]
  for (const auto& [theirs, ours] : kOtherNames) {
    if (std::string_view(param).substr(0, index) == theirs)
      return std::string(ours) + param.substr(index);
  }
  // A member of the template's options, of which `think` is the only one here.
  return param.starts_with("chat_template_kwargs.") ? "think" : param;
}

Result<GenerationCall> ParseChat(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const Fields fields,
                   Fields::Check(ChatRows(), body, "", options.strict, &ignored));
  ASSIGN_OR_RETURN(JsonObject out, Begin(fields, options.strict, &ignored));
  const Json* messages = fields.Find("messages");
  if (messages == nullptr || messages->get_array().empty()) return LoadOnly(fields, ignored);
  RETURN_IF_ERROR(AddThinking(fields, &out));
  ASSIGN_OR_RETURN(out["messages"],
                   ConvertMessages(messages->get_array(), options.strict, &ignored));
  if (const Json* tools = fields.Find("tools")) out["tools"] = *tools;
  return Finish(Dialect::kChat, fields, std::move(out), options, ignored);
}

Result<GenerationCall> ParseGenerate(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const Fields fields,
                   Fields::Check(GenerateRows(), body, "", options.strict, &ignored));
  ASSIGN_OR_RETURN(JsonObject out, Begin(fields, options.strict, &ignored));
  const std::string prompt = fields.Text("prompt"), suffix = fields.Text("suffix");
  const std::string system = fields.Text("system");
  const bool raw = fields.Flag("raw", false);
  if (raw && !system.empty()) return NotSupported("system", "system is not possible with raw");
  if (raw && !suffix.empty()) return NotSupported("suffix", "suffix is not possible with raw");
  if (prompt.empty() && suffix.empty()) return LoadOnly(fields, ignored);
  if (raw || !suffix.empty()) {
    const Json* think = fields.Find("think");
    if (think != nullptr && !(think->is_bool() && !think->get_bool()))
      return NotSupported("think", "think needs a prompt that the chat template writes");
    if (raw) {
      out["prompt"] = prompt;
      return Finish(Dialect::kGenerate, fields, std::move(out), options, ignored);
    }
    if (!system.empty()) return NotSupported("system", "system is not possible with suffix");
    out["input_prefix"] = prompt;
    out["input_suffix"] = suffix;
    ASSIGN_OR_RETURN(GenerationCall call,
                     Finish(Dialect::kInfill, fields, std::move(out), options, ignored));
    call.dialect = Dialect::kGenerate;  // for FieldName()
    return call;
  }
  RETURN_IF_ERROR(AddThinking(fields, &out));
  JsonArray messages;
  if (!system.empty()) messages.push_back(JsonObject{{"role", "system"}, {"content", system}});
  messages.push_back(JsonObject{{"role", "user"}, {"content", prompt}});
  out["messages"] = std::move(messages);
  ASSIGN_OR_RETURN(GenerationCall call,
                   Finish(Dialect::kChat, fields, std::move(out), options, ignored));
  call.dialect = Dialect::kGenerate;  // for FieldName()
  return call;
}

Result<EncodingCall> ParseEmbed(EncodingKind kind, const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  const bool old = kind == EncodingKind::kOllamaEmbeddings;
  ASSIGN_OR_RETURN(const Fields fields, Fields::Check(old ? EmbeddingsRows() : EmbedRows(), body,
                                                      "", options.strict, &ignored));
  ASSIGN_OR_RETURN(const std::optional<Duration> keep_alive, KeepAliveOf(fields));
  std::optional<int64_t> context;
  if (const Json* value = fields.Find("options")) {
    ASSIGN_OR_RETURN(const Fields checked,
                     Fields::Check(OptionRows(), *value, "options", options.strict, &ignored));
    // Here the length of the context changes an answer: longer texts are cut there.
    const Json* given = checked.Find("num_ctx");
    if (given != nullptr) context = AsInteger(*given);
    if (given != nullptr && !context.has_value()) return MustBe("options.num_ctx", "an integer");
  }
  const std::string name = old ? "prompt" : "input";
  JsonObject out;
  out["model"] = UntaggedName(fields.Text("model"));
  const Json* input = fields.Find(name);
  const bool none = input == nullptr || (input->is_string() && TextOf(*input).empty()) ||
                    (input->is_array() && input->get_array().empty());
  if (!none && !input->is_string() && !input->is_array())
    return MustBe(name, "a string or a list of strings");
  if (!none && input->is_array()) {
    for (size_t i = 0; i < input->get_array().size(); ++i) {
      const std::string param = ElementPath(name, i);
      if (!input->get_array()[i].is_string()) return MustBe(param, "a string");
    }
  }
  out["input"] = none ? Json("-") : *input;  // taken out below
  if (!old) {
    if (const auto width = fields.Int("dimensions"); width.value_or(0) > 0)
      out["dimensions"] = *width;
    out["normalize"] = true;
  }
  const bool cut = old || fields.Flag("truncate", true);
  const Json converted(std::move(out));
  ASSIGN_OR_RETURN(EncodingCall call, ParseEmbeddings(converted, options));
  call.kind = kind;
  call.input_name = name;
  call.shown_model = fields.Text("model");
  if (cut) call.request.truncation = api::Truncation::kRight;
  if (cut && context.value_or(0) > 0)
    call.request.truncate_tokens = static_cast<int>(std::min<int64_t>(*context, INT32_MAX));
  if (none) call.request.inputs.clear();
  call.request.keep_alive = keep_alive;
  call.ignored = ignored.names();
  return call;
}

Result<ShowCall> ParseShow(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const Fields fields,
                   Fields::Check(ShowRows(), body, "", options.strict, &ignored));
  ShowCall call;
  ASSIGN_OR_RETURN(call.model, ModelOf(fields));
  call.ignored = ignored.names();
  return call;
}

Result<LibraryCall> ParsePull(const Json& body, const ParseOptions& options) {
  return ParseLibrary(PullRows(), body, options);
}

Result<LibraryCall> ParseCopy(const Json& body, const ParseOptions& options) {
  return ParseLibrary(CopyRows(), body, options);
}

Result<LibraryCall> ParseDelete(const Json& body, const ParseOptions& options) {
  return ParseLibrary(DeleteRows(), body, options);
}

void WriteSchemas(JsonWriter* json) {
  constexpr MemberSchema kMembers[] = {
      {"messages", 0, R"({"type":"array","items":{"$ref":"#/components/schemas/OllamaMessage"}})"},
      {"tools", 0, R"({"type":"array","items":{"$ref":"#/components/schemas/Tool"}})"},
      {"options", 0, R"({"$ref":"#/components/schemas/OllamaOptions"})"},
      {"tool_calls", 0,
       R"({"type":"array","items":{"$ref":"#/components/schemas/OllamaToolCall"}})"},
      {"function", 0, R"({"$ref":"#/components/schemas/OllamaCalledFunction"})"},
      {"arguments", 0, R"({"type":"object"})"},
      {"input", 0, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]})"},
      {"think", 0, R"({"anyOf":[{"type":"boolean"},{"enum":["low","medium","high","max"]}]})"},
      {"keep_alive", 0, R"({"anyOf":[{"type":"string"},{"type":"number"}]})"},
  };
  const std::pair<std::string_view, const FieldRows&> kinds[] = {
      {"OllamaChatRequest", ChatRows()},      {"OllamaGenerateRequest", GenerateRows()},
      {"OllamaMessage", MessageRows()},       {"OllamaToolCall", ToolCallRows()},
      {"OllamaCalledFunction", CalledRows()}, {"OllamaOptions", OptionRows()},
      {"OllamaEmbedRequest", EmbedRows()},    {"OllamaEmbeddingsRequest", EmbeddingsRows()},
      {"OllamaShowRequest", ShowRows()},      {"OllamaPullRequest", PullRows()},
      {"OllamaCopyRequest", CopyRows()},      {"OllamaDeleteRequest", DeleteRows()}};
  for (const auto& [name, rows] : kinds) {
    json->Key(name);
    WriteObjectSchema(rows, 0, kMembers, json);
  }
}

}  // namespace tutti::protocol::ollama
