#include "kernels/testing/attention_test_rig.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/check.h"
#include "kernels/rows_rope.h"

namespace tutti::kernels::testing {

std::string Variant::Name() const {
  return std::string(IsaName(isa)) + (format == KvFormat::kF32  ? "_float"
                                      : format == KvFormat::kI8 ? "_8bit"
                                                                : "_16bit");
}

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (Isa isa : DetectIsas()) {
    if (isa == Isa::kAvxVnni || isa == Isa::kI8mm)
      continue;  // share the attention of the one before
    const AttentionKernels& kernels = KernelsFor(isa).attention;
    variants.push_back({isa, KvFormat::kF32, &kernels});
    variants.push_back({isa, kernels.native16, &kernels});
    variants.push_back({isa, KvFormat::kI8, &kernels});
  }
  return variants;
}

Rig::Rig(const Variant& variant, const AttentionShape& shape, int32_t blocks, uint64_t seed)
    : variant_(variant),
      shape_(shape),
      layout_(MakeKvLayout(variant.format, shape.kv_heads, shape.head_dim)),
      random_(seed),
      block_stride_(layout_.layer_bytes + 128) {
  CHECK(AttentionShapeFault(shape) == nullptr) << AttentionShapeFault(shape);
  const size_t bytes = block_stride_ * static_cast<size_t>(blocks);
  pool_ = MakeAligned<std::byte>(bytes);
  std::memset(pool_.get(), 0, bytes);
  for (int32_t b = 0; b < blocks; ++b) free_.push_back(b);
  if (shape.rope_mode != RopeMode::kNone) {
    const RopeTable table(
        {.dims = shape.rope_dims, .freq_base = 10000.0, .linear_factor = 1.0, .freq_factors = {}},
        blocks * kBlockTokens);
    cos_sin_.assign(table.data(),
                    table.data() + static_cast<size_t>(table.positions() * table.dims()));
  }
}

int32_t Rig::TakeBlock() {
  CHECK(!free_.empty());
  const size_t i = random_.Below(free_.size());
  std::swap(free_[i], free_.back());
  const int32_t block = free_.back();
  free_.pop_back();
  return block;
}

