#include "bench/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "base/threads.h"
#include "kernels/pack.h"
#include "model/config.h"
#include "model/decoder.h"

namespace tutti::bench {
namespace {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

// Processor time of this process, of all its threads.
double OwnSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Time in which any core worked for any program, or was taken by the host; 0 if it is unknown, and
// where this process may use only some of the cores, whose share is not known.
double BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string line;
  double busy = 0;
  int cores = 0;
  while (std::getline(file, line) && line.starts_with("cpu")) {
    if (line.starts_with("cpu ")) {
      std::istringstream fields(line.substr(4));
      double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;
      fields >> user >> nice >> system >> idle >> wait >> irq >> soft >> stolen;
      busy =
          (user + nice + system + irq + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK));
    } else {
      ++cores;
    }
  }
  return cores == UsableCores() ? busy : 0;
}

// Operations a second of the attention products: 16-bit multiply-adds run at half the int8 rate
// where the kernels use them, float ones elsewhere.
double AttentionRate(const kernels::MachineLimits& limits) {
  // The int8 rate is that of tiles, and attention uses vectors: twice as many as of floats.
  if (limits.isa == kernels::Isa::kAmx) return 2 * limits.float32_ops_per_s;
  const bool int16 =
      limits.isa == kernels::Isa::kAvx512Vnni || limits.isa == kernels::Isa::kAvx512Bf16;
  const double wide = int16 ? limits.int8_ops_per_s / 2 : 0;
  return std::max(wide, limits.float32_ops_per_s);
}

}  // namespace

boost::json::object Calibration::Json() const {
  boost::json::object json = MachineJson(best_);
  if (core_s_ > 0) json["others_cpu"] = others_s_ / core_s_;
  return json;
}

boost::json::object MachineJson(const kernels::MachineLimits& limits) {
  return {{"cpu", CpuName()},
          {"cores", UsableCores()},
          {"threads", limits.threads},
          {"isa", kernels::IsaName(limits.isa)},
          {"read_gb_s", limits.read_bytes_per_s / 1e9},
          {"int8_gops", limits.int8_ops_per_s / 1e9},
          {"f32_gflops", limits.float32_ops_per_s / 1e9},
          {"bf16_gflops", limits.bf16_ops_per_s / 1e9}};
}

std::string MachineLine(const kernels::MachineLimits& limits) {
  std::string line = fmt::format(
      "{}, {} threads, {}: read {:.1f} GB/s, int8 {:.0f} GOPS, float32 {:.0f} GFLOPS", CpuName(),
      limits.threads, kernels::IsaName(limits.isa), limits.read_bytes_per_s / 1e9,
      limits.int8_ops_per_s / 1e9, limits.float32_ops_per_s / 1e9);
  if (limits.bf16_ops_per_s > 0)
    line += fmt::format(", bfloat16 {:.0f} GFLOPS", limits.bf16_ops_per_s / 1e9);
  return line;
}

Calibration::Calibration(kernels::Isa isa, int threads, bool guard)
    : guard_(guard), best_(kernels::MeasureMachineLimits(isa, threads)) {}

bool Calibration::AtFullSpeed() {
  if (!guard_) return true;
  const SteadyClock clock;
  const TimePoint start = clock.Now();
  const double busy = BusySeconds(), own = OwnSeconds();
  const kernels::MachineLimits now = kernels::MeasureMachineLimits(best_.isa, best_.threads);
  // Cores that the bench leaves free may work for others.
  const double wall_s = ToSeconds(clock.Now() - start), core_s = best_.threads * wall_s;
  const double used_s = BusySeconds() - busy - (OwnSeconds() - own);
  const double others_s =
      std::clamp(used_s - (UsableCores() - best_.threads) * wall_s, 0.0, core_s);
  if (busy > 0) {
    core_s_ += core_s;
    others_s_ += others_s;
  }
  // The kernel counts in ticks of 10 ms, a thirtieth of the core time of a measurement on two
  // cores.
  const bool alone = busy <= 0 || others_s <= 0.1 * core_s + 0.02;
  const bool full = alone && now.int8_ops_per_s >= 0.9 * best_.int8_ops_per_s &&
                    now.read_bytes_per_s >= 0.9 * best_.read_bytes_per_s;
  best_.int8_ops_per_s = std::max(best_.int8_ops_per_s, now.int8_ops_per_s);
  best_.read_bytes_per_s = std::max(best_.read_bytes_per_s, now.read_bytes_per_s);
  best_.float32_ops_per_s = std::max(best_.float32_ops_per_s, now.float32_ops_per_s);
  best_.bf16_ops_per_s = std::max(best_.bf16_ops_per_s, now.bf16_ops_per_s);
  return full;
}

