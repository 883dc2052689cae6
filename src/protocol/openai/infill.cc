#include "protocol/openai/infill.h"

#include <array>
#include <string_view>
#include <utility>

#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

// The fields of /infill by the names that the inference API has for them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kInfillNames = {
    {{"prompt", "input_prefix"},
     {"suffix", "input_suffix"},
     {"files", "input_extra"},
     {"max_tokens", "n_predict"}}};

// {"filename": text, "text": text}; editors add the time at which they took it.
Result<api::ContextFile> ReadContextFile(const Json& value, const std::string& path, bool strict,
                                         IgnoredFields* ignored) {
  if (!value.is_object()) return MustBe(path, "an object with text");
  api::ContextFile file;
  bool has_text = false;
  for (const auto& member : value.get_object()) {
    const std::string name(member.key().data(), member.key().size());
    const std::string param = path + "." + name;
    if (name != "filename" && name != "text") {
      if (strict) {
        const std::string shown = Excerpt(param);
        return InvalidArgument("unknown_parameter", "unknown field " + shown).WithParam(shown);
      }
      ignored->Add(param);
      continue;
    }
    if (member.value().is_null()) continue;
    if (!member.value().is_string()) return MustBe(param, "a string");
    (name == "text" ? file.text : file.name) = TextOf(member.value());
    has_text = has_text || name == "text";
  }
  if (!has_text) {
    return IsMissing(path + ".text", path + ".text is missing");
  }
  return file;
}

class InfillWriter final : public ResponseWriter {
 public:
  InfillWriter(const GenerationCall& call, ResponseHead head)
      : call_(call), head_(std::move(head)) {}

  void OnEvent(int, const api::StreamEvent& event, std::string* out) override {
    switch (event.kind) {
      case api::StreamEvent::Kind::kStarted:
        evaluated_ = event.usage.prompt_tokens;
        return;
      case api::StreamEvent::Kind::kPromptToken:
        return;
      case api::StreamEvent::Kind::kToken:
        ++predicted_;
        return AddText(event.text, out);
      case api::StreamEvent::Kind::kChoiceEnd:
        end_ = event;
        return AddText(event.text, out);
      case api::StreamEvent::Kind::kEnd:
        usage_ = event.usage;
        timings_ = event.timings;
        return;
    }
  }

  void OnDone(std::string* out) override {
    if (call_.stream) *out += "data: ";
    JsonWriter json(out);
    json.BeginObject().Member("index", 0).Member("content", text_).Member("stop", true);
    const int predicted = call_.prompt_only ? 0 : usage_.completion_tokens;
    json.Member("model", head_.model).Member("tokens_predicted", predicted);
    json.Member("tokens_evaluated", usage_.prompt_tokens).Member("has_new_line", has_new_line_);
    json.Member("truncated", false);  // what does not fit is refused
    const auto* const word = std::get_if<std::string>(&end_.stop_reason);
    const bool cut = call_.prompt_only || end_.finish_reason == api::FinishReason::kLength;
    json.Member("stop_type", cut ? "limit" : word != nullptr ? "word" : "eos");
    json.Member("stopping_word", !cut && word != nullptr ? *word : std::string());
    json.Member("tokens_cached", usage_.prompt_tokens + predicted).Key("timings");
    WriteTimings(usage_, timings_, &json);
    json.EndObject();
    if (call_.stream) *out += "\n\n";
  }

  void OnError(const ErrorView& error, std::string* out) override {
    *out += "data: " + ErrorBody(error) + "\n\n";
  }

 private:
  void AddText(const std::string& text, std::string* out) {
    if (call_.prompt_only) return;
    has_new_line_ = has_new_line_ || text.find('\n') != std::string::npos;
    if (!call_.stream) {
      text_ += text;
      return;
    }
    if (text.empty()) return;
    *out += "data: ";
    JsonWriter json(out);
    json.BeginObject().Member("index", 0).Member("content", text).Member("stop", false);
    json.Member("tokens_predicted", predicted_).Member("tokens_evaluated", evaluated_).EndObject();
    *out += "\n\n";
  }

  const GenerationCall& call_;
  const ResponseHead head_;
  std::string text_;  // empty of a stream, whose events have had it
  bool has_new_line_ = false;
  int predicted_ = 0, evaluated_ = 0;  // tokens so far
  api::StreamEvent end_;
  api::Usage usage_;
  api::Timings timings_;
};

}  // namespace

Result<api::TextPrompt> ReadInfillPrompt(const CheckedObject& object, bool strict,
                                         IgnoredFields* ignored) {
  api::TextPrompt prompt;
  prompt.text = *object.Text("input_prefix") + object.Text("prompt").value_or("");
  prompt.suffix = *object.Text("input_suffix");
  if (const Json* const files = object.Find("input_extra"); files != nullptr) {
    for (size_t i = 0; i < files->get_array().size(); ++i) {
      ASSIGN_OR_RETURN(
          api::ContextFile file,
          ReadContextFile(files->get_array()[i], ElementPath("input_extra", i), strict, ignored));
      prompt.files.push_back(std::move(file));
    }
  }
  if (prompt.text.empty() && prompt.suffix->empty() && prompt.files.empty()) {
    return InvalidArgument("empty_prompt", "input_prefix and input_suffix are both empty")
        .WithParam("input_prefix");
  }
  return prompt;
}

std::string InfillParam(std::string param) {
  for (const auto& [other, name] : kInfillNames) {
    if (param == other) return std::string(name);
  }
  return param;
}

std::unique_ptr<ResponseWriter> MakeInfillWriter(const GenerationCall& call, ResponseHead head) {
  return std::make_unique<InfillWriter>(call, std::move(head));
}

}  // namespace tutti::protocol
