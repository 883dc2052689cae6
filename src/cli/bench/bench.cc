// `tutti bench`: speed, measured with its answers checked. Each kind prints a table as it goes and,
// with --json FILE, writes the figures. It fails (exit 1) if an answer differs, at any speed, if a
// gate is missed, or if --compare finds a figure that became slower than the baseline's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <sstream>
#include <string>

#include "app/config/auth_options.h"
#include "bench/agreement.h"
#include "bench/compare.h"
#include "bench/concurrency.h"
#include "bench/constrained.h"
#include "bench/decisions.h"
#include "bench/forward.h"
#include "bench/jobs.h"
#include "bench/kernels_report.h"
#include "bench/lora.h"
#include "bench/mqtt_chats.h"
#include "bench/mqtt_load.h"
#include "bench/overload.h"
#include "bench/perplexity.h"
#include "bench/report_page.h"
#include "bench/serve_load.h"
#include "bench/speculation.h"
#include "bench/strategies.h"
#include "cli/bench/bench_encode.h"
#include "cli/command_line.h"
#include "cli/number_option.h"
#include "cli/report.h"

namespace tutti::cli {
namespace {

constexpr uint64_t kMaxSeed = std::numeric_limits<uint64_t>::max();
constexpr int kMeasurements = 3;      // in all, before a figure counts as slower
constexpr double kLeastFusion = 1.1;  // x one operation at a time, at one sequence

// Options of the model side that every bench in this process takes; the bench itself sets the
// others.
class ModelFlags {
 public:
  void AddTo(CLI::App& command, bool model_required) {
    command.add_option("MODEL", model, "a .gguf or packed file, a folder or a known model")
        ->required(model_required)
        ->check(ModelName());
    AddFlags(command);
  }
  void AddFlags(CLI::App& command) {
    for (const char* key : {"threads", "isa", "dtype", "kv-cache-bytes", "kv-dtype"}) {
      const app::OptionSpec* option = app::FindOption(key);
      command.add_option_function<std::string>(
          app::FlagName(*option), [this, key](const std::string& text) { flags[key] = text; },
          option->help);
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
        "  tutti bench speculation\n"
        "  tutti bench constrained\n"
        "  tutti bench lora smollm2-135m-instruct --lora adapter.gguf\n"
        "  tutti bench concurrency --json concurrency.json\n"
        "  tutti bench decisions --questions 1,16\n"
        "  tutti bench serve --url http://127.0.0.1:8080 --concurrency 1,4,8 --requests 100\n"
        "  tutti bench overload --url http://127.0.0.1:8080\n"
        "  tutti bench jobs --url http://127.0.0.1:8080\n"
        "  tutti bench mqtt --json mqtt.json\n"
        "  tutti bench kernels\n"
        "  tutti bench perplexity model-q4_k_m.gguf --text text.txt --against model-f16.gguf:f32\n"
        "  tutti bench encode all-minilm-l6-v2 --texts 32\n"
        "  tutti bench grpc --url grpc://127.0.0.1:8081 --concurrency 1,4,8\n"
        "  tutti bench knee all-minilm-l6-v2 --p99-ms 20\n"
        "  tutti bench grid docs/grid.toml\n"
        "  tutti bench engine smollm2-135m-instruct --repeat 10 --json baseline.json\n"
        "  tutti bench engine smollm2-135m-instruct --repeat 10 --compare baseline.json\n"
        "  tutti bench compare baseline.json now.json\n"
        "\n"
        "Marks in the tables: (unstable): the rates of three parts of the run differ by more than "
        "10 %;\n"
        "(machine slowed): the machine ran below its full speed before or after this row. Gated: "
        "the\n"
        "command fails when a figure misses what docs/benchmarks.md asks for; answers that differ "
        "always fail it.");
    DeclareEngine();
    DeclareStrategies();
    DeclareSpeculation();
    DeclareConstrained();
    DeclareLora();
    DeclareConcurrency();
    DeclareDecisions();
    DeclareServe();
    DeclareOverload();
    DeclareJobs();
    DeclareMqtt();
    DeclareKernels();
    DeclarePerplexity();
    DeclareAgreement();
    DeclareCompare();
    DeclareRender();
    encode_.Declare(
        [this](const char* name, const char* help, std::function<Result<bench::Report>()> run) {
          return Add(name, help, std::move(run));
        },
        [this] { return Progress(); });
  }

  int Run() override {
    const std::vector<std::string> inputs = {
        model_.model,       perplexity_.text, perplexity_.against, agreement_.teacher,
        agreement_.student, agreement_.text,  baseline_,           now_};
    for (const auto& [option, file] : {std::pair{"--json", &json_},
                                       {"--markdown", &markdown_},
                                       {"--svg", &svg_},
                                       {"--html", &html_}}) {
      const Status writable = CheckReportFile(*file, inputs, option);
      if (!writable.ok()) return Fail(writable);
    }
    return run_();
  }

