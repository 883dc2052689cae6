// greedy MODEL.gguf f32|int8 COUNT TOKEN...: prints the greedy continuation of the tokens, COUNT
// long, by every instruction set of this machine: name, then ids.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "kernels/kernels.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"

namespace tutti {
namespace {

template <typename T>
T Need(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

int Main(int argc, char** argv) {
  if (argc < 5) return 2;
  const bool f32 = std::string_view(argv[2]) == "f32";
  const int count = std::atoi(argv[3]);
  std::vector<TokenId> prompt;
  for (int i = 4; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));

  const auto file = Need(gguf::File::Open(argv[1]));
  const auto weights = Need(model::Weights::Load(
      *file, {.mode = f32 ? model::WeightMode::kF32 : model::WeightMode::kInt8, .threads = 1}));
  for (const kernels::Isa isa : kernels::DetectIsas()) {
    runner::CpuRunnerOptions options;
    options.kernels = &kernels::KernelsFor(isa);
    options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 1});
    options.kv_bytes = size_t{64} << 20;
    options.context = 256;
    const auto runner = Need(runner::CpuModelRunner::Create(weights, options));
    runner::DirectDriver driver(*runner);
    const std::vector<int> sequences = {driver.NewSequence()};
    std::vector<TokenId> feed = {Need(driver.Prefill(sequences[0], prompt, 512))};
    for (int i = 1; i < count; ++i) {
      if (!driver.Decode(sequences, feed).ok()) return 1;
    }
    std::printf("%s", kernels::IsaName(isa).data());
    for (const TokenId token : driver.output(sequences[0])) std::printf(" %d", token);
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
