// `tutti serve` and `tutti worker`: a server of models, and a process that computes for one.
#include "cli/serve.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/config/options.h"
#include "app/loading/model_registry.h"
#include "app/process/process_signals.h"
#include "app/roles.h"
#include "cli/command_line.h"
#include "cli/pull.h"

namespace tutti::cli {
namespace {

// The models that the arguments name; the default one if there are none, nor a folder of models.
Result<std::vector<app::ModelRef>> ResolveModels(const app::Settings& settings,
                                                 std::vector<std::string> arguments) {
  if (arguments.empty() && !settings.IsSet("models")) arguments.emplace_back();
  std::vector<app::ModelRef> models;
  for (const std::string& argument : arguments) {
    ASSIGN_OR_RETURN(app::ModelRef model, FindModel(settings, argument));
    models.push_back(std::move(model));
  }
  return models;
}

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
        "  tutti serve --models models --memory-budget 8GiB     any of a folder, on demand\n"
        "  tutti serve --role frontend                     models in `tutti worker` processes\n"
        "  tutti serve --config tutti.toml --print-config\n"
        "  curl -s 127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
        "    -d "
        "'{\"model\":\"smollm2-135m-instruct\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}"
        "]}'\n"
        "Ready when it prints its address, and GET /readyz answers 200. SIGTERM drains and exits "
        "0.");
    app_->add_option(
            "MODEL", models_,
            "a .gguf or packed file, a folder, a known or pulled model, or NAME=MODEL (default: "
            "smollm2-135m-instruct);\n"
            "several share the machine; the command line is the only place for them")
        ->check(ModelName());
    options_.AddTo(*app_, app::OptionGroup::kServer);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.PrintedConfig(*settings, /*with_server_options=*/true)) return kExitOk;
    if (settings->Text("role") == "frontend") return RunFrontend(*settings);
    const Result<std::vector<app::ModelRef>> models = ResolveModels(*settings, models_);
    if (!models.ok()) return Fail(models.status());
    return End(app::Serve(*settings, *models), *settings);
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
        "  tutti worker --models models --memory-budget 8GiB  any of a folder, on demand\n"
        "The frontend may start later, or again: a worker waits for it with its models loaded. A\n"
        "worker that is killed is started again, unless --no-restart is given. After\n"
        "SIGTERM it gets nothing new, what runs ends, and it exits 0.");
    app_->add_option(
            "MODEL", models_,
            "a .gguf or packed file, a folder, a known or pulled model, or NAME=MODEL (default: "
            "smollm2-135m-instruct)")
        ->check(ModelName());
    app_->add_flag("--no-restart", no_restart_,
                   "end when the process is killed; for who restarts it by other means");
    options_.AddTo(*app_, app::OptionGroup::kProcess);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.PrintedConfig(*settings, /*with_server_options=*/true)) return kExitOk;
    const Result<std::vector<app::ModelRef>> models = ResolveModels(*settings, models_);
    if (!models.ok()) return Fail(models.status());
    const auto work = [&] {
      const Status status = app::RunWorker(*settings, *models);
      return status.ok() ? kExitOk : Fail(status);
    };
    return no_restart_ ? work() : app::Supervise(work);
  }

 private:
  SettingsOptions options_;
  std::vector<std::string> models_;
  bool no_restart_ = false;
};

constexpr std::string_view kPortKeys[] = {"port", "ollama-port", "grpc-port", "mqtt-port"};

// For a POSIX shell; plain words stay as they are.
std::string ShellWord(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-_./=:,@+%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string FlagOf(std::string_view key) {
  const app::OptionSpec* const option = app::FindOption(key);
  return option == nullptr ? "--" + std::string(key) : app::FlagName(*option);
}

}  // namespace

std::unique_ptr<Command> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

std::unique_ptr<Command> MakeWorkerCommand() { return std::make_unique<WorkerCommand>(); }

bool PortIsFree(const std::string& host, int64_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return true;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;  // as a server sets it, so that closed connections do not occupy the port
  const bool bound =
      fd < 0 || (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0);
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return bound;
}

std::string SecondServerCommand(
    const std::vector<std::string>& models, const std::vector<TypedOption>& typed,
    const app::Settings& settings,
    const std::function<bool(const std::string& host, int64_t port)>& is_free) {
  const std::string host = settings.Text("host");
  std::set<int64_t> used;
  for (const std::string_view key : kPortKeys) used.insert(settings.Int(key));
  std::vector<TypedOption> added = {{"store", "memory"}};
  for (const std::string_view key : kPortKeys) {
    int64_t port = settings.Int(key);
    if (port == 0 || is_free(host, port)) continue;
    while (port < 65535 && (used.contains(port) || !is_free(host, port))) ++port;
    used.insert(port);
    added.emplace_back(key, std::to_string(port));
  }
  std::string command = "tutti serve";
  for (const std::string& model : models) command += " " + ShellWord(model);
  const auto add = [&](const TypedOption& option) {
    command += " " + FlagOf(option.first) + " " + ShellWord(option.second);
  };
  for (const TypedOption& option : typed) {
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const TypedOption& other) {
      return other.first == option.first;
    });
    if (!replaced) add(option);
  }
  for (const TypedOption& option : added) add(option);
  return command;
}

}  // namespace tutti::cli
