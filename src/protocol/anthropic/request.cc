#include "protocol/anthropic/request.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "api/validate.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/json/text_content.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/sampling_fields.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

// Anthropic's default effort: a request that names it asks for nothing.
constexpr std::string_view kUsualEffort = "high";

// The content of one message, in blocks of any type; text parts are not joined yet.
struct BlockContent {
  std::vector<std::string> texts;
  std::vector<std::string> thoughts;
  std::vector<api::ToolCall> calls;            // of the assistant
  std::vector<api::ChatMessage> tool_results;  // of the user, as messages of role tool
};

// Reads the messages of one body in their order. Used once.
class DialogReader {
 public:
  DialogReader(bool strict, IgnoredFields* ignored) : strict_(strict), ignored_(ignored) {}

  Status ReadSystem(const Json& value) {
    ASSIGN_OR_RETURN(TextContent text, ReadTexts(value, "system"));
    // Absent and empty are the same to Anthropic's models.
    if (text.text.empty()) return OkStatus();
    StartTurn(api::Role::kSystem).text = std::move(text);
    return OkStatus();
  }

  Status ReadMessages(const JsonArray& messages) {
    for (size_t i = 0; i < messages.size(); ++i)
      RETURN_IF_ERROR(ReadMessage(messages[i], ElementPath("messages", i)));
    if (turns_.back().message.role == api::Role::kAssistant &&
        !turns_.back().message.tool_calls.empty()) {
      const std::string path = ElementPath("messages", messages.size() - 1) + ".content";
      return BadValue(path, path + " ends with tool_use; add a user message with its tool_result");
    }
    return OkStatus();
  }

  // A last message of the assistant's is the beginning of the answer.
  api::ChatPrompt TakeChat() {
    api::ChatPrompt chat;
    for (Turn& turn : turns_) {
      if (!turn.finished) {
        turn.message.content = std::move(turn.text.text);
        turn.message.part_ends = std::move(turn.text.part_ends);
      }
      chat.messages.push_back(std::move(turn.message));
    }
    chat.continue_final_message = chat.messages.back().role == api::Role::kAssistant;
    chat.add_generation_prompt = !chat.continue_final_message;
    return chat;
  }

 private:
  struct Turn {
    api::ChatMessage message;
    TextContent text;       // becomes the message's content
    bool finished = false;  // the message has its content already; nothing is joined to it
  };

  Turn& StartTurn(api::Role role) {
    Turn& turn = turns_.emplace_back();
    turn.message.role = role;
    return turn;
  }

  // The turn that content of `role` belongs to: templates want the roles to alternate.
  Turn& TurnOf(api::Role role) {
    const bool goes_on =
        !turns_.empty() && turns_.back().message.role == role && !turns_.back().finished;
    return goes_on ? turns_.back() : StartTurn(role);
  }

  Status ReadMessage(const Json& value, const std::string& path) {
    ASSIGN_OR_RETURN(const CheckedObject object,
                     CheckedObject::Check(kMessagesTurn, value, path, strict_, ignored_));
    const std::string role = *object.Text("role");
    if (role == "system") {
      ASSIGN_OR_RETURN(TextContent text, ReadTexts(*object.Find("content"), path + ".content"));
      StartTurn(api::Role::kSystem).text = std::move(text);
      return OkStatus();
    }
    const bool assistant = role == "assistant";
    ASSIGN_OR_RETURN(BlockContent content,
                     ReadContent(*object.Find("content"), path + ".content", assistant));
    const bool only_results = !content.tool_results.empty() && content.texts.empty();
    for (api::ChatMessage& result : content.tool_results) {
      Turn& turn = StartTurn(api::Role::kTool);
      turn.message = std::move(result);
      turn.finished = true;
    }
    if (only_results) return OkStatus();
    Turn& turn = TurnOf(assistant ? api::Role::kAssistant : api::Role::kUser);
    for (const std::string& text : content.texts) turn.text.Append(text);
    for (api::ToolCall& call : content.calls) turn.message.tool_calls.push_back(std::move(call));
    for (const std::string& thought : content.thoughts) {
      if (!turn.message.reasoning.empty()) turn.message.reasoning += '\n';
      turn.message.reasoning += thought;
    }
    return OkStatus();
  }

