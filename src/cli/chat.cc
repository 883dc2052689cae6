// `tutti chat`: a conversation in the terminal. Ctrl-C stops the answer, not the program.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "app/config/auth_options.h"
#include "app/store.h"
#include "cli/chat_partner.h"
#include "cli/command_line.h"
#include "cli/generation.h"
#include "cli/line_reader.h"
#include "cli/terminal.h"

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
        "  tutti chat --store ~/chats --session garden   goes on where that session was\n"
        "  tutti chat --url http://127.0.0.1:8080      a server that runs; a key comes from "
        "TUTTI_API_KEY\n"
        "  tutti chat --mqtt mqtt://127.0.0.1:1883 --user ada --session kitchen   goes on with "
        "that "
        "session\n"
        "  tutti chat --mqtt mqtts://broker.example --user ada --password-file secret --project "
        "driving");
    app_->add_option("MODEL", model_,
                     "a .gguf or packed file, a folder or a known model (default: "
                     "smollm2-135m-instruct); with --url "
                     "or --mqtt\nthe server's name of a model (default: the first it lists)")
        ->check(ModelName());
    CLI::Option* const url =
        app_->add_option("--url", url_, "OpenAI-compatible server to chat with, http://HOST:PORT")
            ->type_name("URL");
    app_->add_option("--api-key-file", key_file_,
                     "with --url: file with the key to send (or TUTTI_API_KEY)")
        ->type_name("FILE")
        ->needs(url);
    CLI::Option& mqtt = DeclareMqtt(*url);
    app_->add_option("--store", store_, "folder that keeps the dialog for the next run, or memory")
        ->type_name("FOLDER")
        ->excludes(url)
        ->excludes(&mqtt);
    app_->add_option("--system", system_, "system message");
    sampling_.AddTo(*app_);
    app_->get_option("--temperature")
        ->description("0 = always the most probable token [the model's, else 0.7; a server's own]");
    options_.AddTo(*app_, app::OptionGroup::kModel);
    options_.ExcludeBeside(*url);  // they are the server's own
    options_.ExcludeBeside(mqtt);
  }

  int Run() override {
    if (!mqtt_.session.empty() && mqtt_.url.empty() && store_.empty()) {
      return FailConfig(
          InvalidArgument("invalid_value", "--session needs --mqtt or --store, where it is kept"));
    }
    std::map<std::string, std::string> usual;
    if (!store_.empty()) usual["store"] = store_;
    const Result<app::Settings> settings = options_.Resolve(usual);
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.PrintedConfig(*settings, /*with_server_options=*/false)) return kExitOk;
    if (const Status status = sampling_.Check(); !status.ok()) return FailConfig(status);
    const Result<std::unique_ptr<ChatPartner>> partner = MakePartner(*settings);
    if (!partner.ok()) return Fail(partner.status());
    std::printf("%s\n/clear, /history, /exit; Ctrl-C stops an answer\n",
                (*partner)->introduction().c_str());
    Talk(**partner);
    return asked_ > 0 && failed_ == asked_ ? kExitFailed : kExitOk;
  }

 private:
  CLI::Option& DeclareMqtt(CLI::Option& url) {
    CLI::Option* const mqtt =
        app_->add_option(
                "--mqtt", mqtt_.url,
                "MQTT server or broker to chat with, mqtt://HOST[:PORT] or mqtts://HOST[:PORT]")
            ->type_name("URL")
            ->excludes(&url);
    const auto add = [&](const char* name, std::string& text, const char* help, const char* type) {
      return app_->add_option(name, text, help)->type_name(type)->needs(mqtt);
    };
    add("--project", mqtt_.project,
        "with --mqtt: project to talk to, instead of a session of the user", "NAME");
    add("--user", mqtt_.user, "with --mqtt: the user's name", "NAME");
    CLI::Option* const file =
        add("--password-file", password_file_,
            "with --mqtt: file with the user's password or a key, readable only by you", "FILE");
    app_->add_flag("--ask-password", ask_password_, "with --mqtt: prompt for the password")
        ->needs(mqtt)
        ->excludes(file);
    app_->add_option(
            "--session", mqtt_.session,
            "with --mqtt or --store: name of the session to continue (default:\na new one; "
            "with --store, main)")
        ->type_name("NAME");
    add("--ca-file", mqtt_.ca_file,
        "with --mqtt: PEM file of trusted authorities (default: the system's)", "FILE");
    add("--topic-prefix", mqtt_.prefix, "with --mqtt: prefix of the users' topics [llm/v1]",
        "TOPIC");
    return *mqtt;
  }

  Result<std::unique_ptr<ChatPartner>> MakePartner(const app::Settings& settings) const {
    if (!mqtt_.url.empty()) return MakePartnerOverMqtt();
    if (url_.empty()) {
      std::optional<KeptDialog> kept;
      if (!store_.empty()) {
        kept.emplace();
        ASSIGN_OR_RETURN(kept->folder, app::StoreFolder(settings));
        kept->session = mqtt_.session.empty() ? "main" : mqtt_.session;
      }
      return MakeLocalPartner(model_, settings, sampling_, kept);
    }
    ASSIGN_OR_RETURN(const std::string key, app::ApiKey(key_file_));
    return MakeServerPartner(url_, model_, key, sampling_);
  }

  Result<std::unique_ptr<ChatPartner>> MakePartnerOverMqtt() const {
    MqttPartnerOptions options = mqtt_;
    if (ask_password_) {
      ASSIGN_OR_RETURN(options.password, AskedPassword());
    } else if (!password_file_.empty()) {
      ASSIGN_OR_RETURN(options.password, PasswordOfFile(password_file_));
    }
    if (options.password.has_value() && options.user.empty())
      return InvalidArgument("invalid_value", "a password needs its --user");
    return MakeMqttPartner(options, model_, sampling_);
  }

  void Talk(ChatPartner& partner) {
    // At a terminal's prompt Ctrl-C is a key (line_reader.h). A Ctrl-C between an answer and the
    // prompt belongs to neither, and must not end the program.
    std::optional<InterruptScope> between;
    if (OnTerminal()) between.emplace();
    const std::unique_ptr<LineReader> reader = MakeLineReader("> ");
    Forget();
    std::string line;
    while (reader->Read(line)) {
      if (line.empty()) continue;
      if (line == "/exit" || line == "/quit") break;
      if (line == "/clear") {
        const Result<std::string> forgotten = partner.Forget();
        if (forgotten.ok()) Forget();
        std::printf("(%s)\n",
                    forgotten.ok() ? forgotten->c_str() : forgotten.status().message().c_str());
      } else if (line == "/history") {
        ShowHistory(partner);
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

  void ShowHistory(ChatPartner& partner) const {
    const Result<std::optional<std::vector<api::ChatMessage>>> kept = partner.History();
    if (!kept.ok()) {
      std::printf("(%s)\n", kept.status().message().c_str());
      return;
    }
    for (const api::ChatMessage& message : kept->has_value() ? **kept : messages_) {
      const char* who = message.role == api::Role::kUser        ? "you"
                        : message.role == api::Role::kAssistant ? "model"
                                                                : "system";
      std::printf("%s: %s\n", who, message.content.c_str());
    }
  }

  void Turn(ChatPartner& partner, const std::string& line) {
    messages_.push_back({api::Role::kUser, line, ""});
    std::string answer;
    ReasoningDisplay thoughts;
    Status status;
    {
      const InterruptScope scope;
      status = partner.Answer(messages_,
                              {.text =
                                   [&](std::string_view text) {
                                     if (!text.empty()) thoughts.End();
                                     std::fwrite(text.data(), 1, text.size(), stdout);
                                     std::fflush(stdout);
                                     answer += text;
                                   },
                               .reasoning = [&](std::string_view piece) { thoughts.Show(piece); }},
                              [] { return interrupted.load(); });
      thoughts.End();
    }
    const bool stopped = status.reason() == "cancelled";
    ++asked_;
    if (!status.ok() && !stopped) ++failed_;
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
  std::string model_, system_, url_, key_file_, password_file_, store_;
  MqttPartnerOptions mqtt_;
  bool ask_password_ = false;
  int asked_ = 0, failed_ = 0;  // turns; those without an answer
  std::vector<api::ChatMessage> messages_;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand() { return std::make_unique<ChatCommand>(); }

}  // namespace tutti::cli
