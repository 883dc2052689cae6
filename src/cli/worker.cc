#include "app/worker.h"

#include <cstdio>
#include <string>
#include <vector>

#include "app/loading/model_registry.h"
#include "app/process/supervisor.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"

namespace tutti::cli {
namespace {

class WorkerCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("worker", "Compute for a frontend (tutti serve --role frontend)");
    app_->footer(
        "Examples:\n"
        "  tutti serve --role frontend &                    servers and store, no model\n"
        "  tutti worker smollm2-135m-instruct --threads 8   brings it a model; start as many as\n"
        "                                                   there are sets of cores\n"
        "  tutti worker chat=my.gguf --workers-socket /run/tutti/workers.sock\n"
        "The frontend may start later, or again: a worker waits for it with its models loaded. A\n"
        "worker that is killed is started again, unless --no-restart is given. After\n"
        "SIGTERM it gets nothing new, what runs ends, and it exits 0.");
    app_->add_option("MODEL", models_,
                     "a .gguf or packed file, a folder or a known model, or NAME=MODEL (default: "
                     "smollm2-135m-instruct)")
        ->check(ModelName());
    app_->add_flag("--no-restart", no_restart_,
                   "end when the process is killed; for who restarts it by other means");
    options_.AddTo(*app_, app::OptionGroup::kProcess);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.print_config()) {
      std::fputs(settings->Print(/*with_server_options=*/true).c_str(), stdout);
      return kExitOk;
    }
    std::vector<app::ModelRef> models;
    if (models_.empty()) models_.emplace_back();
    for (const std::string& argument : models_) {
      Result<app::ModelRef> model = app::ResolveModel(argument);
      if (!model.ok()) return Fail(model.status());
      models.push_back(*std::move(model));
    }
    const auto work = [&] {
      const Status status = app::RunWorker(*settings, models);
      return status.ok() ? kExitOk : Fail(status);
    };
    return no_restart_ ? work() : app::Supervise(work);
  }

 private:
  SettingsOptions options_;
  std::vector<std::string> models_;
  bool no_restart_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeWorkerCommand() { return std::make_unique<WorkerCommand>(); }

}  // namespace tutti::cli