 private:
  CLI::App* Add(const char* name, const char* help, std::function<Result<bench::Report>()> run) {
    CLI::App* command = app_->add_subcommand(name, help);
    command->add_option("--json", json_, "write the figures to this file; - is standard output")
        ->type_name("FILE");
    AddPages(*command);
    AddComparison(*command);
    command
        ->add_option("--compare", baseline_, "stored report (--json) to compare with; slower fails")
        ->type_name("BASELINE")
        ->group("Comparison");
    command->callback(
        [this, run = std::move(run)] { run_ = [this, run] { return Measure(run); }; });
    return command;
  }

  void AddPages(CLI::App& command) {
    for (const auto& [option, help, file] :
         {std::tuple{"--markdown", "write the report as markdown", &markdown_},
          {"--svg", "write the plots, one below the other", &svg_},
          {"--html", "write one page with tables and plots that needs no other file", &html_}}) {
      command.add_option(option, *file, help)->type_name("FILE")->group("Reports");
    }
  }

  void AddComparison(CLI::App& command) {
    AddNumber(command, "--threshold", threshold_, 0.1, 1000.0,
              "percent of change above which a worse figure counts as slower [5]")
        ->group("Comparison");
    command
        .add_flag("--any-machine", compare_.any_machine,
                  "compare with a baseline of another machine")
        ->group("Comparison");
    command
        .add_flag("--allow-busy", compare_.allow_busy,
                  "judge although other programs used the cores during a run")
        ->group("Comparison");
  }

  void DeclareCompare() {
    CLI::App* command = app_->add_subcommand(
        "compare", "Compare two stored reports; fails if a figure became slower");
    command->footer(
        "Example:\n  tutti bench compare baseline.json now.json --threshold 3\n"
        "A figure is slower if the middle and the best of its samples are, and a rank test says "
        "that the\nsamples differ. Stored reports cannot be measured again: --compare of a bench "
        "does that before it\nfails.");
    command->add_option("BASELINE", baseline_, "report of --json FILE")->required();
    command->add_option("NOW", now_, "a later report of the same bench")->required();
    command->add_option("--json", json_, "write the comparison to this file; - is standard output")
        ->type_name("FILE");
    AddComparison(*command);
    command->callback([this] { run_ = [this] { return CompareStored(); }; });
  }

  void DeclareRender() {
    CLI::App* command =
        app_->add_subcommand("render", "Show a stored report as a page, markdown or plots");
    command->footer(
        "Example:\n  tutti bench render now.json --baseline baseline.json --html now.html");
    command->add_option("REPORT", now_, "report of --json FILE")->required();
    command->add_option("--baseline", baseline_, "stored report that is drawn in the same plots")
        ->type_name("FILE");
    AddPages(*command);
    command->callback([this] { run_ = [this] { return RenderStored(); }; });
  }

  void DeclareEngine() {
    CLI::App* command = Add("engine", "Prefill and decode straight in the engine, no HTTP", [this] {
      forward_.model = model_.model;
      forward_.flags = model_.flags;
      forward_.slowdown = slowdown_percent_ / 100;
      forward_.least_fusion = forward_.fusion ? kLeastFusion : 0;
      return bench::BenchForward(forward_, Progress());
    });
    command->footer(
        "Example:\n  tutti bench engine smollm2-135m-instruct --prompt 512 --gen 1 --batch 1");
    model_.AddTo(*command, true);
    AddNumber(*command, "--prompt", forward_.prompt_tokens, 1, 1 << 20,
              "tokens of each prompt [128]");
    AddNumber(*command, "--gen", forward_.new_tokens, 1, 1 << 20,
              "tokens decoded after the first [64]");
    AddNumbers(*command, "--batch", forward_.batches, 1, 1024,
               "concurrent sequences [1,4,8,16,32]");
    AddNumber(*command, "--repeat", forward_.repeats, 1, 1000, "runs of each batch [3]");
    AddNumber(*command, "--seed", forward_.seed, uint64_t{0}, kMaxSeed, "seed of the prompts [1]");
    AddNumber(*command, "--inject-slowdown", slowdown_percent_, 0.0, 1000.0,
              "percent of waiting added to each step, to test --compare [0]");
    command->add_flag(
        "--fusion", forward_.fusion,
        "gated comparison with unfused layers: equal tokens, and 1.1 x decode at batch 1");
  }

