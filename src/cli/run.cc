// `tutti run`: one answer on standard output, streamed as it comes.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/names.h"
#include "api/output_parser.h"
#include "api/types.h"
#include "app/blocking_waker.h"
#include "app/loading/loading.h"
#include "app/local_inference.h"
#include "base/status.h"
#include "base/text_file.h"
#include "cli/command_line.h"
#include "cli/generation.h"
#include "cli/pull.h"
#include "protocol/json/json.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/schema.h"

namespace tutti::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;  // above what any request may hold

// The text of a file; `value` itself where it begins with one of `starts`, so that short texts need
// no file.
Result<std::string> TextOrFile(const std::string& option, const std::string& value,
                               std::string_view starts) {
  const size_t first = value.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && starts.find(value[first]) != std::string_view::npos)
    return value;
  Result<std::string> text = ReadTextFile(value, kMaxFileBytes, "invalid_value");
  if (!text.ok()) return InvalidArgument("invalid_value", option + ": " + text.status().message());
  return text;
}

// Options for constrained answers and for the functions that the model may call.
class AnswerOptions {
 public:
  // Declares --json-schema, --regex, --choice, --grammar, --tools and --tool-choice.
  void AddTo(CLI::App& command);
  // Reads the files; call it after parsing. Errors: invalid_value, and those of the fields of chat
  // completions. A grammar or schema is validated later, with the request.
  Status Read();
  // These are valid after Read().
  const std::optional<api::Constraint>& constraint() const { return constraint_; }
  bool has_tools() const { return !chat_.tools.empty(); }
  void AddTools(api::ChatPrompt* chat) const;

 private:
  Status ReadTools();

  const CLI::App* command_ = nullptr;
  std::string json_schema_, regex_, grammar_, tools_, tool_choice_;
  std::vector<std::string> choices_;
  std::optional<api::Constraint> constraint_;
  api::ChatPrompt chat_;  // only tools and tool_choice are used
};

void AnswerOptions::AddTo(CLI::App& command) {
  command_ = &command;
  CLI::Option* const schema =
      command.add_option("--json-schema", json_schema_, "JSON schema of the answer, or its file")
          ->type_name("SCHEMA|FILE");
  CLI::Option* const regex =
      command.add_option("--regex", regex_, "regular expression that matches the whole answer")
          ->type_name("PATTERN");
  CLI::Option* const choice =
      command.add_option("--choice", choices_, "a text that the answer may be; repeat it for more")
          ->type_name("TEXT")
          ->allow_extra_args(false);
  CLI::Option* const grammar =
      command.add_option("--grammar", grammar_, "file with a grammar of the answer in GBNF")
          ->type_name("FILE");
  CLI::Option* const constraints[] = {schema, regex, choice, grammar};
  for (CLI::Option* const one : constraints) {
    for (CLI::Option* const other : constraints) {
      if (one != other) one->excludes(other);
    }
  }
  CLI::Option* const tools =
      command
          .add_option("--tools", tools_,
                      "functions that the model may call, as in chat completions, or their file")
          ->type_name("LIST|FILE");
  command
      .add_option("--tool-choice", tool_choice_,
                  "auto, none, required or the name of a function [auto]")
      ->type_name("CHOICE")
      ->needs(tools);
}

Status AnswerOptions::Read() {
  using Kind = api::Constraint::Kind;
  for (const char* const option : {"--json-schema", "--regex", "--grammar", "--tools"}) {
    if (command_->count(option) > 0 && command_->get_option(option)->as<std::string>().empty())
      return InvalidArgument("invalid_value", std::string(option) + " must not be empty");
  }
  if (!json_schema_.empty()) {
    ASSIGN_OR_RETURN(std::string text, TextOrFile("--json-schema", json_schema_, "{"));
    constraint_ = {.kind = Kind::kJsonSchema, .text = std::move(text), .param = "--json-schema"};
  } else if (!regex_.empty()) {
    constraint_ = {.kind = Kind::kRegex, .text = regex_, .param = "--regex"};
  } else if (!choices_.empty()) {
    constraint_ = {.kind = Kind::kChoice, .choices = choices_, .param = "--choice"};
  } else if (!grammar_.empty()) {
    ASSIGN_OR_RETURN(std::string text, TextOrFile("--grammar", grammar_, ""));
    constraint_ = {.kind = Kind::kGrammar, .text = std::move(text), .param = "--grammar"};
  }
  return tools_.empty() ? OkStatus() : ReadTools();
}