  Result<BlockContent> ReadContent(const Json& value, const std::string& path, bool assistant) {
    BlockContent content;
    if (value.is_string()) {
      content.texts.emplace_back(TextOf(value));
      return content;
    }
    if (!value.is_array()) return MustBe(path, "a string or a list of content blocks");
    if (value.get_array().empty()) return MustBe(path, "a list of at least one content block");
    for (size_t i = 0; i < value.get_array().size(); ++i) {
      RETURN_IF_ERROR(ReadBlock(value.get_array()[i], ElementPath(path, i), assistant, &content));
    }
    return content;
  }

  Status ReadBlock(const Json& value, const std::string& path, bool assistant,
                   BlockContent* content) {
    ASSIGN_OR_RETURN(const std::string_view type, CheckType(value, path));
    const bool of_assistant =
        type == "tool_use" || type == "thinking" || type == "redacted_thinking";
    if (type != "text" && of_assistant != assistant) {
      return BadValue(path + ".type", path + " is of type " + std::string(type) +
                                          ", which messages of role " +
                                          (assistant ? "assistant" : "user") + " do not have");
    }
    ASSIGN_OR_RETURN(const CheckedObject block,
                     CheckedObject::Check(kContentBlock, value, path, strict_, ignored_));
    if (type == "text") {
      ASSIGN_OR_RETURN(content->texts.emplace_back(), RequiredText(block, "text"));
    } else if (type == "thinking") {
      ASSIGN_OR_RETURN(content->thoughts.emplace_back(), RequiredText(block, "thinking"));
    } else if (type == "tool_use") {
      ASSIGN_OR_RETURN(api::ToolCall call, ReadToolUse(block));
      content->calls.push_back(std::move(call));
    } else if (type == "tool_result") {
      ASSIGN_OR_RETURN(api::ChatMessage result, ReadToolResult(block));
      content->tool_results.push_back(std::move(result));
    }  // redacted_thinking can be read by its maker alone
    return OkStatus();
  }

  // Checked before the schema, so that an image block is refused as such, not for its source field.
  static Result<std::string_view> CheckType(const Json& value, const std::string& path) {
    if (!value.is_object()) return MustBe(path, "a content block: an object with a type");
    const Json* type = value.get_object().if_contains("type");
    if (type == nullptr || type->is_null()) return IsMissing(path + ".type");
    if (!type->is_string()) return MustBe(path + ".type", "a string");
    for (const std::string_view known :
         {"text", "tool_use", "tool_result", "thinking", "redacted_thinking"}) {
      if (TextOf(*type) == known) return known;
    }
    return NotSupported(path, path + " is of type " + Excerpt(TextOf(*type)) +
                                  "; use text, tool_use, tool_result or thinking");
  }

  static Result<std::string> RequiredText(const CheckedObject& block, const char* name) {
    std::optional<std::string> text = block.Text(name);
    if (!text.has_value()) return IsMissing(block.Param(name));
    return *std::move(text);
  }

  static Result<api::ToolCall> ReadToolUse(const CheckedObject& block) {
    api::ToolCall call;
    ASSIGN_OR_RETURN(call.id, RequiredText(block, "id"));
    ASSIGN_OR_RETURN(call.name, RequiredText(block, "name"));
    const Json* input = block.Find("input");
    if (input == nullptr) return IsMissing(block.Param("input"));
    if (!input->is_object()) return MustBe(block.Param("input"), "an object");
    call.arguments = PrintJson(*input);
    return call;
  }

  Result<api::ChatMessage> ReadToolResult(const CheckedObject& block) {
    api::ChatMessage result;
    result.role = api::Role::kTool;
    ASSIGN_OR_RETURN(result.tool_call_id, RequiredText(block, "tool_use_id"));
    const Json* content = block.Find("content");
    if (content == nullptr) return result;
    ASSIGN_OR_RETURN(TextContent text, ReadTexts(*content, block.Param("content")));
    result.content = std::move(text.text);
    result.part_ends = std::move(text.part_ends);
    return result;
  }

  // A string, or a list of text blocks.
  Result<TextContent> ReadTexts(const Json& value, const std::string& path) {
    TextContent text;
    if (value.is_string()) {
      text.Append(TextOf(value));
      return text;
    }
    if (!value.is_array()) return MustBe(path, "a string or a list of text blocks");
    for (size_t i = 0; i < value.get_array().size(); ++i) {
      const Json& element = value.get_array()[i];
      const std::string each = ElementPath(path, i);
      ASSIGN_OR_RETURN(const std::string_view type, CheckType(element, each));
      if (type != "text") return MustBe(each, "a text block");
      ASSIGN_OR_RETURN(const CheckedObject block,
                       CheckedObject::Check(kContentBlock, element, each, strict_, ignored_));
      ASSIGN_OR_RETURN(const std::string part, RequiredText(block, "text"));
      text.Append(part);
    }
    return text;
  }