  void DeclareStrategies() {
    CLI::App* command = Add(
        "strategies", "Blocking, interleaved and continuous batching side by side, gated", [this] {
          strategies_.model = model_.model;
          strategies_.flags = model_.flags;
          if (requests_ > 0) {
            strategies_.shapes = {{requests_, tokens_, 0}};
            strategies_.gated = false;
          }
          return bench::BenchStrategies(strategies_, Progress());
        });
    command->footer("Example:\n  tutti bench strategies --requests 5 --tokens 30");
    model_.AddTo(*command, false);
    AddNumber(*command, "--requests", requests_, 1, 1024,
              "number of requests, instead of the gated sizes");
    AddNumber(*command, "--tokens", tokens_, 2, 100000,
              "output tokens of each request, with --requests [30]");
    AddNumber(*command, "--rounds", strategies_.rounds, 1, 1000, "alternating runs [5]");
    AddNumber(*command, "--max-num-seqs,--lanes", strategies_.max_num_seqs, 1, 1024,
              "sequences that run together in a step [16]");
  }

  void DeclareSpeculation() {
    CLI::App* command =
        Add("speculation",
            "Proposed tokens against none, on texts that repeat and texts that do not", [this] {
              speculation_.model = model_.model;
              speculation_.flags = model_.flags;
              if (!draft_.empty()) speculation_.flags["draft"] = draft_;
              const bench::SpeculationOptions stated;
              speculation_.gated = draft_.empty() && speculation_.new_tokens == stated.new_tokens &&
                                   speculation_.max_num_seqs == stated.max_num_seqs;
              return bench::BenchSpeculation(speculation_, Progress());
            });
    command->footer("Example:\n  tutti bench speculation --rounds 9");
    model_.AddTo(*command, false);
    AddNumber(*command, "--tokens", speculation_.new_tokens, 2, 100000,
              "output tokens of each request [96]");
    AddNumber(*command, "--rounds", speculation_.rounds, 1, 1000, "alternating runs [5]");
    AddNumbers(*command, "--max-num-seqs,--lanes", speculation_.max_num_seqs, 1, 1024,
               "concurrent requests [1,8]");
    command
        ->add_option("--draft", draft_, "draft model of the same vocabulary; turns the gates off")
        ->check(ModelName());
  }

  void DeclareLora() {
    CLI::App* command = Add("lora", "Decoding with LoRA adapters against the base, gated", [this] {
      lora_.model = model_.model;
      lora_.flags = model_.flags;
      return bench::BenchLora(lora_, Progress());
    });
    command->footer(
        "Example:\n  tutti bench lora smollm2-135m-instruct --lora a.gguf --adapters 4 --batch 8");
    model_.AddTo(*command, true);
    command->add_option("--lora", lora_.paths, "adapters, a GGUF or a folder each; repeatable")
        ->required();
    AddNumber(*command, "--adapters", lora_.adapters, 1, 1024,
              "adapters in memory, copies of the files in turn [4]");
    AddNumber(*command, "--batch", lora_.batch, 1, 1024, "concurrent sequences [8]");
    AddNumber(*command, "--prompt", lora_.prompt_tokens, 1, 1 << 20, "tokens of each prompt [128]");
    AddNumber(*command, "--gen", lora_.new_tokens, 1, 1 << 20,
              "tokens decoded after the first [64]");
    AddNumber(*command, "--rounds", lora_.rounds, 1, 1000, "alternating runs [5]");
    AddNumber(*command, "--min-ratio", lora_.least_ratio, 0.0, 10.0,
              "minimum ratio of the rates of decoding [0.7]");
  }

  void DeclareConstrained() {
    CLI::App* command =
        Add("constrained", "Answers under a JSON schema against free text, and the cost of masks",
            [this] {
              constrained_.model = model_.model;
              constrained_.flags = model_.flags;
              return bench::BenchConstrained(constrained_, Progress());
            });
    command->footer("Example:\n  tutti bench constrained --rounds 9");
    model_.AddTo(*command, false);
    AddNumber(*command, "--tokens", constrained_.free_tokens, 2, 100000,
              "output tokens of each free answer [96]");
    AddNumber(*command, "--rounds", constrained_.rounds, 1, 1000, "alternating runs [5]");
  }

  void DeclareConcurrency() {
    CLI::App* command = Add(
        "concurrency",
        "The same sampled requests from 1, 4 and 8 clients at once, gated at these sizes", [this] {
          concurrency_.model = model_.model;
          concurrency_.flags = model_.flags;
          std::sort(concurrency_.levels.begin(), concurrency_.levels.end());
          // Gates apply only at their stated sizes.
          const bench::ConcurrencyOptions stated;
          concurrency_.gated = concurrency_.requests == stated.requests &&
                               concurrency_.new_tokens == stated.new_tokens &&
                               concurrency_.levels == stated.levels;
          return bench::BenchConcurrency(concurrency_, Progress());
        });
    command->footer("Example:\n  tutti bench concurrency --json concurrency.json");
    model_.AddTo(*command, false);
    AddNumber(*command, "--requests", concurrency_.requests, 1, 100000,
              "requests at each level [100]");
    AddNumber(*command, "--tokens", concurrency_.new_tokens, 1, 100000,
              "output tokens of each request [50]");
    AddNumbers(*command, "--concurrency", concurrency_.levels, 1, 1024, "clients [1,4,8]");
  }

