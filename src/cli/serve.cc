#include <cstdio>
#include <string>
#include <vector>

#include "app/loading/model_registry.h"
#include "app/server.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/second_server.h"

namespace tutti::cli {
namespace {

class ServeCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("serve", "Serve models over HTTP (OpenAI-compatible)");
    app_->footer(
        "Examples:\n"
        "  tutti serve                                     the default model on 127.0.0.1:8080\n"
        "  tutti serve chat=models/my.gguf --port 9000 --max-num-seqs 16\n"
        "  tutti serve smollm2-135m-instruct all-minilm-l6-v2   chat and embeddings\n"
        "  tutti serve chat.gguf search=bge-small/:f32          an arithmetic of its own\n"
        "  tutti serve --role frontend                     models in `tutti worker` processes\n"
        "  tutti serve --config tutti.toml --print-config\n"
        "  curl -s 127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
        "    -d "
        "'{\"model\":\"smollm2-135m-instruct\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}"
        "]}'\n"
        "Ready when it prints its address, and GET /readyz answers 200. SIGTERM drains and exits "
        "0.");
    app_->add_option("MODEL", models_,
                     "a .gguf or packed file, a folder or a known model, or NAME=MODEL (default: "
                     "smollm2-135m-instruct);\n"
                     "several share the machine; the command line is the only place for them")
        ->check(ModelName());
    options_.AddTo(*app_, app::OptionGroup::kServer);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.print_config()) {
      std::fputs(settings->Print(/*with_server_options=*/true).c_str(), stdout);
      return kExitOk;
    }
    if (settings->Text("role") == "frontend") return RunFrontend(*settings);
    std::vector<app::ModelRef> models;
    const std::vector<std::string> usual = {""};
    for (const std::string& argument : models_.empty() ? usual : models_) {
      Result<app::ModelRef> model = app::ResolveModel(argument);
      if (!model.ok()) return Fail(model.status());
      models.push_back(*std::move(model));
    }
    return End(app::Serve(*settings, models), *settings);
  }

 private:
  // Another server that holds the store usually holds the ports as well, so one command names all.
  int End(const Status& status, const app::Settings& settings) {
    if (status.ok()) return kExitOk;
    if (status.reason() != "store_locked") return Fail(status);
    return Fail(Status(status.code(), status.reason(),
                       status.message() + ": " +
                           SecondServerCommand(models_, options_.Typed(), settings, PortIsFree)));
  }

  int RunFrontend(const app::Settings& settings) {
    if (!models_.empty()) {
      return FailConfig(InvalidArgument("invalid_value", "a frontend has no models: give " +
                                                             models_.front() + " to tutti worker"));
    }
    return End(app::ServeFrontend(settings), settings);
  }

  SettingsOptions options_;
  std::vector<std::string> models_;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

}  // namespace tutti::cli
