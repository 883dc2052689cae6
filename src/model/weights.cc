#include "model/weights.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/quote.h"
#include "tensor/tensor_view.h"

namespace tutti::model {
namespace {

using gguf::TensorInfo;
using kernels::WeightFormat;

constexpr size_t kLine = 64;

size_t RoundUpToLine(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// A matrix to pack: from which tensors, how, and where its description goes.
struct MatrixJob {
  std::vector<const TensorInfo*> tensors;
  WeightFormat format = WeightFormat::kF32;
  bool gate_up = false;  // two tensors, interleaved
  kernels::PackedMatrix packed;
  size_t offset = 0;  // in the arena
};

// A vector of floats.
struct VectorJob {
  const TensorInfo* tensor;
  const float** target;
  size_t offset;
};

kernels::PackSpec MakeSpec(const MatrixJob& job, const std::vector<const std::byte*>& data) {
  std::vector<tensor::TensorView> views;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    views.push_back({job.tensors[i]->dtype(), job.tensors[i]->shape, data[i]});
  }
  if (job.gate_up) return kernels::InterleaveGateUp(views[0], views[1], job.format);
  return kernels::ConcatenateRows(std::move(views), job.format);
}

}  // namespace

int Projection::columns() const { return panels() * kernels::kPanelRows; }

int Projection::panels() const {
  int panels = 0;
  for (const kernels::PackedMatrix& part : parts) panels += kernels::PanelCount(part);
  return panels;
}

bool Projection::reads_quantized() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return kernels::IsQuantized(p.format); });
}

bool Projection::reads_floats() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return !kernels::IsQuantized(p.format); });
}

// Plans what goes where, allocates once, then reads and packs matrix by matrix on several threads.
class WeightsLoader {
 public:
  WeightsLoader(const gguf::File& file, const LoadOptions& options)
      : file_(file), options_(options), weights_(new Weights()) {}

  Result<std::shared_ptr<const Weights>> Load() {
    ASSIGN_OR_RETURN(weights_->config_, ReadModelConfig(file_));
    weights_->mode_ = options_.mode;
    weights_->fused_ = options_.fuse;
    RETURN_IF_ERROR(Plan());
    RETURN_IF_ERROR(RefuseOtherTensors());
    ASSIGN_OR_RETURN(weights_->arena_, kernels::AlignedBuffer::Allocate(bytes_));
    RETURN_IF_ERROR(LoadVectors());
    RETURN_IF_ERROR(PackAll());
    RETURN_IF_ERROR(file_.CheckUnchanged());
    Link();
    if (mprotect(weights_->arena_.data(), weights_->arena_.size(), PROT_READ) != 0) {
      return Internal("cannot make the weights read-only");
    }
    return std::shared_ptr<const Weights>(std::move(weights_));
  }

 private:
  // Where a projection's parts are among the jobs, to be linked once packed.
  struct PartsOf {
    Projection* projection;
    size_t first_job;
    size_t jobs;
  };

  Result<const TensorInfo*> Expect(const std::string& name, tensor::Shape shape) {
    const TensorInfo* info = file_.FindTensor(name);
    if (info == nullptr) {
      return InvalidArgument("model_tensor_missing", "the file does not have the tensor " + name);
    }
    if (info->shape != shape) {
      return InvalidArgument("gguf_shape",
                             fmt::format("tensor {} is {}, the hyper-parameters ask for {}", name,
                                         info->shape.ToString(), shape.ToString()));
    }
    expected_.insert(info);
    return info;
  }

  WeightFormat FormatOf(const TensorInfo& info) const {
    return options_.mode == WeightMode::kF32 ? WeightFormat::kF32
                                             : kernels::NativeFormat(info.dtype());
  }

  Status PlanMatrix(std::vector<const TensorInfo*> tensors, WeightFormat format, bool gate_up) {
    MatrixJob job;
    job.tensors = std::move(tensors);
    job.format = format;
    job.gate_up = gate_up;
    const kernels::PackSpec spec =
        MakeSpec(job, std::vector<const std::byte*>(job.tensors.size(), nullptr));
    RETURN_IF_ERROR(kernels::CheckPack(spec));
    job.packed = kernels::DescribePacked(spec);
    job.offset = bytes_;
    bytes_ += RoundUpToLine(kernels::PackedBytes(job.packed));
    matrices_.push_back(std::move(job));
    return OkStatus();
  }

  // Matrices that share their input, as few parts as their types allow.
  Status PlanProjection(const std::vector<const TensorInfo*>& tensors, Projection* out) {
    const size_t first = matrices_.size();
    const auto same_format = [&](const TensorInfo* t) {
      return FormatOf(*t) == FormatOf(*tensors[0]);
    };
    const auto whole_panels = [](const TensorInfo* t) {
      return t->shape.rows() % kernels::kPanelRows == 0;
    };
    if (std::all_of(tensors.begin(), tensors.end(), same_format)) {
      RETURN_IF_ERROR(PlanMatrix(tensors, FormatOf(*tensors[0]), false));
    } else if (std::all_of(tensors.begin(), tensors.end(), whole_panels)) {
      for (const TensorInfo* tensor : tensors)
        RETURN_IF_ERROR(PlanMatrix({tensor}, FormatOf(*tensor), false));
    } else {
      // Parts must start on a panel; where their heights and types both forbid it, floats hold
      // every type.
      RETURN_IF_ERROR(PlanMatrix(tensors, WeightFormat::kF32, false));
    }
    links_.push_back({out, first, matrices_.size() - first});
    return OkStatus();
  }