  void DeclareDecisions() {
    CLI::App* command =
        Add("decisions", "Decisions about texts, one or several questions in each call", [this] {
          decisions_.model = model_.model;
          decisions_.flags = model_.flags;
          return bench::BenchDecisions(decisions_, Progress());
        });
    command->footer(
        "Example:\n  tutti bench decisions --questions 1,16 --concurrency 8 --json decisions.json");
    model_.AddTo(*command, false);
    AddNumber(*command, "--tokens", decisions_.tokens, 1, 1 << 20, "tokens of each text [64]");
    AddNumber(*command, "--labels", decisions_.labels, 2, bench::kMaxBenchLabels,
              "labels of each question [2]");
    AddNumbers(*command, "--questions", decisions_.questions, 1, 400,
               "questions about each text [1,16]");
    AddNumber(*command, "--concurrency", decisions_.clients, 1, 1024, "clients [8]");
    AddNumber(*command, "--max-num-seqs,--lanes", decisions_.max_num_seqs, 1, 1024,
              "sequences that run together in a step [32]");
    AddNumber(*command, "--decisions", decisions_.decisions, 1, 10000000,
              "minimum decisions of each row [512]");
    AddNumber(*command, "--seed", decisions_.seed, uint64_t{0}, kMaxSeed, "seed of the texts [1]");
    AddNumber(*command, "--min-rate", decisions_.least_rate, 0.0, 1e9,
              "minimum decisions per second; below it the command fails (none)");
  }

  void DeclareServe() {
    CLI::App* command = Add("serve", "Load on any OpenAI-compatible server, closed or open loop",
                            [this]() -> Result<bench::Report> {
                              serve_.chat = !completions_;
                              serve_.ignore_eos = !natural_end_;
                              ASSIGN_OR_RETURN(serve_.arrivals, bench::ArrivalsFromName(arrivals_));
                              ASSIGN_OR_RETURN(serve_.workload, bench::WorkloadFromName(workload_));
                              ASSIGN_OR_RETURN(serve_.api_key, app::ApiKey(""));
                              serve_.cache_salt = CacheSalt();
                              return bench::BenchServe(serve_, Progress());
                            });
    command->footer(
        "Examples:\n"
        "  tutti bench serve --url http://127.0.0.1:8080 --concurrency 1,4,8 --requests 100\n"
        "  tutti bench serve --url http://127.0.0.1:8080 --rate 4 --arrivals poisson --requests "
        "200\n"
        "No level finds its prompts in a prefix cache: every level has other prompts, the same "
        "for the\n"
        "same --seed, and every run another --cache-salt. A key is taken from TUTTI_API_KEY.");
    command
        ->add_option("--url", serve_.url, "server address, http://HOST:PORT, with or without /v1")
        ->required();
    command->add_option("--model", serve_.model,
                        "requested model (default: the first the server lists)");
    CLI::Option* concurrency = AddNumbers(*command, "--concurrency", serve_.concurrency, 1, 1024,
                                          "closed loop: clients [1,4,8]");
    CLI::Option* rate = AddNumber(*command, "--rate", serve_.rate, 0.001, 100000.0,
                                  "open loop: requests per second")
                            ->excludes(concurrency);
    command
        ->add_flag("--sweep", serve_.sweep,
                   "additional open loops at 0.5, 0.8, 1.0 and 1.2 of the last level's rate")
        ->excludes(rate);
    command->add_option("--arrivals", arrivals_, "open loop: fixed, poisson or burst [poisson]");
    command->add_option("--workload", workload_,
                        "prompts: random, chat (mixed lengths) or shared (prefix) [random]");
    AddNumber(*command, "--requests", serve_.requests, 1, 100000, "requests of each level [100]");
    AddNumber(*command, "--prompt-tokens", serve_.prompt_tokens, 1, 100000,
              "approximate words of each prompt [128]");
    AddNumber(*command, "--max-tokens", serve_.max_tokens, 1, 100000, "output tokens [64]");
    AddNumber(*command, "--seed", serve_.seed, uint64_t{0}, kMaxSeed,
              "seed of prompts and arrivals; each level has other prompts [1]");
    command->add_option(
        "--cache-salt", cache_salt_,
        "prefix cache salt of each request; only equal salts share; none = no field "
        "(default: a new one for each run)");
    command->add_flag("--completions", completions_,
                      "/v1/completions instead of /v1/chat/completions");
    command->add_flag("--natural-end", natural_end_,
                      "answers end where the model ends them (no ignore_eos)");
    AddNumber(*command, "--target-ttft-ms", serve_.target_ttft_ms, 0.0, 3.6e6,
              "target counted in goodput; 0 = no target [0]");
    AddNumber(*command, "--target-tpot-ms", serve_.target_tpot_ms, 0.0, 3.6e6,
              "target counted in goodput; 0 = no target [0]");
  }

