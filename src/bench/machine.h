// The machine that runs a bench: its peak rates, whether it ran at its usual speed, and the time of
// a model's steps at those peaks. Shared hosts change speed from second to second, so a figure
// means little without the machine's limits.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "kernels/kernels.h"
#include "kernels/machine_limits.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace tutti::bench {

// {"cpu", "cores", "threads", "isa", "read_gb_s", "int8_gops", "f32_gflops", "bf16_gflops"}: the
// last is 0 if the instruction set has no bfloat16.
boost::json::object MachineJson(const kernels::MachineLimits& limits);
std::string MachineLine(const kernels::MachineLimits& limits);  // the same for people

// Guards against a slowed machine: measures the limits again and compares them with the best seen.
// One thread.
class Calibration {
 public:
  // `guard` false: measures once and accepts the machine as it is (for tests, which ignore the
  // figures).
  Calibration(kernels::Isa isa, int threads, bool guard = true);
  // Measures (about 150 ms). True when both the int8 and the read rate reach 90 % of the best seen
  // so far, and other programs took at most 10 % of the cores meanwhile.
  bool AtFullSpeed();
  const kernels::MachineLimits& best() const { return best_; }
  // MachineJson() of the best, and "others_cpu": the share of its cores that other programs, or the
  // host, took during the measurements. Without it where this is unknown: before AtFullSpeed(), and
  // where this process may use only some of the cores.
  boost::json::object Json() const;

 private:
  const bool guard_;
  kernels::MachineLimits best_;
  double core_s_ = 0, others_s_ = 0;  // core time of all measurements, and what others had of it
};

// Lower bound of the reads and operations of a forward pass. Matrices count in their format in
// memory, which may differ from the file's; a mixture of experts counts the experts that one row is
// routed to.
struct ModelCost {
  double weight_bytes = 0;    // of all matrices, the head included
  double body_int8_ops = 0;   // of one row through the layers, quantised matrices
  double body_float_ops = 0;  // the same of float matrices
  double body_bf16_ops = 0;   // the same of bfloat16 matrices
  double head_int8_ops = 0;   // of one row through the head
  double head_float_ops = 0;
  double head_bf16_ops = 0;
  double kv_bytes_per_token = 0;     // of the cache, all layers
  double attention_ops_per_key = 0;  // of one query row and one visible key, all layers and heads

  // Works for weights that are loaded and for weights that are only planned.
  static ModelCost Of(const model::Weights& weights, const kernels::KernelTable& kernels,
                      model::KvDtype kv_dtype = model::KvDtype::kByWeights);

  // Least seconds of a step at the machine's limits: the larger of (bytes read / read rate) and
  // (operations / peaks). Norms, sampling and barriers count as free.
  double DecodeSeconds(const kernels::MachineLimits& limits, int sequences, double context) const;
  // ... of one pass over `sequences` prompts of `tokens` each, in steps of `chunk` rows; one row of
  // each meets the head.
  double PrefillSeconds(const kernels::MachineLimits& limits, int sequences, int tokens,
                        int chunk = 512) const;

 private:
  // Time of the matrix products alone: `rows` rows through the layers, `head_rows` of them through
  // the head.
  double ProductSeconds(const kernels::MachineLimits& limits, double rows, double head_rows) const;
};

}  // namespace tutti::bench
