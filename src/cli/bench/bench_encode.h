// The benches of encoders, as sub-commands of `tutti bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/encode_grid.h"
#include "bench/encode_levels.h"
#include "bench/kserve_target.h"
#include "bench/mixed.h"
#include "bench/report.h"

namespace tutti::cli {

class EncodeBenches {
 public:
  using Progress = std::function<void(const std::string&)>;
  // Adds a sub-command that runs `run`; as BenchCommand::Add.
  using Add = std::function<CLI::App*(const char* name, const char* help,
                                      std::function<Result<bench::Report>()> run)>;
  // `progress` is asked for when a bench runs. Outlives the parser.
  void Declare(const Add& add, std::function<Progress()> progress);

 private:
  void AddTarget(CLI::App& command);
  std::vector<CLI::Option*> AddOptions(CLI::App& command);  // of the model side
  void AddShape(CLI::App& command);
  // `options` with the shape that AddShape() declares.
  template <typename Options>
  Options Shaped(Options options) const {
    options.texts = texts_;
    options.tokens = tokens_;
    options.requests = requests_;
    options.warmup = warmup_;
    options.seed = seed_;
    return options;
  }
  Result<std::unique_ptr<bench::EncodeTarget>> Target() const;
  Result<bench::Report> RunLevels(const Progress& progress) const;
  Result<bench::Report> RunGrpc(const Progress& progress) const;

  std::string model_, url_;
  bool kserve_ = false;
  std::map<std::string, std::string> flags_;
  std::vector<int> clients_ = {1, 4, 8};
  int texts_ = 1, tokens_ = 16, requests_ = 500, warmup_ = 50;
  uint64_t seed_ = 1;
  double seconds_ = 0;
  bench::KneeOptions knee_;
  bench::MixedOptions mixed_{.chat_model = "smollm2-135m-instruct", .encoder = "all-minilm-l6-v2"};
  std::string grid_file_, grid_out_ = "grid";
};

}  // namespace tutti::cli
