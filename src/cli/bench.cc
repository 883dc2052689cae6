// `tutti bench`: speed, measured with its answers checked. Each kind prints a table as it goes and, with --json FILE,
// leaves the figures; it fails (exit 1) when an answer differs or a gate is missed, whatever the speed.
#include "bench/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bench/strategies.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"

namespace tutti::cli {
namespace {

// Options of the model side that every bench in this process takes; the bench itself sets the others.
class ModelFlags {
 public:
  void AddTo(CLI::App& command, bool model_required) {
    command.add_option("MODEL", model, "a .gguf file or a known model")->required(model_required);
    for (const char* key : {"threads", "isa", "dtype", "kv-cache-bytes"}) {
      const app::OptionSpec* option = app::FindOption(key);
      command.add_option_function<std::string>(
          app::FlagName(*option), [this, key](const std::string& text) { flags[key] = text; }, option->help);
    }
  }
  std::string model;
  bench::Flags flags;
};

class BenchCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("bench", "Measure speed, with the answers checked");
    app_->require_subcommand(1);
    app_->footer(
        "Examples:\n"
        "  tutti bench engine smollm2-135m-instruct --prompt 128 --gen 64 --batch 1,8,32\n"
        "  tutti bench strategies\n"
        "  tutti bench concurrency --json concurrency.json\n"
        "  tutti bench serve --url http://127.0.0.1:8080 --concurrency 1,4,8 --requests 100\n"
        "  tutti bench kernels");
    DeclareEngine();
    DeclareStrategies();
  }

  int Run() override { return run_(); }

 private:
  CLI::App* Add(const char* name, const char* help, std::function<Result<bench::Report>()> run) {
    CLI::App* command = app_->add_subcommand(name, help);
    command->add_option("--json", json_, "write the figures to this file; - is standard output")->type_name("FILE");
    command->callback([this, run = std::move(run)] { run_ = [this, run] { return Finish(run()); }; });
    return command;
  }

  void DeclareEngine() {
    CLI::App* command = Add("engine", "Prefill and decode straight in the engine, no HTTP", [this] {
      forward_.model = model_.model;
      forward_.flags = model_.flags;
      return bench::BenchForward(forward_, Progress());
    });
    command->footer("Example:\n  tutti bench engine smollm2-135m-instruct --prompt 512 --gen 1 --batch 1");
    model_.AddTo(*command, true);
    command->add_option("--prompt", forward_.prompt_tokens, "tokens of each prompt [128]")->check(CLI::Range(1, 1 << 20));
    command->add_option("--gen", forward_.new_tokens, "tokens decoded after the first [64]")->check(CLI::Range(1, 1 << 20));
    command->add_option("--batch", forward_.batches, "sequences together [1,4,8,16,32]")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024));
    command->add_option("--repeat", forward_.repeats, "runs of each batch [3]")->check(CLI::Range(1, 1000));
    command->add_option("--seed", forward_.seed, "of the prompts [1]");
  }

  void DeclareStrategies() {
    CLI::App* command = Add("strategies", "Blocking, interleaved and continuous side by side, gated", [this] {
      strategies_.model = model_.model;
      strategies_.flags = model_.flags;
      if (requests_ > 0) strategies_.shapes = {{requests_, tokens_, 0}};
      return bench::BenchStrategies(strategies_, Progress());
    });
    command->footer("Example:\n  tutti bench strategies --requests 5 --tokens 30");
    model_.AddTo(*command, false);
    command->add_option("--requests", requests_, "only this many requests, without gates")->check(CLI::Range(1, 1024));
    command->add_option("--tokens", tokens_, "output tokens of each, with --requests [30]")->check(CLI::Range(2, 100000));
    command->add_option("--rounds", strategies_.rounds, "alternating runs [5]")->check(CLI::Range(1, 1000));
    command->add_option("--lanes", strategies_.lanes, "[16]")->check(CLI::Range(1, 1024));
  }

  // Lines go out as they are known, beside the JSON if that takes standard output.
  std::function<void(const std::string&)> Progress() const {
    std::FILE* out = json_ == "-" ? stderr : stdout;
    return [out](const std::string& line) {
      std::fprintf(out, "%s\n", line.c_str());
      std::fflush(out);
    };
  }

  int Finish(const Result<bench::Report>& report) const {
    if (!report.ok()) {
      // Bad values of options are configuration, as in every other command.
      return Fail(report.status());
    }
    if (!json_.empty()) {
      const std::string text = boost::json::serialize(report->json) + "\n";
      if (json_ == "-") {
        std::fputs(text.c_str(), stdout);
      } else if (std::ofstream file(json_); !(file << text).flush()) {
        return Fail(InvalidArgument("invalid_value", "cannot write " + json_));
      }
    }
    for (const std::string& failure : report->failures) std::fprintf(stderr, "tutti bench: FAILED: %s\n", failure.c_str());
    return report->failures.empty() ? kExitOk : kExitFailed;
  }

  std::function<int()> run_;
  ModelFlags model_;
  std::string json_;
  bench::ForwardOptions forward_;
  bench::StrategiesOptions strategies_;
  int requests_ = 0, tokens_ = 30;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace tutti::cli
