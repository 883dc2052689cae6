#include "cli/bench/bench_encode.h"

#include <algorithm>
#include <limits>

#include "app/config/auth_options.h"
#include "app/config/options.h"
#include "cli/command_line.h"
#include "cli/number_option.h"

namespace tutti::cli {

void EncodeBenches::AddTarget(CLI::App& command) {
  command
      .add_option("MODEL", model_,
                  "an encoder's folder or a known model; with --url the served name")
      ->check(ModelName());
  CLI::Option* const url =
      command.add_option("--url", url_, "put the load on this server instead of a model in here");
  command
      .add_flag("--kserve", kserve_,
                "with --url: KServe's open inference protocol (v2); texts in, FP32 out")
      ->needs(url);
  // A server has its options already.
  for (CLI::Option* const option : AddOptions(command)) url->excludes(option);
}

std::vector<CLI::Option*> EncodeBenches::AddOptions(CLI::App& command) {
  std::vector<CLI::Option*> added;
  for (const app::OptionSpec& option : app::AllOptions()) {
    const std::string key = option.key;
    if (key != "threads" && key != "isa" && key != "dtype" && !key.starts_with("encode.")) continue;
    added.push_back(command.add_option_function<std::string>(
        app::FlagName(option), [this, key](const std::string& text) { flags_[key] = text; },
        option.help));
  }
  return added;
}

void EncodeBenches::AddShape(CLI::App& command) {
  AddNumber(command, "--texts", texts_, 1, api::kMaxEncodeInputs, "of a request [1]");
  AddNumber(command, "--tokens", tokens_, 3, 1 << 16, "of a text, about [16]");
  AddNumber(command, "--requests", requests_, 1, 1 << 24, "at each level [500]");
  AddNumber(command, "--warmup", warmup_, 0, 1 << 24, "requests before, not counted [50]");
  AddNumber(command, "--seed", seed_, uint64_t{0}, std::numeric_limits<uint64_t>::max(),
            "of the texts [1]");
}

Result<std::unique_ptr<bench::EncodeTarget>> EncodeBenches::Target() const {
  if (url_.empty())
    return bench::LoadEncodeTarget(model_.empty() ? "all-minilm-l6-v2" : model_, flags_);
  ASSIGN_OR_RETURN(const client::Server server, client::ParseServer(url_));
  ASSIGN_OR_RETURN(const std::string key, app::ApiKey(""));
  return kserve_ ? bench::KserveHttpTarget(server, model_, key)
                 : bench::HttpEncodeTarget(server, model_, key);
}

Result<bench::Report> EncodeBenches::RunGrpc(const Progress& progress) const {
  ASSIGN_OR_RETURN(const std::string key, app::ApiKey(""));
  ASSIGN_OR_RETURN(const auto target,
                   url_.empty()
                       ? bench::LoadGrpcTarget(model_.empty() ? "all-minilm-l6-v2" : model_, flags_)
                   : kserve_ ? bench::KserveGrpcTarget(url_, model_, key)
                             : bench::GrpcEncodeTarget(url_, model_, key));
  auto options = Shaped(bench::GrpcLoadOptions());
  options.levels = clients_;
  options.seconds = seconds_;
  return bench::BenchGrpc(*target, options, progress);
}

Result<bench::Report> EncodeBenches::RunLevels(const Progress& progress) const {
  ASSIGN_OR_RETURN(const auto target, Target());
  auto options = Shaped(bench::EncodeLevelsOptions());
  options.levels = clients_;
  return bench::BenchEncodeLevels(*target, options, progress);
}

void EncodeBenches::Declare(const Add& add, std::function<Progress()> progress) {
  CLI::App* encode = add("encode", "Texts to vectors, closed loop, in here or at a server",
                         [this, progress] { return RunLevels(progress()); });
  encode->footer(
      "Examples:\n"
      "  tutti bench encode all-minilm-l6-v2 --concurrency 1,8 --texts 32 --tokens 128\n"
      "  tutti bench encode --url http://127.0.0.1:8080 --concurrency 32\n"
      "  tutti bench encode all-minilm-l6-v2 --url http://127.0.0.1:8080 --kserve\n"
      "The first answers are compared with those of the same texts alone, bit for bit.");
  AddTarget(*encode);
  AddShape(*encode);
  AddNumbers(*encode, "--concurrency", clients_, 1, 1024, "clients [1,4,8]");

  CLI::App* grpc = add("grpc", "Texts to vectors over gRPC: threads on one channel, closed loop",
                       [this, progress] { return RunGrpc(progress()); });
  grpc->footer(
      "Examples:\n"
      "  tutti bench grpc all-minilm-l6-v2\n"
      "  tutti bench grpc --url grpc://127.0.0.1:8081 --concurrency 1,4,8 --texts 32 --seconds 10\n"
      "Without --url the model is loaded here, behind a gRPC server on a free port. Calls "
      "tutti.v1.Tutti/Embed;\n"
      "with --kserve ModelInfer of any KServe or Triton server whose model takes texts.\n"
      "All threads share one connection. A key is taken from TUTTI_API_KEY.");
  AddTarget(*grpc);
  AddShape(*grpc);
  AddNumbers(*grpc, "--concurrency", clients_, 1, 1024, "threads that send [1,4,8]");
  AddNumber(*grpc, "--seconds", seconds_, 0.0, 1e6,
            "instead of --requests: for so long at each level; 0 = by requests [0]")
      ->excludes(grpc->get_option("--requests"));

  CLI::App* knee = add("knee", "Where more callers stop paying, and why; what to set for a p99",
                       [this, progress]() -> Result<bench::Report> {
                         ASSIGN_OR_RETURN(const auto target, Target());
                         bench::KneeOptions options = Shaped(knee_);
                         std::sort(options.levels.begin(), options.levels.end());
                         return bench::BenchKnee(*target, options, progress());
                       });
  knee->footer("Example:\n  tutti bench knee all-minilm-l6-v2 --p99-ms 20 --json knee.json");
  AddTarget(*knee);
  AddShape(*knee);
  AddNumbers(*knee, "--concurrency", knee_.levels, 1, 1024, "levels [1,2,..,12]");
  AddNumber(*knee, "--p99-ms", knee_.p99_limit_ms, 0.0, 3.6e6,
            "limit of the recommendation; 0 = twice the first level's [0]");

  CLI::App* mixed = add("mixed", "Chat streams alone and with short texts on the same cores",
                        [this, progress]() -> Result<bench::Report> {
                          bench::MixedOptions options = mixed_;
                          const bench::MixedOptions stated;
                          options.flags = {flags_.begin(), flags_.end()};
                          options.gated = options.streams == stated.streams &&
                                          options.texts_per_s == stated.texts_per_s;
                          return bench::BenchMixed(options, progress());
                        });
  mixed->footer("Example:\n  tutti bench mixed --seconds 300 --json mixed.json");
  mixed->add_option("CHAT", mixed_.chat_model, "the chat model (default: smollm2-135m-instruct)");
  mixed->add_option("ENCODER", mixed_.encoder, "(default: all-minilm-l6-v2)");
  AddOptions(*mixed);
  AddNumber(*mixed, "--streams", mixed_.streams, 1, 1024, "that decode together [8]");
  AddNumber(*mixed, "--max-tokens", mixed_.new_tokens, 2, 100000, "of an answer [64]");
  AddNumber(*mixed, "--rate", mixed_.texts_per_s, 0.1, 1e6, "texts a second [200]");
  AddNumber(*mixed, "--tokens", mixed_.tokens, 3, 1 << 16, "of a text, about [16]");
  AddNumber(*mixed, "--seconds", mixed_.seconds, 0.1, 1e6, "of each half [20]");

  CLI::App* grid = add(
      "grid", "Batch sizes x concurrency x options from a file; goes on where it was stopped",
      [this, progress]() -> Result<bench::Report> {
        ASSIGN_OR_RETURN(const bench::GridPlan plan, bench::ReadGridPlan(grid_file_));
        ASSIGN_OR_RETURN(const std::string key, app::ApiKey(""));
        return bench::BenchGrid(plan, {grid_out_ + ".json", grid_out_ + ".md", grid_out_ + ".svg"},
                                key, progress());
      });
  grid->footer(
      "Example:\n  tutti bench grid docs/grid.toml --out results/grid\n"
      "Writes OUT.json after every cell, and OUT.md and OUT.svg at the end. Cells found in "
      "OUT.json are not\nmeasured again; remove it for a new run. Cells that it has with other "
      "requests, warmup or seed\nare, and it keeps both.\n"
      "Keys of FILE: model = \"all-minilm-l6-v2\" or url = \"http://127.0.0.1:8080\"; lists or one "
      "number each:\n"
      "  batch [1,8,32], concurrency [1,4,8], tokens [16]; of each cell: requests [500], warmup "
      "[50];\n"
      "  order: shuffled, given or reversed [shuffled]; seed [1]; a table [options] of the model's "
      "options\n"
      "  (threads = 2, \"encode.window_ms\" = [0, 10]), where a list is one more dimension.\n"
      "Fails when a request fails or an answer differs from that of the same texts alone, bit for "
      "bit; no\nspeed fails it. A failed cell is measured again by the next run.");
  grid->add_option("FILE", grid_file_,
                   "TOML: model or url, batch, concurrency, tokens, requests, "
                   "[options]")
      ->required();
  grid->add_option("--out", grid_out_, "beginning of the results' paths [grid]");
}

}  // namespace tutti::cli
