// `tutti chat`: a conversation in the terminal. Ctrl-C stops the answer, not the program.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "app/api_key.h"
#include "cli/chat_partner.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/line_reader.h"
#include "cli/sampling_options.h"

namespace tutti::cli {
namespace {

std::atomic<bool> interrupted{false};  // a signal handler has nowhere else to write
static_assert(std::atomic<bool>::is_always_lock_free);

// While it lives SIGINT only sets `interrupted`.
class InterruptScope {
 public:
  InterruptScope() {
    interrupted.store(false);
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = SA_RESTART;
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
        "Ctrl-C stops the answer that is being written; at the prompt it gives up the line. The "
        "arrow keys\n"
        "edit the line and bring back earlier ones.\n"
        "Examples:\n"
        "  tutti chat\n"
        "  tutti chat smollm2-135m-instruct --system \"You answer in one sentence.\"\n"
        "  tutti chat model.gguf --temperature 0.9 --top-p 0.95 --seed 7 -n 200\n"
        "  tutti chat --url http://127.0.0.1:8080      a server that runs; a key comes from "
        "TUTTI_API_KEY");
    app_->add_option("MODEL", model_,
                     "a .gguf file or a known model (default: smollm2-135m-instruct); with --url "
                     "the server's\nname of a model (default: the first it lists)");
    CLI::Option* const url =
        app_->add_option("--url", url_, "talk to the OpenAI-compatible server at http://HOST:PORT")
            ->type_name("URL");
    app_->add_option("--api-key-file", key_file_,
                     "with --url: file with the key to send (or TUTTI_API_KEY)")
        ->type_name("FILE")
        ->needs(url);
    app_->add_option("--system", system_, "system message");
    sampling_.AddTo(*app_);
    options_.AddTo(*app_, /*server=*/false);
    options_.ExcludeBeside(*url);  // they are the server's own
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.print_config()) {
      std::fputs(settings->Print(/*with_server_options=*/false).c_str(), stdout);
      return kExitOk;
    }
    if (const Status status = sampling_.Check(); !status.ok()) return FailConfig(status);
    const Result<std::unique_ptr<ChatPartner>> partner = MakePartner(*settings);
    if (!partner.ok()) return Fail(partner.status());
    std::printf("%s\n/clear, /history, /exit; Ctrl-C stops an answer\n",
                (*partner)->introduction().c_str());
    Talk(**partner);
    return kExitOk;
  }

 private:
  Result<std::unique_ptr<ChatPartner>> MakePartner(const app::Settings& settings) const {
    if (url_.empty()) return MakeLocalPartner(model_, settings, sampling_);
    ASSIGN_OR_RETURN(const std::string key, app::ApiKey(key_file_));
    return MakeServerPartner(url_, model_, key, sampling_);
  }

  void Talk(ChatPartner& partner) {
    // At a terminal's prompt Ctrl-C is a key (line_reader.h). One that comes between an answer and
    // the prompt is late for the one and early for the other, and must not end the program.
    std::optional<InterruptScope> between;
    if (OnTerminal()) between.emplace();
    const std::unique_ptr<LineReader> reader = MakeLineReader("> ");
    Forget();
    std::string line;
    while (reader->Read(line)) {
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
        Turn(partner, line);
      }
    }
    std::printf("\n");
  }

  void Forget() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({api::Role::kSystem, system_, ""});
  }

  void ShowHistory() const {
    for (const api::ChatMessage& message : messages_) {
      const char* who = message.role == api::Role::kUser        ? "you"
                        : message.role == api::Role::kAssistant ? "model"
                                                                : "system";
      std::printf("%s: %s\n", who, message.content.c_str());
    }
  }

  void Turn(ChatPartner& partner, const std::string& line) {
    messages_.push_back({api::Role::kUser, line, ""});
    std::string answer;
    Status status;
    {
      const InterruptScope scope;
      status = partner.Answer(
          messages_,
          [&](std::string_view text) {
            std::fwrite(text.data(), 1, text.size(), stdout);
            std::fflush(stdout);
            answer += text;
          },
          [] { return interrupted.load(); });
    }
    const bool stopped = status.reason() == "cancelled";
    std::printf(stopped ? " (stopped)\n" : answer.empty() && !status.ok() ? "" : "\n");
    if (!status.ok() && !stopped) {
      std::printf("(%s%s)\n", status.message().c_str(),
                  status.reason() == "context_length_exceeded" ? "; /clear begins anew" : "");
    }
    if (status.ok() || stopped) {
      messages_.push_back({api::Role::kAssistant, answer, ""});
    } else {
      messages_.pop_back();
    }
  }

  SettingsOptions options_;
  SamplingOptions sampling_{0.7};
  std::string model_, system_, url_, key_file_;
  std::vector<api::ChatMessage> messages_;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand() { return std::make_unique<ChatCommand>(); }

}  // namespace tutti::cli