  void DeclareOverload() {
    bench::ServeOptions& load = overload_.load;
    CLI::App* command = Add("overload", "More load on a server than it can serve, open loop, gated",
                            [this]() -> Result<bench::Report> {
                              ASSIGN_OR_RETURN(overload_.load.api_key, app::ApiKey(""));
                              overload_.load.cache_salt = CacheSalt();
                              return bench::BenchOverload(overload_, Progress());
                            });
    command->footer(
        "Example:\n"
        "  tutti bench overload --url http://127.0.0.1:8080 --seconds 600 --target-ttft-ms 2000\n"
        "How long an answer waits that was not refused is the length of the server's queue: see\n"
        "--queue of tutti serve. A key is taken from TUTTI_API_KEY.");
    command->add_option("--url", load.url, "server address, http://HOST:PORT, with or without /v1")
        ->required();
    command->add_option("--model", load.model,
                        "requested model (default: the first the server lists)");
    AddNumber(*command, "--concurrency", overload_.clients, 1, 1024,
              "clients of the closed loop that measures the peak [16]");
    AddNumbers(*command, "--factors", overload_.factors, 0.1, 1000.0,
               "multiples of the peak rate, one open loop each [1.2,3,10]");
    AddNumber(*command, "--seconds", overload_.seconds, 1.0, 86400.0, "seconds of each load [60]");
    AddNumber(*command, "--slice", overload_.slice_s, 1.0, 86400.0,
              "maximum seconds of load between two measurements of the peak [60]");
    AddNumber(*command, "--connections", overload_.connections, 1, 1024,
              "connections of the open loops [256]");
    AddNumber(*command, "--prompt-tokens", load.prompt_tokens, 1, 100000,
              "approximate words of each prompt [32]");
    AddNumber(*command, "--max-tokens", load.max_tokens, 1, 100000, "output tokens [32]");
    AddNumber(*command, "--seed", load.seed, uint64_t{0}, kMaxSeed,
              "seed of prompts and arrivals [1]");
    AddNumber(*command, "--target-ttft-ms", load.target_ttft_ms, 0.0, 3.6e6,
              "target for 99 % of answered requests, counted in goodput; 0 = no target [0]");
    AddNumber(*command, "--back-within", overload_.back_within, 1.0, 1000.0,
              "factor of the idle server's time to first text that counts as recovered [1.1]");
  }

  void DeclareJobs() {
    bench::ServeOptions& load = jobs_.load;
    CLI::App* command = Add("jobs", "Durable jobs of a server, and accepts on this disk, gated",
                            [this]() -> Result<bench::Report> {
                              ASSIGN_OR_RETURN(jobs_.load.api_key, app::ApiKey(""));
                              jobs_.load.cache_salt = CacheSalt();
                              return bench::BenchJobs(jobs_, Progress());
                            });
    command->footer(
        "Examples:\n"
        "  tutti bench jobs --url http://127.0.0.1:8080 --jobs 5000\n"
        "  tutti bench jobs --folder /var/lib/tutti   what this disk accepts, without a server\n"
        "The server's other jobs of this key are waited for, and its queue is paused meanwhile. A "
        "key is\n"
        "taken from TUTTI_API_KEY.");
    command->add_option(
        "--url", load.url,
        "server address, http://HOST:PORT, with or without /v1 (default: no server, "
        "the accepts alone)");
    command->add_option("--model", load.model,
                        "requested model (default: the first the server lists)");
    AddNumber(*command, "--jobs", jobs_.jobs, 1, 1000000,
              "jobs that run alone, and with each number of interactive clients [5000]");
    AddNumber(*command, "--lines", jobs_.lines, 0, 50000,
              "lines of a batch that runs alone; 0 = no batch [5000]");
    AddNumbers(*command, "--interactive", jobs_.interactive, 1, 1024,
               "interactive clients, timed alone and with jobs [1,8]");
    AddNumber(*command, "--submitters", jobs_.submitters, 1, 256, "connections [8]");
    AddNumber(*command, "--concurrency", jobs_.clients, 1, 1024,
              "clients of the closed loop that measures the peak [16]");
    AddNumber(*command, "--probes", jobs_.probes, 1, 100000,
              "requests of each of those clients [200]");
    AddNumber(*command, "--prompt-tokens", load.prompt_tokens, 1, 100000,
              "approximate words of each prompt [32]");
    AddNumber(*command, "--max-tokens", load.max_tokens, 1, 100000, "output tokens [32]");
    AddNumber(*command, "--seed", load.seed, uint64_t{0}, kMaxSeed, "seed of the prompts [1]");
    command->add_option(
        "--folder", jobs_.folder,
        "folder on the disk whose accepts are timed (default: that of temporary files)");
    AddNumber(*command, "--seconds", jobs_.seconds, 0.1, 3600.0,
              "seconds for each number of accepts [2]");
    AddNumbers(*command, "--at-once", jobs_.at_once, 1, 4096, "concurrent accepts [1,8,64,256]");
  }