size_t Rig::AddSequence(int32_t tokens) {
  RigSequence sequence;
  sequence.tokens = tokens;
  const size_t width = static_cast<size_t>((shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim);
  sequence.qkv.resize(width * static_cast<size_t>(tokens));
  for (float& x : sequence.qkv) {
    // Four 16-bit uniforms in one draw: near enough to a normal distribution, standard
    // deviation 1.2.
    const uint64_t bits = random_.Next();
    double sum = -2;
    for (int i = 0; i < 64; i += 16) sum += static_cast<double>(bits >> i & 0xFFFF) / 65536.0;
    x = static_cast<float>(2 * sum);
  }
  sequence.out.resize(static_cast<size_t>(tokens * shape_.heads * shape_.head_dim));
  for (int32_t t = 0; t < tokens; t += kBlockTokens) sequence.blocks.push_back(TakeBlock());
  sequences_.push_back(std::move(sequence));
  return sequences_.size() - 1;
}

size_t Rig::AddFork(size_t parent, int32_t shared, int32_t tokens) {
  CHECK(shared % kBlockTokens == 0 && shared <= sequences_[parent].done);
  const size_t fork = AddSequence(tokens);
  RigSequence& sequence = sequences_[fork];
  const RigSequence& from = sequences_[parent];
  const size_t width = sequence.qkv.size() / static_cast<size_t>(tokens);
  std::copy_n(from.qkv.begin(), width * static_cast<size_t>(shared), sequence.qkv.begin());
  const size_t out_width = sequence.out.size() / static_cast<size_t>(tokens);
  std::copy_n(from.out.begin(), out_width * static_cast<size_t>(shared), sequence.out.begin());
  for (int32_t b = 0; b < shared / kBlockTokens; ++b) {
    free_.push_back(sequence.blocks[static_cast<size_t>(b)]);
    sequence.blocks[static_cast<size_t>(b)] = from.blocks[static_cast<size_t>(b)];
  }
  sequence.done = shared;
  return fork;
}

size_t Rig::AddCopy(size_t original) {
  const size_t copy = AddSequence(sequences_[original].tokens);
  sequences_[copy].qkv = sequences_[original].qkv;
  return copy;
}

void Rig::Spoil(size_t sequence, int32_t position, float value) {
  const auto width = static_cast<size_t>((shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim);
  float* row = sequences_[sequence].qkv.data() + static_cast<size_t>(position) * width;
  std::fill(row + shape_.heads * shape_.head_dim, row + width, value);
}

void Rig::PoisonFreeBlocks() {
  for (int32_t block : free_) {
    std::byte* at = pool_.get() + static_cast<size_t>(block) * block_stride_;
    for (size_t i = 0; i < layout_.layer_bytes; i += 4) {
      const float value = i % 8 == 0 ? std::numeric_limits<float>::quiet_NaN() : 3e38f;
      std::memcpy(at + i, &value, 4);
    }
  }
}

void Rig::Step(const std::vector<StepRows>& rows, int workers, bool share_prefixes) {
  const size_t head_dim = static_cast<size_t>(shape_.head_dim);
  const size_t width = static_cast<size_t>(shape_.heads + 2 * shape_.kv_heads) * head_dim;
  const size_t out_width = static_cast<size_t>(shape_.heads) * head_dim;
  const size_t stride = width + 16;
  std::vector<AttentionSequence> batch;
  int32_t total = 0;
  for (const StepRows& r : rows) {
    const RigSequence& sequence = sequences_[r.sequence];
    CHECK_LE(sequence.done + r.rows, sequence.tokens);
    batch.push_back({sequence.blocks.data(), sequence.done, r.rows, total, both_ways_});
    total += r.rows;
  }
  AlignedArray<float> qkv = MakeAligned<float>(stride * static_cast<size_t>(total));
  AlignedArray<float> out = MakeAligned<float>(out_width * static_cast<size_t>(total));
  size_t row = 0;
  for (const StepRows& r : rows) {
    const RigSequence& sequence = sequences_[r.sequence];
    for (int32_t i = 0; i < r.rows; ++i, ++row) {
      std::copy_n(sequence.qkv.data() + static_cast<size_t>(sequence.done + i) * width, width,
                  qkv.get() + row * stride);
    }
  }
  std::vector<std::vector<int32_t>> tables(plan_of_window_ ? batch.size() : 0);
  for (size_t i = 0; i < tables.size(); ++i) {
    tables[i] = sequences_[rows[i].sequence].blocks;
    const int32_t seen = FirstSeen(batch[i].start) / kBlockTokens;
    std::fill_n(tables[i].begin(), seen, 1 << 30);  // reading it ends the process
    batch[i].blocks = tables[i].data();
  }
  plan_.Build(shape_, batch, workers, share_prefixes,
              plan_of_window_ ? window_ : AttentionWindow{});
  AlignedArray<float> partials = MakeAligned<float>(plan_.partial_floats());
  const KvLayerView view = {pool_.get(), block_stride_, layout_.head_bytes};
  const RopeAppendArgs append = {
      shape_, layout_, view, qkv.get(), stride, plan_.places().data(), cos_sin_.data()};
  const AttentionArgs args = {
      shape_,    layout_,   view,           qkv.get(), stride,
      out.get(), out_width, partials.get(), window_,   sinks_.empty() ? nullptr : sinks_.data()};

  // A plan that counts is run twice, as two layers would: it must be ready again after the first.
  // Appending twice writes the same.
  const int layers = plan_.partial_floats() > 0 ? 2 : 1;
  const size_t q_copy = stride * static_cast<size_t>(total);
  std::vector<float> unrotated(qkv.get(), qkv.get() + q_copy);
  for (int layer = 0; layer < layers; ++layer) {
    std::copy(unrotated.begin(), unrotated.end(), qkv.get());
    std::atomic<int32_t> next_row{0};
    std::atomic<int32_t> next_item{0};
    std::atomic<int> appended{0};
    const auto work = [&] {
      for (int32_t r; (r = next_row.fetch_add(5)) < total;) {
        variant_.kernels->rope_append(append, r, std::min(r + 5, total));
      }
      appended.fetch_add(1);
      while (appended.load() < workers) std::this_thread::yield();
      AlignedArray<std::byte> scratch =
          MakeAligned<std::byte>(variant_.kernels->scratch_bytes(shape_));
      for (int32_t i; (i = next_item.fetch_add(1)) < plan_.items();) {
        variant_.kernels->run_item(args, plan_.work(), i, scratch.get());
      }
    };
    std::vector<std::thread> threads;
    for (int w = 1; w < workers; ++w) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

  row = 0;
  for (const StepRows& r : rows) {
    RigSequence& sequence = sequences_[r.sequence];
    std::copy_n(out.get() + row * out_width, out_width * static_cast<size_t>(r.rows),
                sequence.out.data() + static_cast<size_t>(sequence.done) * out_width);
    row += static_cast<size_t>(r.rows);
    sequence.done += r.rows;
  }
}

int32_t Rig::FirstSeen(int32_t position) const {
  const int32_t tokens = window_.tokens;
  if (tokens == 0) return 0;
  return window_.aligned ? position / tokens * tokens : std::max(position - tokens + 1, 0);
}

void Rig::Run(size_t sequence, int32_t chunk, int workers) {
  while (sequences_[sequence].done < sequences_[sequence].tokens) {
    const int32_t left = sequences_[sequence].tokens - sequences_[sequence].done;
    Step({{sequence, std::min(chunk, left)}}, workers);
  }
}

const double* Rig::Rotated(RigSequence& sequence, int32_t position) const {
  const size_t head_dim = static_cast<size_t>(shape_.head_dim);
  const size_t width = static_cast<size_t>(shape_.heads + 2 * shape_.kv_heads) * head_dim;
  for (size_t t = sequence.rotated.size() / width; t <= static_cast<size_t>(position); ++t) {
    const float* row = sequence.qkv.data() + t * width;
    sequence.rotated.insert(sequence.rotated.end(), row, row + width);
    if (shape_.rope_mode == RopeMode::kNone) continue;
    double* x = sequence.rotated.data() + t * width;
    const size_t half = static_cast<size_t>(shape_.rope_dims) / 2;
    const bool adjacent = shape_.rope_mode == RopeMode::kAdjacent;
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / shape_.rope_dims);
      const double c = std::cos(angle);
      const double s = std::sin(angle);
      for (size_t h = 0; h < static_cast<size_t>(shape_.heads + shape_.kv_heads); ++h) {
        double& a = x[h * head_dim + (adjacent ? 2 * i : i)];
        double& b = x[h * head_dim + (adjacent ? 2 * i + 1 : half + i)];
        const double rotated = a * c - b * s;
        b = a * s + b * c;
        a = rotated;
      }
    }
  }
  return sequence.rotated.data();
}

std::vector<double> Rig::Reference(RigSequence& sequence, int32_t position) const {
  const size_t width = static_cast<size_t>((shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim);
  const int32_t ahead = window_.tokens > 0 ? window_.tokens : sequence.tokens;
  const int32_t last = both_ways_ ? std::min(position + ahead, sequence.tokens) - 1 : position;
  const double* rows = Rotated(sequence, last);
  const size_t count = static_cast<size_t>(last) + 1;
  const double* query = rows + static_cast<size_t>(position) * width;
  const size_t head_dim = static_cast<size_t>(shape_.head_dim);
  const size_t heads = static_cast<size_t>(shape_.heads);
  const size_t group = heads / static_cast<size_t>(shape_.kv_heads);
  const size_t k_at = heads * head_dim;
  const size_t v_at = k_at + static_cast<size_t>(shape_.kv_heads) * head_dim;
  std::vector<double> out(heads * head_dim);
  const auto first = static_cast<size_t>(FirstSeen(position));
  const auto cap = static_cast<double>(shape_.softcap);
  std::vector<double> score(count);
  for (size_t h = 0; h < heads; ++h) {
    double greatest = -1e300;
    for (size_t t = first; t < count; ++t) {
      double dot = 0;
      for (size_t d = 0; d < head_dim; ++d) {
        dot += query[h * head_dim + d] * rows[t * width + k_at + h / group * head_dim + d];
      }
      score[t] = dot * static_cast<double>(shape_.scale);
      if (cap > 0) score[t] = cap * std::tanh(score[t] / cap);
      greatest = std::max(greatest, score[t]);
    }
    if (!sinks_.empty()) greatest = std::max(greatest, static_cast<double>(sinks_[h]));
    double sum = sinks_.empty() ? 0 : std::exp(static_cast<double>(sinks_[h]) - greatest);
    for (size_t t = first; t < count; ++t) {
      const double p = std::exp(score[t] - greatest);
      sum += p;
      for (size_t d = 0; d < head_dim; ++d)
        out[h * head_dim + d] += p * rows[t * width + v_at + h / group * head_dim + d];
    }
    for (size_t d = 0; d < head_dim; ++d) out[h * head_dim + d] /= sum;
  }
  return out;
}

double RelativeError(const std::vector<double>& reference, const float* values) {
  double difference = 0;
  double norm = 1e-30;
  for (size_t i = 0; i < reference.size(); ++i) {
    difference += (values[i] - reference[i]) * (values[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace tutti::kernels::testing
