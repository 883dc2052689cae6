// `tutti run`: one answer on standard output, streamed as it comes.
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <string>

#include "api/validate.h"
#include "app/blocking_waker.h"
#include "app/local_inference.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/number_option.h"

namespace tutti::cli {
namespace {

class RunCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("run", "Print one answer");
    app_->footer(
        "Examples:\n"
        "  tutti run smollm2-135m-instruct -p \"Name three rivers.\"\n"
        "  tutti run model.gguf --raw -p \"Once upon a time\" -n 100 --temperature 0.8 --seed 7\n"
        "  tutti run model.gguf -p \"Hi\" --json");
    app_->add_option("MODEL", model_, "a .gguf file or a known model")->required();
    app_->add_option("-p,--prompt", prompt_, "the user's message; with --raw the text to continue")
        ->required();
    AddNumber(*app_, "-n,--max-tokens", max_tokens_, 1, std::numeric_limits<int>::max(),
              "most tokens to generate (default: the rest of the context)");
    app_->add_flag("--raw", raw_, "continue the text as it is, without chat template");
    AddNumber(*app_, "--temperature", temperature_, 0.0, api::kMaxTemperature,
              "0 = always the most probable token [0]");
    AddNumber(*app_, "--top-p", top_p_, 0.0, 1.0,
              "smallest set of tokens with this probability [1]");
    AddNumber(*app_, "--top-k", top_k_, -1, std::numeric_limits<int>::max(),
              "only the k most probable tokens; 0 = off [0]");
    AddNumber(*app_, "--seed", seed_, std::numeric_limits<int64_t>::min(),
              std::numeric_limits<int64_t>::max(), "makes a sampled answer repeatable");
    app_->add_flag("--json", json_, "one JSON object at the end instead of the text");
    options_.AddTo(*app_, /*server=*/false);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve();
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.print_config()) {
      std::fputs(settings->Print(/*with_server_options=*/false).c_str(), stdout);
      return kExitOk;
    }
    const Result<app::ModelRef> ref = app::ResolveModel(model_);
    if (!ref.ok()) return Fail(ref.status());
    app::LocalInference inference(*settings, nullptr);
    Result<app::OpenedModel> opened = inference.Open(*ref);
    if (!opened.ok()) return Fail(std::move(opened).status().WithContext(ref->path));
    if (const Status status = inference.Load(*std::move(opened)); !status.ok()) return Fail(status);
    return Answer(inference.gateway());
  }

 private:
  int Answer(api::Inference& inference) {
    api::GenerateRequest request;
    if (raw_) {
      request.prompt = api::TextPrompt{.text = prompt_};
    } else {
      request.prompt = api::ChatPrompt{.messages = {{api::Role::kUser, prompt_, ""}}};
    }
    request.sampling.temperature = temperature_;
    request.sampling.top_p = top_p_;
    request.sampling.top_k = top_k_;
    if (seed_option_given()) request.sampling.seed = seed_;
    if (max_tokens_ > 0) request.sampling.max_tokens = max_tokens_;

    auto waker = std::make_shared<app::BlockingWaker>();
    Result<api::Generation> generation = inference.Generate(std::move(request), waker);
    if (!generation.ok()) return Fail(generation.status());
    std::string text;
    api::FinishReason finish = api::FinishReason::kStop;
    api::Usage usage;
    api::Timings timings;
    while (const api::StreamEvent* event = waker->Next(*generation)) {
      if (event->kind == api::StreamEvent::Kind::kChoiceEnd) finish = event->finish_reason;
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        usage = event->usage;
        timings = event->timings;
      }
      if (json_) {
        text += event->text;
      } else {
        std::fwrite(event->text.data(), 1, event->text.size(), stdout);
        // Nobody reads any more, and SIGPIPE, which says so as a rule, may be ignored by
        // inheritance.
        if (std::fflush(stdout) != 0) {
          std::clearerr(stdout);  // it is told here
          return errno == EPIPE ? kExitOk
                                : Fail(Unavailable("io_error", "the answer cannot be written"));
        }
      }
    }
    if (const Status& status = generation->stream().status(); !status.ok()) return Fail(status);
    if (!json_) {
      std::fputc('\n', stdout);
      return kExitOk;
    }
    const boost::json::object out{
        {"schema", "tutti.run.v1"},
        {"text", text},
        {"finish_reason", finish == api::FinishReason::kLength ? "length" : "stop"},
        {"prompt_tokens", usage.prompt_tokens},
        {"completion_tokens", usage.completion_tokens},
        {"prefill_ms", ToMillis(timings.prefill)},
        {"decode_ms", ToMillis(timings.decode)}};
    std::printf("%s\n", boost::json::serialize(out).c_str());
    return kExitOk;
  }

  bool seed_option_given() const { return app_->count("--seed") > 0; }

  SettingsOptions options_;
  std::string model_, prompt_;
  int max_tokens_ = 0, top_k_ = 0;
  double temperature_ = 0, top_p_ = 1;
  int64_t seed_ = 0;
  bool raw_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace tutti::cli