  void DeclareMqtt() {
    CLI::App* command =
        Add("mqtt", "Chats over MQTT compared with HTTP, gated at these sizes", [this] {
          if (!mqtt_load_.url.empty()) return MeasureMqttServer();
          mqtt_.model = model_.model.empty() ? mqtt_.model : model_.model;
          mqtt_.flags = model_.flags;
          const bench::MqttBenchOptions stated;
          mqtt_.gated = mqtt_.pair_tokens == stated.pair_tokens && mqtt_.pairs == stated.pairs &&
                        mqtt_.dialog_turns == stated.dialog_turns &&
                        mqtt_.idle_sessions == stated.idle_sessions;
          return bench::BenchMqtt(mqtt_, Progress());
        });
    command->footer(
        "Example:\n  tutti bench mqtt --json mqtt.json\n"
        "Without MODEL: smollm2-135m-instruct.\n"
        "The requests go to an MQTT listener and an HTTP server of this process, on loopback.\n"
        "Times are shown with their goals; ratios are gates.\n"
        "  tutti bench mqtt --url mqtt://127.0.0.1:1883 --concurrency 1,10\n"
        "drives a server of another process, directly or through a broker, and has no gates.");
    model_.AddTo(*command, false);
    CLI::Option* url = command->add_option("--url", mqtt_load_.url,
                                           "MQTT server or broker to drive, mqtt[s]://HOST[:PORT]");
    for (const char* option : {"MODEL", "--threads", "--isa", "--dtype", "--kv-cache-bytes"})
      url->excludes(command->get_option(option));
    command->add_option("--topic-prefix", mqtt_load_.prefix, "prefix of the users' topics [llm/v1]")
        ->needs(url);
    command->add_option("--user", mqtt_load_.user, "client i is the user NAME-i [bench]")
        ->type_name("NAME")
        ->needs(url);
    AddNumber(*command, "--prompt-tokens", mqtt_load_.prompt_tokens, 1, 100000,
              "approximate words of each message [32]")
        ->needs(url);
    AddNumbers(*command, "--concurrency", mqtt_.concurrency, 1, 1024, "clients [1,10,100]");
    AddNumber(*command, "--requests", mqtt_.requests, 1, 100000,
              "requests of each level and round [100]");
    AddNumber(*command, "--rounds", mqtt_.rounds, 1, 1000,
              "alternating rounds of MQTT and HTTP [2]");
    AddNumber(*command, "--tokens", mqtt_.tokens, 1, 100000, "output tokens of each request [32]");
    AddNumber(*command, "--pairs", mqtt_.pairs, 0, 100000,
              "repetitions of two projects together and alone [20]");
    AddNumber(*command, "--pair-tokens", mqtt_.pair_tokens, 1, 100000,
              "output tokens with --pairs [64]");
    AddNumber(*command, "--bursts", mqtt_.bursts, 0, 100000,
              "repetitions of three messages at once [200]");
    AddNumber(*command, "--turns", mqtt_.dialog_turns, 0, 100000, "turns of the long dialog [60]");
    AddNumber(*command, "--sessions", mqtt_.idle_sessions, 0, 100000, "idle sessions [1000]");
  }

  void DeclareKernels() {
    CLI::App* command =
        Add("kernels", "Matrix products, attention and norms against the machine's limits",
            [this] { return bench::BenchKernels(kernels_, Progress()); });
    command->footer(
        "Example:\n  tutti bench kernels --isa avx2 --json kernels.json\n"
        "  tutti bench kernels --formats Q4_0,Q6");
    command->add_option("--isa", kernels_.isa,
                        "instruction set (default: the best this machine has)");
    AddNumber(*command, "--threads", kernels_.threads, 1, 1024,
              "compute threads (default: the cores this process may use)");
    command
        ->add_option("--formats", kernels_.formats,
                     "weight formats, named as in the table (default: all)")
        ->delimiter(',');
    command->add_flag("--quick", kernels_.quick, "short check of a few points");
  }