  Status PlanGateUp(const TensorInfo* gate, const TensorInfo* up, LayerWeights& layer) {
    if (!options_.fuse) {
      RETURN_IF_ERROR(PlanProjection({gate}, &layer.gate));
      return PlanProjection({up}, &layer.up);
    }
    const bool same = FormatOf(*gate) == FormatOf(*up);
    links_.push_back({&layer.gate_up, matrices_.size(), 1});
    return PlanMatrix({gate, up}, same ? FormatOf(*gate) : WeightFormat::kF32, true);
  }

  Status PlanVector(const std::string& name, const float** target) {
    ASSIGN_OR_RETURN(const TensorInfo* info, Expect(name, {weights_->config_.width}));
    vectors_.push_back({info, target, bytes_});
    bytes_ += RoundUpToLine(static_cast<size_t>(info->shape.elements()) * sizeof(float));
    return OkStatus();
  }

  Status PlanLayer(int index) {
    const ModelConfig& c = weights_->config_;
    const std::string prefix = fmt::format("blk.{}.", index);
    LayerWeights& layer = weights_->layers_[static_cast<size_t>(index)];
    RETURN_IF_ERROR(PlanVector(prefix + "attn_norm.weight", &layer.attn_norm));
    ASSIGN_OR_RETURN(const TensorInfo* q, Expect(prefix + "attn_q.weight", {c.width, c.q_rows()}));
    ASSIGN_OR_RETURN(const TensorInfo* k, Expect(prefix + "attn_k.weight", {c.width, c.kv_rows()}));
    ASSIGN_OR_RETURN(const TensorInfo* v, Expect(prefix + "attn_v.weight", {c.width, c.kv_rows()}));
    if (options_.fuse) {
      RETURN_IF_ERROR(PlanProjection({q, k, v}, &layer.qkv));
    } else {
      RETURN_IF_ERROR(PlanProjection({q}, &layer.q));
      RETURN_IF_ERROR(PlanProjection({k}, &layer.k));
      RETURN_IF_ERROR(PlanProjection({v}, &layer.v));
    }
    ASSIGN_OR_RETURN(const TensorInfo* o,
                     Expect(prefix + "attn_output.weight", {c.q_rows(), c.width}));
    RETURN_IF_ERROR(PlanProjection({o}, &layer.attn_output));
    RETURN_IF_ERROR(PlanVector(prefix + "ffn_norm.weight", &layer.ffn_norm));
    ASSIGN_OR_RETURN(const TensorInfo* gate,
                     Expect(prefix + "ffn_gate.weight", {c.width, c.feed_forward}));
    ASSIGN_OR_RETURN(const TensorInfo* up,
                     Expect(prefix + "ffn_up.weight", {c.width, c.feed_forward}));
    RETURN_IF_ERROR(PlanGateUp(gate, up, layer));
    ASSIGN_OR_RETURN(const TensorInfo* down,
                     Expect(prefix + "ffn_down.weight", {c.feed_forward, c.width}));
    return PlanProjection({down}, &layer.down);
  }

