#include <cstdio>
#include <string>
#include <vector>

#include "app/model_registry.h"
#include "app/server.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"

namespace tutti::cli {
namespace {

class ServeCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("serve", "Serve a model over HTTP (OpenAI-compatible)");
    app_->footer(
        "Examples:\n"
        "  tutti serve                                     the default model on 127.0.0.1:8080\n"
        "  tutti serve chat=models/my.gguf --port 9000 --lanes 16\n"
        "  tutti serve --config tutti.toml --print-config\n"
        "  curl -s 127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
        "    -d "
        "'{\"model\":\"smollm2-135m-instruct\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}"
        "]}'\n"
        "Ready when it prints its address, and GET /readyz answers 200. SIGTERM drains and exits "
        "0.");
    app_->add_option("MODEL", model_,
                     "a .gguf file or a known model, or NAME=MODEL (default: "
                     "smollm2-135m-instruct); the command\n"
                     "line is the only place for it");
    options_.AddTo(*app_, /*server=*/true);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.print_config()) {
      std::fputs(settings->Print(/*with_server_options=*/true).c_str(), stdout);
      return kExitOk;
    }
    const Result<app::ModelRef> model = app::ResolveModel(model_);
    if (!model.ok()) return Fail(model.status());
    const Status status = app::Serve(*settings, *model);
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  SettingsOptions options_;
  std::string model_;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

}  // namespace tutti::cli