  void DeclarePerplexity() {
    CLI::App* command =
        Add("perplexity", "Perplexity of a model on a text, and against another form of it",
            [this]() -> Result<bench::Report> {
              if ((perplexity_.max_ratio > 0 || perplexity_.least_agreement > 0) &&
                  perplexity_.against.empty()) {
                return InvalidArgument("invalid_value",
                                       "--max-ratio and --min-agreement need --against");
              }
              perplexity_.model = model_.model;
              perplexity_.flags = model_.flags;
              return bench::BenchPerplexity(perplexity_, Progress());
            });
    command->footer(
        "Examples:\n"
        "  tutti bench perplexity smollm2-135m-instruct --text tests/golden/text.txt --against "
        "f32\n"
        "  tutti bench perplexity model-q8_0.gguf --text text.txt --against model-f16.gguf:f32 \\\n"
        "      --max-ratio 1.01 --min-agreement 98\n"
        "The text is read as plain text: control tokens spelled in it are not recognised. If the\n"
        "model's texts begin with BOS, each window does.");
    model_.AddTo(*command, true);
    command->add_option("--text", perplexity_.text, "a file of UTF-8 text")
        ->required()
        ->type_name("FILE");
    command->add_option(
        "--against", perplexity_.against,
        "dtype (f32) or model (OTHER.gguf, OTHER.gguf:f32) to compare with; KV type by "
        "its dtype");
    AddNumber(*command, "--window", perplexity_.window, 2, 1 << 20, "tokens in one window [512]");
    AddNumber(*command, "--tokens", perplexity_.tokens, 2, 1 << 24,
              "maximum tokens of the text [10000]");
    AddNumber(*command, "--max-ratio", perplexity_.max_ratio, 0.0, 1000.0,
              "maximum ratio of the perplexities; above it the command fails (none)");
    AddNumber(*command, "--min-agreement", perplexity_.least_agreement, 0.0, 100.0,
              "minimum percent of positions with equal most probable tokens; below it the command "
              "fails (none)");
  }

  void DeclareAgreement() {
    CLI::App* command =
        Add("agreement", "Agreement and speed of a student and its teacher on a text", [this] {
          agreement_.flags = model_.flags;
          return bench::BenchAgreement(agreement_, Progress());
        });
    command->footer(
        "Examples:\n"
        "  tutti bench agreement teacher.gguf student.gguf --text prompts.txt\n"
        "  tutti bench agreement bge-large/ bge-small/ --text questions.txt --min-agreement 90\n"
        "Decoders are compared by their most probable tokens, embedding models by the cosines of\n"
        "the text's lines.");
    command->add_option("TEACHER", agreement_.teacher, "model that sets the standard")->required();
    command->add_option("STUDENT", agreement_.student, "model that is compared with it")
        ->required();
    model_.AddFlags(*command);
    command->add_option("--text", agreement_.text, "a file of UTF-8 text")
        ->required()
        ->type_name("FILE");
    AddNumber(*command, "--window", agreement_.window, 2, 1 << 20,
              "decoders: tokens in one window [512]");
    AddNumber(*command, "--tokens", agreement_.tokens, 2, 1 << 24,
              "decoders: maximum tokens of the text [10000]");
    AddNumber(*command, "--lines", agreement_.lines, 3, 4096,
              "embedding models: maximum lines of the text [512]");
    AddNumber(
        *command, "--min-agreement", agreement_.least_agreement, 0.0, 100.0,
        "minimum percent of equal tokens, or 100 x cosine; below it the command fails (none)");
  }

  Result<bench::Report> MeasureMqttServer() {
    mqtt_load_.concurrency = mqtt_.concurrency;
    mqtt_load_.requests = mqtt_.requests;
    mqtt_load_.tokens = mqtt_.tokens;
    return bench::BenchMqttLoad(mqtt_load_, Progress());
  }

  // The given salt, or a random one, unique to this run.
  std::string CacheSalt() const {
    if (!cache_salt_.empty()) return cache_salt_ == "none" ? "" : cache_salt_;
    std::random_device device;
    return fmt::format("bench-{:08x}{:08x}", device(), device());
  }

  // Lines are printed as soon as they are known; to standard error if standard output takes a
  // report.
  std::function<void(const std::string&)> Progress() const {
    const bool taken = json_ == "-" || markdown_ == "-" || svg_ == "-" || html_ == "-";
    std::FILE* out = taken ? stderr : stdout;
    return [out](const std::string& line) {
      std::fprintf(out, "%s\n", line.c_str());
      std::fflush(out);
    };
  }

  using RunBench = std::function<Result<bench::Report>()>;

  // Runs a bench. With --compare, a bench with figures that may be slower than the baseline's runs
  // again, and all samples are judged together: a host or another program that took the cores for a
  // while is gone by then, a slower program is not.
  int Measure(const RunBench& run) {
    if (baseline_.empty()) return Finish(run());
    const Result<boost::json::object> baseline = bench::ReadReport(baseline_);
    if (!baseline.ok()) return Fail(baseline.status());
    compare_.threshold = threshold_ / 100;
    std::vector<bench::Figure> figures;
    for (int measurement = 1;; ++measurement) {
      Result<bench::Report> report = run();
      if (!report.ok() || !report->failures.empty()) return Finish(report);
      bench::AddSamples(report->figures, &figures);
      report->figures = figures;
      const Result<bench::Comparison> comparison =
          bench::CompareReports(*baseline, bench::ReportJson(*report), compare_);
      if (!comparison.ok()) return Fail(comparison.status());
      PrintLines(comparison->Text());
      const std::vector<std::string> slower = comparison->Slower();
      const std::vector<std::string> suspect = comparison->Suspect();
      if (!suspect.empty() && measurement < kMeasurements) {
        PrintLines(fmt::format("measured again, {} of {}, because of: {}", measurement + 1,
                               kMeasurements, fmt::join(suspect, "; ")));
        continue;
      }
      boost::json::object json = comparison->Json();
      json["baseline"] = baseline_;
      json["measurements"] = measurement;
      report->json["comparison"] = std::move(json);
      for (const std::string& name : slower) report->failures.push_back("slower: " + name);
      return Finish(report);
    }
  }

