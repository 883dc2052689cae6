// `tutti chat`: a conversation in the terminal. Ctrl-C stops the answer, not the program.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <string>

#include "app/blocking_waker.h"
#include "app/local_inference.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/sampling_options.h"

namespace tutti::cli {
namespace {

std::atomic<bool> interrupted{false};  // a signal handler has nowhere else to write
static_assert(std::atomic<bool>::is_always_lock_free);

// While it lives the first SIGINT only sets `interrupted`; a second one, and all other signals, end
// the program as ever.
class InterruptScope {
 public:
  InterruptScope() {
    interrupted.store(false);
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptScope() { sigaction(SIGINT, &before_, nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_ {};
};

class ChatCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("chat", "Talk to a model in the terminal");
    app_->footer(
        "In the chat: /clear forgets the conversation, /history shows it, /exit or Ctrl-D ends.\n"
        "Ctrl-C stops the answer that is being written.\n"
        "Examples:\n"
        "  tutti chat\n"
        "  tutti chat smollm2-135m-instruct --system \"You answer in one sentence.\"\n"
        "  tutti chat model.gguf --temperature 0.9 --top-p 0.95 --seed 7 -n 200");
    app_->add_option("MODEL", model_,
                     "a .gguf file or a known model (default: smollm2-135m-instruct)");
    app_->add_option("--system", system_, "system message");
    sampling_.AddTo(*app_);
    options_.AddTo(*app_, /*server=*/false);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.print_config()) {
      std::fputs(settings->Print(/*with_server_options=*/false).c_str(), stdout);
      return kExitOk;
    }
    if (const Status status = sampling_.Check(); !status.ok()) return FailConfig(status);
    const Result<app::ModelRef> ref = app::ResolveModel(model_);
    if (!ref.ok()) return Fail(ref.status());
    app::LocalInference inference(*settings, nullptr);
    Result<app::OpenedModel> opened = inference.Open(*ref);
    if (!opened.ok()) return Fail(std::move(opened).status().WithContext(ref->path));
    const std::string summary = opened->summary();
    if (const Status status = inference.Load(*std::move(opened)); !status.ok()) return Fail(status);
    std::printf("%s: %s\n/clear, /history, /exit; Ctrl-C stops an answer\n",
                ref->served_name.c_str(), summary.c_str());
    Forget();
    std::string line;
    while (ReadLine(line)) {
      if (line.empty()) continue;
      if (line == "/exit" || line == "/quit") break;
      if (line == "/clear") {
        Forget();
        std::printf("(forgotten)\n");
      } else if (line == "/history") {
        ShowHistory();
      } else if (line.front() == '/') {
        std::printf("(unknown command; /clear, /history, /exit)\n");
      } else {
        Turn(inference.gateway(), line);
      }
    }
    std::printf("\n");
    return kExitOk;
  }

 private:
  void Forget() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({api::Role::kSystem, system_, ""});
  }

  bool ReadLine(std::string& line) {
    std::printf("> ");
    std::fflush(stdout);
    return static_cast<bool>(std::getline(std::cin, line));
  }

  void ShowHistory() const {
    for (const api::ChatMessage& message : messages_) {
      const char* who = message.role == api::Role::kUser        ? "you"
                        : message.role == api::Role::kAssistant ? "model"
                                                                : "system";
      std::printf("%s: %s\n", who, message.content.c_str());
    }
  }

  void Turn(api::Inference& inference, const std::string& line) {
    messages_.push_back({api::Role::kUser, line, ""});
    api::GenerateRequest request;
    request.prompt = api::ChatPrompt{.messages = messages_};
    request.sampling = sampling_.Params();
    auto waker = std::make_shared<app::BlockingWaker>();
    Result<api::Generation> generation = inference.Generate(std::move(request), waker);
    if (!generation.ok()) {
      std::printf("(%s)\n", generation.status().message().c_str());
      messages_.pop_back();
      return;
    }
    std::string answer;
    bool stopped = false;
    const InterruptScope scope;  // between answers Ctrl-C has nothing to stop and ends the program
    while (!generation->stream().ended() || generation->stream().size() > 0) {
      const api::StreamEvent* event = waker->Next(*generation, std::chrono::milliseconds(50));
      if (!stopped && interrupted.load()) {
        generation->Cancel();
        stopped = true;
      }
      if (event == nullptr) continue;
      std::fwrite(event->text.data(), 1, event->text.size(), stdout);
      std::fflush(stdout);
      answer += event->text;
      if (event->kind == api::StreamEvent::Kind::kEnd) break;
    }
    const Status& status = generation->stream().status();
    std::printf(stopped ? " (stopped)\n" : "\n");
    if (!status.ok() && !stopped) std::printf("(%s)\n", status.message().c_str());
    if (status.ok() || stopped) {
      messages_.push_back({api::Role::kAssistant, answer, ""});
    } else {
      messages_.pop_back();
    }
  }

  SettingsOptions options_;
  SamplingOptions sampling_{0.7};
  std::string model_, system_;
  std::vector<api::ChatMessage> messages_;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand() { return std::make_unique<ChatCommand>(); }

}  // namespace tutti::cli