  const bool strict_;
  IgnoredFields* const ignored_;
  std::vector<Turn> turns_;
};

Result<api::Tool> ReadTool(const Json& value, const std::string& path, bool strict,
                           IgnoredFields* ignored) {
  // Tools that Anthropic's servers run, and its own definitions of a client's, have a dated type
  // and no schema.
  const Json* type = value.is_object() ? value.get_object().if_contains("type") : nullptr;
  if (type != nullptr && type->is_string() && TextOf(*type) != "custom") {
    return NotSupported(path, path + " is of type " + Excerpt(TextOf(*type)) +
                                  "; define a tool with name and input_schema");
  }
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kMessagesTool, value, path, strict, ignored));
  api::Tool tool;
  tool.name = *object.Text("name");
  if (!api::IsToolName(tool.name))
    return MustBe(path + ".name", "1 to 64 of letters, digits, _, . and -");
  tool.description = object.Text("description").value_or("");
  tool.parameters = PrintJson(*object.Find("input_schema"));
  tool.strict = object.Bool("strict").value_or(false);
  tool.param = path;
  tool.schema_field = "input_schema";
  return tool;
}

Status ReadToolChoice(const Json& value, bool strict, IgnoredFields* ignored,
                      api::ChatPrompt* chat) {
  using Kind = api::ToolChoice::Kind;
  ASSIGN_OR_RETURN(
      const CheckedObject object,
      CheckedObject::Check(kMessagesToolChoice, value, "tool_choice", strict, ignored));
  const std::string type = *object.Text("type");
  chat->parallel_tool_calls = !object.Bool("disable_parallel_tool_use").value_or(false);
  if (type == "none") chat->tool_choice.kind = Kind::kNone;
  if (type == "any") chat->tool_choice.kind = Kind::kRequired;
  if (type == "tool") {
    chat->tool_choice.kind = Kind::kNamed;
    chat->tool_choice.name = object.Text("name").value_or("");
    if (chat->tool_choice.name.empty()) return IsMissing("tool_choice.name");
  }
  if ((type == "any" || type == "tool") && chat->tools.empty())
    return BadValue("tool_choice", "tool_choice " + type + " needs tools");
  const bool known = type != "tool" || std::any_of(chat->tools.begin(), chat->tools.end(),
                                                   [&](const api::Tool& tool) {
                                                     return tool.name == chat->tool_choice.name;
                                                   });
  if (!known) return BadValue("tool_choice.name", "tool_choice.name is not the name of a tool");
  return OkStatus();
}

// Whether thinking is requested; nullopt: the model's default.
Result<std::optional<bool>> ReadThinking(const CheckedObject& object, bool strict,
                                         IgnoredFields* ignored) {
  const Json* value = object.Find("thinking");
  if (value == nullptr) return std::optional<bool>();
  ASSIGN_OR_RETURN(const CheckedObject thinking,
                   CheckedObject::Check(kThinkingOptions, *value, "thinking", strict, ignored));
  const std::string type = *thinking.Text("type");
  if (type == "adaptive") return std::optional<bool>();
  return std::optional<bool>(type == "enabled");
}

// Tokens of thinking at most; `thinking` was checked before.
std::optional<int> ThinkingBudget(const CheckedObject& object) {
  const Json* thinking = object.Find("thinking");
  const Json* budget =
      thinking == nullptr ? nullptr : thinking->get_object().if_contains("budget_tokens");
  if (budget == nullptr || !budget->is_number()) return std::nullopt;
  return static_cast<int>(budget->to_number<int64_t>());
}

Result<std::string> ReadEffort(const CheckedObject& object, bool strict, IgnoredFields* ignored) {
  const Json* value = object.Find("output_config");
  if (value == nullptr) return std::string();
  ASSIGN_OR_RETURN(const CheckedObject config,
                   CheckedObject::Check(kOutputConfig, *value, "output_config", strict, ignored));
  const std::string effort = config.Text("effort").value_or("");
  return effort == kUsualEffort ? std::string() : effort;
}

