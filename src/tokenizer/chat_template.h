// ChatTemplate: turns a chat into the prompt its model was trained on, by the template in the
// model's file.
//
// The template is a program from an untrusted file, run on input from untrusted clients, so the
// language is a bounded subset of Jinja (jinja/README.md): no attribute walk, no I/O, no code
// outside this folder, and every render is limited in steps, depth, memory and output. It renders
// as transformers' apply_chat_template does.
//
// The origin of every byte of the result is recorded. Text that the template wrote is `trusted` and
// may contain control tokens; text of the request is not, and must be tokenised as plain text.
//
// Immutable after Compile: Render may be called from any thread, any number at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer {

// Control tokens as text, from the model file. Empty: the file names none, and the template sees
// "".
struct SpecialTokens {
  std::string bos{};
  std::string eos{};
  std::string unk{};
  std::string pad{};
};

struct ChatMessage {
  std::string role{};      // trusted only when it is one of the known roles
  jinja::Value content{};  // string; none; a list of parts; undefined = no such key
  std::string name{};      // empty = no such key
  std::string tool_call_id{};
  // [{id, type, function: {name, arguments}}] with `arguments` as a dict (parse the client's JSON
  // text first: jinja::ParseJson); undefined = no such key.
  jinja::Value tool_calls{};
  // Further keys the template may read ("reasoning_content", ...).
  std::vector<std::pair<std::string, jinja::Value>> extra{};
};

struct ChatInput {
  std::vector<ChatMessage> messages{};
  jinja::Value tools{};  // list of {type, function: {...}}; undefined or none = no tools
  bool add_generation_prompt = true;
  // Ends the prompt inside the last message, so that the model continues it. Turns
  // add_generation_prompt off.
  bool continue_final_message = false;
  // chat_template_kwargs. Render refuses a key the template does not read, or one that Render
  // itself sets.
  std::vector<std::pair<std::string, jinja::Value>> extra{};
};

struct RenderOptions {
  int64_t now_unix_s =
      0;  // what strftime_now shows, in UTC; the caller's clock, so that renders are reproducible
  uint64_t max_steps = 2'000'000;  // template_step_limit beyond (about 0.1 s); also pays for copied
                                   // bytes (64 a step)
  size_t max_output_bytes = size_t{8} << 20;  // template_output beyond
  size_t max_live_bytes = size_t{64}
                          << 20;  // intermediate values alive at once; template_output beyond
};

struct PromptSegment {
  std::string text;  // never empty
  bool trusted;      // control tokens spelled in `text` are meant as such
  friend bool operator==(const PromptSegment&, const PromptSegment&) = default;
};

// Adjacent segments differ in `trusted`. The concatenation is the prompt, BOS included where the
// template writes it: the tokenizer must not add one.
struct RenderedPrompt {
  std::vector<PromptSegment> segments;
  std::string Text() const;
};

class ChatTemplate {
 public:
  // Errors: tokenizer_invalid (not a template; the message holds the line), tokenizer_unsupported
  // (include, import and other parts of Jinja left out), tokenizer_limit (source too long),
  // template_depth.
  static Result<ChatTemplate> Compile(std::string source, SpecialTokens tokens);

  // Errors, all kInvalidArgument: template_step_limit, template_depth, template_output;
  // invalid_value (param "messages": the template refused the chat or cannot handle it; the message
  // holds the line); unsupported_parameter (param "chat_template_kwargs.KEY").
  Result<RenderedPrompt> Render(const ChatInput& input, const RenderOptions& options) const;

  // How the template reads the content of a message of `role`: a text, either a text or a list of
  // parts, or parts only (a text would be lost). Found by rendering small chats at Compile.
  enum class ContentForm : uint8_t { kText, kEither, kParts };
  ContentForm content_form(std::string_view role) const;

  // True if the template reads this variable from outside: "tools", "enable_thinking", ...
  bool Reads(std::string_view variable) const;
  // True if `variable` may be given in ChatInput::extra: the template reads it from outside before
  // it sets it.
  bool AcceptsExtra(std::string_view variable) const;
  const std::string& source() const;
  // Legal but suspicious places that the compiler found: "line 3: unknown filter 'from_json' fails
  // when reached".
  const std::vector<std::string>& warnings() const;

 private:
  struct Compiled;
  explicit ChatTemplate(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

// Returns the text that a chat template writes after an assistant's message, without leading white
// space. It shows how the model ends a turn, independently of the end tokens that the file states.
// Empty if the template writes nothing there or cannot be rendered. Pure; any thread.
std::string TextBehindAnswer(std::string source, SpecialTokens tokens);

}  // namespace tutti::tokenizer