  int CompareStored() {
    compare_.threshold = threshold_ / 100;
    const Result<boost::json::object> before = bench::ReadReport(baseline_);
    if (!before.ok()) return Fail(before.status());
    const Result<boost::json::object> after = bench::ReadReport(now_);
    if (!after.ok()) return Fail(after.status());
    const Result<bench::Comparison> comparison = bench::CompareReports(*before, *after, compare_);
    if (!comparison.ok()) return Fail(comparison.status());
    PrintLines(comparison->Text());
    boost::json::object json = comparison->Json();
    json["schema"] = "tutti.bench.compare.v1";
    if (const Status written = WriteReportFile(json_, json); !written.ok()) return Fail(written);
    return PrintFailures(comparison->Slower(), "slower: ");
  }

  int RenderStored() {
    if (markdown_.empty() && svg_.empty() && html_.empty()) markdown_ = "-";
    const Result<boost::json::object> report = bench::ReadReport(now_);
    if (!report.ok()) return Fail(report.status());
    const Status written = WritePages(*report);
    return written.ok() ? kExitOk : Fail(written);
  }

  // Writes the forms that were asked for, with the figures of the baseline in the plots.
  Status WritePages(const boost::json::object& report) const {
    boost::json::object stored;
    if (!baseline_.empty()) {
      ASSIGN_OR_RETURN(stored, bench::ReadReport(baseline_));
    }
    const boost::json::object* baseline = baseline_.empty() ? nullptr : &stored;
    if (!markdown_.empty()) {
      ASSIGN_OR_RETURN(const std::string text, bench::MarkdownOf(report));
      RETURN_IF_ERROR(WriteReportText(markdown_, text, "--markdown"));
    }
    if (!svg_.empty()) {
      ASSIGN_OR_RETURN(const std::vector<bench::Plot> plots, bench::PlotsOf(report, baseline));
      RETURN_IF_ERROR(WriteReportText(svg_, bench::ToSvg(plots), "--svg"));
    }
    if (!html_.empty()) {
      ASSIGN_OR_RETURN(const std::string page, bench::HtmlOf(report, baseline));
      RETURN_IF_ERROR(WriteReportText(html_, page, "--html"));
    }
    return OkStatus();
  }

  void PrintLines(const std::string& text) const {
    std::string line;
    for (std::istringstream lines(text); std::getline(lines, line);) Progress()(line);
  }

  static int PrintFailures(const std::vector<std::string>& failures, const char* what = "") {
    for (const std::string& failure : failures)
      std::fprintf(stderr, "tutti bench: FAILED: %s%s\n", what, failure.c_str());
    return failures.empty() ? kExitOk : kExitFailed;
  }

  int Finish(const Result<bench::Report>& report) const {
    if (!report.ok()) return Fail(report.status());
    const boost::json::object json = bench::ReportJson(*report);
    for (const Status& written : {WriteReportFile(json_, json), WritePages(json)}) {
      if (!written.ok()) return Fail(written);
    }
    return PrintFailures(report->failures);
  }

  std::function<int()> run_;
  ModelFlags model_;
  std::string json_, markdown_, svg_, html_, baseline_, now_;
  double threshold_ = 100 * bench::kCompareThreshold;
  bench::CompareOptions compare_;
  bench::ForwardOptions forward_;
  double slowdown_percent_ = 0;
  bench::StrategiesOptions strategies_;
  bench::SpeculationOptions speculation_;
  std::string draft_;
  int requests_ = 0, tokens_ = 30;
  bench::LoraOptions lora_;
  bench::ConstrainedOptions constrained_;
  bench::ConcurrencyOptions concurrency_;
  bench::DecisionsOptions decisions_;
  bench::ServeOptions serve_;
  bench::JobsOptions jobs_;
  bench::OverloadOptions overload_;
  std::string arrivals_ = "poisson", workload_ = "random";
  std::string cache_salt_;
  bool completions_ = false, natural_end_ = false;
  bench::KernelsOptions kernels_;
  bench::PerplexityOptions perplexity_;
  bench::AgreementOptions agreement_;
  bench::MqttBenchOptions mqtt_;
  bench::MqttLoadOptions mqtt_load_;
  EncodeBenches encode_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace tutti::cli