Status AnswerOptions::ReadTools() {
  ASSIGN_OR_RETURN(const std::string text, TextOrFile("--tools", tools_, "[{"));
  Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok())
    return InvalidArgument("invalid_value", "--tools: " + document.status().message());
  const protocol::Json& root = document->root();
  protocol::JsonObject fields;
  // A request's body has its list under this name.
  const bool nested = root.is_object() && root.get_object().contains("tools");
  fields["tools"] = nested ? root.get_object().at("tools") : root;
  if (tool_choice_ == "auto" || tool_choice_ == "none" || tool_choice_ == "required") {
    fields["tool_choice"] = tool_choice_;
  } else if (!tool_choice_.empty()) {
    fields["tool_choice"] = {{"type", "function"}, {"function", {{"name", tool_choice_}}}};
  }
  protocol::IgnoredFields ignored;
  const protocol::Json body = std::move(fields);
  ASSIGN_OR_RETURN(
      const protocol::CheckedObject object,
      protocol::CheckedObject::CheckPart(protocol::kChat, body, "", /*strict=*/true, &ignored));
  return protocol::ReadTools(object, /*strict=*/true, &ignored, &chat_);
}

void AnswerOptions::AddTools(api::ChatPrompt* chat) const {
  chat->tools = chat_.tools;
  chat->tool_choice = chat_.tool_choice;
}

class RunCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("run", "Print one answer");
    app_->footer(
        "Without -p, or with -p -, the prompt is all of standard input, less a final line end.\n"
        "Examples:\n"
        "  tutti run smollm2-135m-instruct -p \"Name three rivers.\"\n"
        "  tutti run smollm2-135m-instruct --system \"Answer in French.\" -p \"Good morning!\"\n"
        "  tutti run smollm2-135m-instruct < question.txt > answer.txt\n"
        "  tutti run model.gguf --raw -p \"Once upon a time\" -n 100 --temperature 0.8 --seed 7\n"
        "  tutti run model.gguf -p \"Hi\" --json\n"
        "  tutti run model.gguf -p \"A person.\" --json-schema person.json\n"
        "  tutti run model.gguf -p \"Is it red?\" --choice yes --choice no\n"
        "  tutti run model.gguf -p \"How warm is Oslo?\" --tools tools.json --tool-choice "
        "required");
    app_->add_option("MODEL", model_, "a .gguf or packed file, a folder or a known model")
        ->check(ModelName())
        ->required();
    app_->add_option("-p,--prompt,PROMPT", prompt_,
                     "the user's message; with --raw the text to continue; - is standard input");
    CLI::Option* const system = app_->add_option("--system", system_, "system message");
    app_->add_flag("--raw", raw_, "continue the text as it is, without chat template")
        ->excludes(system);
    sampling_.AddTo(*app_);
    answer_.AddTo(*app_);
    app_->add_flag("--json", json_, "one JSON object at the end instead of the text");
    options_.AddTo(*app_, app::OptionGroup::kModel);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.PrintedConfig(*settings, /*with_server_options=*/false)) return kExitOk;
    if (const Status status = sampling_.Check(); !status.ok()) return FailConfig(status);
    if (const Status status = answer_.Read(); !status.ok()) return FailConfig(status);
    if (raw_ && answer_.has_tools()) {
      return FailConfig(
          InvalidArgument("invalid_value", "--tools needs the chat template; leave --raw out"));
    }
    if (raw_ && !sampling_.template_arguments().empty()) {
      return FailConfig(InvalidArgument(
          "invalid_value", "--chat-template-kwargs has no effect with --raw; leave one out"));
    }
    const Result<app::ModelRef> ref = FindModel(*settings, model_);
    if (!ref.ok()) return Fail(ref.status());
    if (prompt_ == "-" || app_->count("--prompt") == 0) {
      if (const int status = ReadPrompt(); status != kExitOk) return status;
    }
    app::LocalInference inference(*settings, nullptr);
    Result<app::OpenedModel> opened = app::OpenOne(inference, *ref);
    if (!opened.ok()) return Fail(opened.status());
    const Status fits = raw_ ? app::MustGenerate(*opened, *ref) : app::MustChat(*opened, *ref);
    if (!fits.ok()) return Fail(fits);
    if (const Status status = inference.Load(*std::move(opened)); !status.ok()) return Fail(status);
    return Answer(inference.gateway());
  }

 private:
  // The prompt from standard input; an exit status.
  int ReadPrompt() {
    constexpr size_t kMaxBytes = size_t{16} << 20;  // above what fits into the longest context
    const bool asked = prompt_ == "-";
    prompt_.clear();
    if (!asked && isatty(STDIN_FILENO) == 1) {
      std::fputs("tutti: no prompt: give it with -p TEXT, or on standard input\n", stderr);
      return kExitUsage;
    }
    std::array<char, 65536> buffer;
    while (std::feof(stdin) == 0) {  // at a terminal a second look would ask for a second Ctrl-D
      const size_t got = std::fread(buffer.data(), 1, buffer.size(), stdin);
      prompt_.append(buffer.data(), got);
      if (std::ferror(stdin) != 0) break;
      if (prompt_.size() > kMaxBytes) {
        return FailConfig(
            InvalidArgument("invalid_value", "the prompt on standard input is longer than 16 MiB"));
      }
    }
    if (std::ferror(stdin) != 0) {
      return Fail(Unavailable("io_error",
                              std::string("cannot read standard input: ") + std::strerror(errno)));
    }
    if (prompt_.ends_with("\r\n")) {
      prompt_.resize(prompt_.size() - 2);
    } else if (prompt_.ends_with('\n')) {
      prompt_.pop_back();
    }
    if (!prompt_.empty()) return kExitOk;
    std::fputs("tutti: no prompt: standard input is empty, and -p TEXT was not given\n", stderr);
    return kExitUsage;
  }

  int Answer(api::Inference& inference) {
    api::GenerateRequest request;
    if (raw_) {
      request.prompt = api::TextPrompt{.text = prompt_};
    } else {
      api::ChatPrompt chat;
      if (!system_.empty()) chat.messages.push_back({api::Role::kSystem, system_, ""});
      chat.messages.push_back({api::Role::kUser, prompt_, ""});
      chat.template_arguments = sampling_.template_arguments();
      answer_.AddTools(&chat);
      request.prompt = std::move(chat);
    }
    request.sampling = sampling_.Params(inference.Models().front().sampling);
    request.constraint = answer_.constraint();

    auto waker = std::make_shared<app::BlockingWaker>();
    Result<api::Generation> generation = inference.Generate(std::move(request), waker);
    if (!generation.ok()) return Fail(generation.status());
    std::string text, reasoning;
    std::vector<api::ToolCall> calls;
    api::FinishReason finish = api::FinishReason::kStop;
    api::Usage usage;
    api::Timings timings;
    while (const api::StreamEvent* event = waker->Next(*generation)) {
      if (event->kind == api::StreamEvent::Kind::kChoiceEnd) finish = event->finish_reason;
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        usage = event->usage;
        timings = event->timings;
      }
      api::AddCallDeltas(event->tool_calls, &calls);
      if (json_) {
        text += event->text;
        reasoning += event->reasoning;
      } else {
        thoughts_.Show(event->reasoning);
        if (!event->text.empty()) thoughts_.End();
        std::fwrite(event->text.data(), 1, event->text.size(), stdout);
        text_ends_line_ = event->text.empty() ? text_ends_line_ : event->text.ends_with('\n');
        // The reader closed the pipe; SIGPIPE, which usually ends the program then, may be ignored.
        if (std::fflush(stdout) != 0) {
          std::clearerr(stdout);  // reported below
          return errno == EPIPE ? kExitOk
                                : Fail(Unavailable("io_error", "the answer cannot be written"));
        }
      }
    }
    if (const Status& status = generation->stream().status(); !status.ok()) return Fail(status);
    if (!json_) {
      thoughts_.End();
      // One line for each call, behind the text if there is any.
      if (calls.empty() || !text_ends_line_) std::fputc('\n', stdout);
      for (const api::ToolCall& call : calls)
        std::printf("%s\n", protocol::PrintJson(JsonOf(call)).c_str());
      std::fflush(stdout);  // before what follows, where both streams go to one file
      if (finish == api::FinishReason::kLength) {
        std::fprintf(stderr, "tutti: cut after %d tokens\n", usage.completion_tokens);
      }
      return kExitOk;
    }
    boost::json::object out{{"schema", "tutti.run.v1"},
                            {"text", text},
                            {"finish_reason", api::FinishReasonName(finish)},
                            {"prompt_tokens", usage.prompt_tokens},
                            {"completion_tokens", usage.completion_tokens},
                            {"prefill_ms", ToMillis(timings.prefill)},
                            {"decode_ms", ToMillis(timings.decode)}};
    if (!reasoning.empty()) out["reasoning"] = reasoning;
    if (answer_.has_tools()) {
      boost::json::array& list = out["tool_calls"].emplace_array();
      for (const api::ToolCall& call : calls) list.push_back(JsonOf(call));
    }
    std::printf("%s\n", protocol::PrintJson(out).c_str());
    return kExitOk;
  }

  // {"name": ..., "arguments": {...}}. The arguments of a call that its length cut are no JSON:
  // they stay a text.
  static boost::json::object JsonOf(const api::ToolCall& call) {
    const Result<protocol::JsonDocument> arguments = protocol::ParseJson(call.arguments);
    boost::json::object out{{"name", call.name}};
    if (arguments.ok()) {
      out["arguments"] = arguments->root();
    } else {
      out["arguments"] = call.arguments;
    }
    return out;
  }

  SettingsOptions options_;
  SamplingOptions sampling_{0};
  AnswerOptions answer_;
  std::string model_, prompt_, system_;
  bool raw_ = false, json_ = false;
  ReasoningDisplay thoughts_;
  bool text_ends_line_ = true;  // what was printed so far
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace tutti::cli