  // In the order a step reads them, so that it streams the arena forwards.
  Status Plan() {
    const ModelConfig& c = weights_->config_;
    weights_->layers_.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) RETURN_IF_ERROR(PlanLayer(i));
    RETURN_IF_ERROR(PlanVector("output_norm.weight", &weights_->output_norm_));
    ASSIGN_OR_RETURN(const TensorInfo* embedding,
                     Expect("token_embd.weight", {c.width, c.vocab_size}));
    const TensorInfo* head = embedding;
    if (!c.tied_head) {
      ASSIGN_OR_RETURN(head, Expect("output.weight", {c.width, c.vocab_size}));
    }
    RETURN_IF_ERROR(PlanProjection({head}, &weights_->head_));
    if (c.tied_head) return OkStatus();
    // Looked up, never multiplied; its own format keeps the file's numbers.
    RETURN_IF_ERROR(PlanMatrix({embedding}, FormatOf(*embedding), false));
    embedding_job_ = matrices_.size() - 1;
    return OkStatus();
  }

  // A tensor nobody reads means the file is of another architecture than it says.
  Status RefuseOtherTensors() const {
    for (const TensorInfo& info : file_.tensors()) {
      if (expected_.count(&info) != 0 || info.name == "rope_freqs.weight") continue;
      return InvalidArgument(
          "model_hparam",
          fmt::format("tensor {} does not belong to a {} model of {} layers", Quote(info.name),
                      weights_->config_.architecture, weights_->config_.layers));
    }
    return OkStatus();
  }

  Status LoadVectors() {
    for (const VectorJob& job : vectors_) {
      ASSIGN_OR_RETURN(const std::vector<float> values, file_.ReadFloats(*job.tensor));
      for (const float value : values) {
        if (!std::isfinite(value)) {
          return InvalidArgument(
              "model_nonfinite",
              fmt::format("tensor {} holds a value that is not finite", job.tensor->name));
        }
      }
      auto* out = reinterpret_cast<float*>(weights_->arena_.data() + job.offset);
      std::copy(values.begin(), values.end(), out);
      *job.target = out;
    }
    return OkStatus();
  }

  Status PackOne(const MatrixJob& job, std::vector<std::byte>& buffer) {
    size_t size = 0;
    for (const TensorInfo* tensor : job.tensors) size += RoundUpToLine(tensor->bytes);
    if (buffer.size() < size) buffer.resize(size);
    std::vector<const std::byte*> data;
    size_t at = 0;
    for (const TensorInfo* tensor : job.tensors) {
      RETURN_IF_ERROR(file_.Read(*tensor, 0, std::span(buffer).subspan(at, tensor->bytes)));
      data.push_back(buffer.data() + at);
      at += RoundUpToLine(tensor->bytes);
    }
    auto* out = reinterpret_cast<uint8_t*>(weights_->arena_.data() + job.offset);
    Status status =
        kernels::PackPanels(MakeSpec(job, data), 0, kernels::PanelCount(job.packed), out);
    if (status.ok()) return status;
    std::string names;
    for (const TensorInfo* tensor : job.tensors)
      names.append(names.empty() ? "" : ", ").append(tensor->name);
    return std::move(status).WithContext(names);
  }

  void PackerMain(const std::vector<size_t>& order, bool reports) {
    try {
      Pack(order, reports);
    } catch (const std::bad_alloc&) {
      out_of_memory_.store(true);  // a message would need some
      stop_.store(true);
    }
  }

  // Takes matrices one by one, the largest first, until none is left or somebody failed.
  void Pack(const std::vector<size_t>& order, bool reports) {
    std::vector<std::byte> buffer;
    for (size_t i = next_.fetch_add(1); i < order.size() && !stop_.load(); i = next_.fetch_add(1)) {
      const MatrixJob& job = matrices_[order[i]];
      if (Status status = PackOne(job, buffer); !status.ok()) {
        Fail(std::move(status));
        return;
      }
      const size_t done = packed_bytes_.fetch_add(kernels::PackedBytes(job.packed)) +
                          kernels::PackedBytes(job.packed);
      if (reports && options_.progress && !options_.progress(done, bytes_)) Fail(Abandoned());
    }
  }

  void Fail(Status status) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
    stop_.store(true);
  }

  static Status Abandoned() {
    return {StatusCode::kCancelled, "cancelled", "the load was abandoned"};
  }

  Status PackAll() {
    std::vector<size_t> order(matrices_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return kernels::PackedBytes(matrices_[a].packed) > kernels::PackedBytes(matrices_[b].packed);
    });
    {
      std::vector<std::jthread> threads;  // joined when this scope ends, however it ends
      try {
        for (int i = 1; i < options_.threads; ++i) {
          threads.emplace_back([this, &order] { PackerMain(order, false); });
        }
        PackerMain(order, true);
      } catch (const std::system_error& error) {
        Fail(Internal(std::string("cannot start a thread: ") + error.what()));
      }
    }
    if (out_of_memory_.load()) return Internal("not enough memory to pack the weights");
    {
      const MutexLock lock(mutex_);
      if (!failure_.ok()) return failure_;
    }
    if (options_.progress && !options_.progress(bytes_, bytes_)) return Abandoned();
    return OkStatus();
  }

  void Link() {
    for (MatrixJob& job : matrices_) {
      job.packed.data = reinterpret_cast<const uint8_t*>(weights_->arena_.data() + job.offset);
    }
    for (const PartsOf& link : links_) {
      for (size_t i = 0; i < link.jobs; ++i) {
        link.projection->parts.push_back(matrices_[link.first_job + i].packed);
      }
    }
    weights_->embedding_ =
        weights_->config_.tied_head ? weights_->head_.parts[0] : matrices_[embedding_job_].packed;
  }

  const gguf::File& file_;
  const LoadOptions& options_;
  std::unique_ptr<Weights> weights_;

  size_t bytes_ = 0;  // of the arena, as planned
  std::vector<MatrixJob> matrices_;
  std::vector<VectorJob> vectors_;
  std::vector<PartsOf> links_;
  size_t embedding_job_ = 0;
  std::set<const TensorInfo*> expected_;

  std::atomic<size_t> next_{0};
  std::atomic<size_t> packed_bytes_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> out_of_memory_{false};
  Mutex mutex_;
  Status failure_ GUARDED_BY(mutex_);  // the first
};

Result<std::shared_ptr<const Weights>> Weights::Load(const gguf::File& file,
                                                     const LoadOptions& options) {
  CHECK_GE(options.threads, 1);
  return WeightsLoader(file, options).Load();
}

}  // namespace tutti::model