ModelCost ModelCost::Of(const model::Weights& weights, const kernels::KernelTable& kernels,
                        model::KvDtype kv_dtype) {
  const model::ModelConfig& config = weights.config();
  ModelCost cost;
  const auto add = [&cost](const model::Projection& projection, double share, bool head) {
    for (const kernels::PackedMatrix& matrix : projection.parts) {
      const double ops = share * 2 * matrix.used_rows * matrix.cols;
      if (!kernels::IsQuantized(matrix.format)) {
        (head ? cost.head_float_ops : cost.body_float_ops) += ops;
      } else if (kernels::ActivationScale(matrix) == kernels::ScalePer::kNone) {
        (head ? cost.head_bf16_ops : cost.body_bf16_ops) += ops;
      } else {
        (head ? cost.head_int8_ops : cost.body_int8_ops) += ops;
      }
      cost.weight_bytes += share * static_cast<double>(kernels::PackedBytes(matrix));
    }
  };
  for (int i = 0; i < config.layers; ++i) {
    const model::LayerWeights& layer = weights.layer(i);
    for (const model::Projection* projection :
         {&layer.qkv, &layer.q, &layer.k, &layer.v, &layer.attn_output, &layer.gate_up, &layer.gate,
          &layer.up, &layer.down, &layer.router, &layer.input_gate, &layer.input_output,
          &layer.streams.laurel_left, &layer.streams.laurel_right})
      add(*projection, 1, false);
    const double share = config.experts == 0 ? 0 : 1.0 * config.experts_used / config.experts;
    for (const model::ExpertWeights& expert : layer.experts) {
      add(expert.gate_up, share, false);
      add(expert.down, share, false);
    }
    add(layer.shared_expert.gate_up, 1, false);
    add(layer.shared_expert.down, 1, false);
  }
  add(weights.layer_projection(), 1, false);
  add(weights.stream_inputs(), 1, false);
  for (const model::Projection& output : weights.stream_outputs()) add(output, 1, false);
  add(weights.head(), 1, true);
  cost.kv_bytes_per_token =
      static_cast<double>(model::Decoder::KvBlockBytes(config, weights.mode(), kernels, kv_dtype)) /
      kBlockTokens;
  for (int i = 0; i < config.layers; ++i)  // multiply and add, scores and values
    cost.attention_ops_per_key += 4.0 * config.q_rows(i);
  return cost;
}

double ModelCost::ProductSeconds(const kernels::MachineLimits& limits, double rows,
                                 double head_rows) const {
  const double bf16 = limits.bf16_ops_per_s > 0 ? limits.bf16_ops_per_s : limits.float32_ops_per_s;
  return (rows * body_int8_ops + head_rows * head_int8_ops) / limits.int8_ops_per_s +
         (rows * body_float_ops + head_rows * head_float_ops) / limits.float32_ops_per_s +
         (rows * body_bf16_ops + head_rows * head_bf16_ops) / bf16;
}

double ModelCost::DecodeSeconds(const kernels::MachineLimits& limits, int sequences,
                                double context) const {
  const double n = sequences;
  const double read = (weight_bytes + n * context * kv_bytes_per_token) / limits.read_bytes_per_s;
  const double multiply =
      ProductSeconds(limits, n, n) + n * context * attention_ops_per_key / AttentionRate(limits);
  return std::max(read, multiply);
}

double ModelCost::PrefillSeconds(const kernels::MachineLimits& limits, int sequences, int tokens,
                                 int chunk) const {
  const double n = sequences, rows = n * tokens;
  const double steps = std::ceil(rows / chunk);
  const double read = steps * weight_bytes / limits.read_bytes_per_s;
  const double multiply = ProductSeconds(limits, rows, n) +
                          rows * (tokens + 1) / 2 * attention_ops_per_key / AttentionRate(limits);
  return std::max(read, multiply);
}

}  // namespace tutti::bench