// The members that both routes have. `object` has been checked against a scope of kAnthropic.
Result<api::ChatPrompt> ReadChat(const CheckedObject& object, bool strict, IgnoredFields* ignored) {
  DialogReader reader(strict, ignored);
  if (const Json* system = object.Find("system"); system != nullptr)
    RETURN_IF_ERROR(reader.ReadSystem(*system));
  RETURN_IF_ERROR(reader.ReadMessages(object.Find("messages")->get_array()));
  api::ChatPrompt chat = reader.TakeChat();
  if (const Json* tools = object.Find("tools"); tools != nullptr) {
    for (size_t i = 0; i < tools->get_array().size(); ++i) {
      ASSIGN_OR_RETURN(api::Tool tool,
                       ReadTool(tools->get_array()[i], ElementPath("tools", i), strict, ignored));
      chat.tools.push_back(std::move(tool));
    }
  }
  if (const Json* choice = object.Find("tool_choice"); choice != nullptr)
    RETURN_IF_ERROR(ReadToolChoice(*choice, strict, ignored, &chat));
  ASSIGN_OR_RETURN(const std::optional<bool> thinking, ReadThinking(object, strict, ignored));
  ASSIGN_OR_RETURN(const std::string effort, ReadEffort(object, strict, ignored));
  ASSIGN_OR_RETURN(chat.template_arguments, ReadTemplateArguments(object, effort, thinking));
  return chat;
}

// The text of stop_sequences; `stop` is the name that this server's other routes have for it.
Status ReadStops(const CheckedObject& object, api::SamplingParams* params) {
  if (!object.Has("stop_sequences")) return OkStatus();
  if (object.Has("stop")) return BadValue("stop", "stop and stop_sequences exclude each other");
  params->stop = object.Strings("stop_sequences");
  return OkStatus();
}

// The caller's own user, for the ledger: Anthropic's metadata.user_id, or OpenAI's user.
Result<std::string> ReadUser(const CheckedObject& object, bool strict, IgnoredFields* ignored) {
  std::string user = object.Text("user").value_or("");
  const Json* value = object.Find("metadata");
  if (value == nullptr) return user;
  ASSIGN_OR_RETURN(const CheckedObject metadata,
                   CheckedObject::Check(kRequestMetadata, *value, "metadata", strict, ignored));
  return metadata.Text("user_id").value_or(std::move(user));
}

}  // namespace

Result<GenerationCall> ParseMessages(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kMessages, body, "", options.strict, &ignored));
  GenerationCall call;
  call.dialect = Dialect::kChat;
  call.model = *object.Text("model");
  call.stream = object.Bool("stream").value_or(false);

  api::GenerateRequest request;
  request.model = call.model;
  ReadSampling(object, &request.sampling);
  RETURN_IF_ERROR(ReadStops(object, &request.sampling));
  RETURN_IF_ERROR(SetLengths(object, object.Int("max_tokens"), "max_tokens", &request.sampling));
  ASSIGN_OR_RETURN(request.constraint, ReadConstraint(object));
  call.skip_special_tokens = request.sampling.skip_special_tokens;

  ASSIGN_OR_RETURN(Placement placement, ReadPlacement(object, options));
  call.service_tier = placement.priority == api::Priority::kFlex ? "flex" : "standard";
  request.priority = placement.priority;
  request.request_id = std::move(placement.request_id);
  request.deadline = placement.deadline;
  request.cache_salt = object.Text("cache_salt").value_or("");
  request.use_prefix_cache = object.Text("cache").value_or("auto") != "bypass";
  request.explain_prefix = object.Bool("explain_cache").value_or(false);
  ASSIGN_OR_RETURN(request.user, ReadUser(object, options.strict, &ignored));

  ASSIGN_OR_RETURN(api::ChatPrompt chat, ReadChat(object, options.strict, &ignored));
  request.max_reasoning_tokens = ThinkingBudget(object);
  request.prompt = std::move(chat);
  call.requests.push_back(std::move(request));
  call.ignored = ignored.names();
  return call;
}

Result<CountTokensCall> ParseCountTokens(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kCountTokens, body, "", options.strict, &ignored));
  CountTokensCall call;
  call.request.model = *object.Text("model");
  ASSIGN_OR_RETURN(api::ChatPrompt chat, ReadChat(object, options.strict, &ignored));
  call.request.prompt = std::move(chat);
  call.ignored = ignored.names();
  return call;
}

std::string CountTokensBody(const api::TokenizeResult& result) {
  return JsonWriter()
      .BeginObject()
      .Member("input_tokens", static_cast<int64_t>(result.tokens.size()))
      .EndObject()
      .Take();
}

}  // namespace tutti::protocol
