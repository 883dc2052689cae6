// WeightArena: plans where every matrix and vector of a model goes, allocates once, then reads and
// packs them on several threads into memory that is read-only from then on.
//
// Used once, by one thread, in this order: Expect and Plan*, Build, then matrix(). The store
// outlives it. What it plans is laid out in the order of the calls: plan in the order a step reads,
// so that a step streams the arena forwards.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "kernels/aligned_buffer.h"
#include "kernels/pack.h"
#include "model/tensor_store.h"
#include "packed/file.h"

namespace tutti::model {

class WeightArena {
 public:
  using Tensors = std::vector<const StoredTensor*>;

  explicit WeightArena(const TensorStore& store) : store_(store) {}

  // The tensor of that name and shape. Errors: model_tensor_missing, the store's shape code.
  Result<const StoredTensor*> Expect(const std::string& name, const tensor::Shape& shape);
  // Error model_hparam for the first tensor that no Expect() call named and `known` does not
  // accept: the file then has another architecture than it states. `architecture`: "a llama model
  // of 30 layers".
  Status RefuseOthers(const std::string& architecture,
                      const std::function<bool(std::string_view)>& known) const;

  // Columns of a matrix and of its inputs brought to like magnitudes (smooth_quant.h).
  struct Balance {
    std::span<const float> peaks;  // of the inputs, one per column; kept by the caller until Build
    const float** input_factors;   // set by Build: what the inputs' columns are multiplied by
  };

  // How the rows of a matrix for the gated epilogues lie in its tensors.
  enum class GateUp {
    kNone,       // the matrix has no gate
    kTwo,        // two tensors: gate, up
    kGateFirst,  // one tensor: all rows of gate, then all of up
    kUpFirst,    // one tensor: all rows of up, then all of gate
  };
  // A matrix of the tensors' rows, one tensor after another, or with the rows of gate and up
  // interleaved. Returns its number. `balance` may be nullptr. Errors: of CheckPack (model_hparam,
  // gguf_unsupported_type).
  Result<size_t> PlanMatrix(Tensors tensors, kernels::WeightFormat format, GateUp gate_up,
                            const Balance* balance = nullptr);
  Result<size_t> PlanMatrix(Tensors tensors, kernels::WeightFormat format, bool gate_up = false) {
    return PlanMatrix(std::move(tensors), format, gate_up ? GateUp::kTwo : GateUp::kNone);
  }
  // Floats of the tensors one after another, each times `scale`, then zeros up to `padded`; *target
  // is set by Build. With `gate_up` in the order of such a matrix's rows.
  void PlanVector(Tensors tensors, const float** target, size_t padded = 0, float scale = 1,
                  GateUp gate_up = GateUp::kNone);

  // Floats of a matrix of some columns, its columns as rows. `factors`: of its rows; empty: all 1.
  void PlanTransposed(const StoredTensor* tensor, const float** target,
                      std::vector<float> factors = {});

  // Matrix `number`, planned as F16 or BF16, is read from a packed checkpoint as such and held as
  // BF16x2. With ReadPacked only.
  void HoldInPairs(size_t number);

  // `threads` pack, the calling one included. `progress` is called on the calling thread with the
  // bytes packed so far and in all; false abandons the load (cancelled). Errors: of reading,
  // model_nonfinite, gguf_unsupported_type, cancelled, out_of_memory, internal_error for threads
  // that cannot be had.
  Result<kernels::AlignedBuffer> Build(int threads,
                                       const std::function<bool(size_t, size_t)>& progress);
  // Instead of Build: what Build made, from a packed checkpoint, which no tensor is read from. It
  // holds bytes() of weights. `threads` and `progress` as there. Errors: packed_checksum,
  // packed_truncated; cancelled, out_of_memory and internal_error as there.
  Result<kernels::AlignedBuffer> ReadPacked(const packed::File& file, int threads,
                                            const std::function<bool(size_t, size_t)>& progress);
  // Memory that Build allocates for everything planned so far.
  size_t bytes() const { return bytes_; }
  // Its geometry once planned, its data after Build.
  const kernels::PackedMatrix& matrix(size_t number) const { return matrices_[number].packed; }

 private:
  struct MatrixJob {
    Tensors tensors;
    kernels::WeightFormat format;
    GateUp gate_up;
    kernels::PackedMatrix packed;
    size_t offset;  // in the arena
    std::optional<Balance> balance;
    bool in_pairs = false;      // HoldInPairs; `format` is the file's, packed.format the arena's
    size_t factors_offset = 0;  // in the arena, of balance->input_factors
  };
  struct VectorJob {
    Tensors tensors;
    const float** target;
    size_t floats;  // padding included
    size_t offset;
    float scale;
    GateUp gate_up;
    size_t columns = 0;               // of a matrix to be transposed; 0: none
    std::vector<float> factors = {};  // of its rows; empty: all 1
  };
  // With the names of the job's tensors.
  static kernels::PackSpec SpecOf(const MatrixJob& job, std::vector<tensor::TensorView> views);
  static kernels::PackSpec MakeSpec(const MatrixJob& job,
                                    const std::vector<const std::byte*>& data);
  Status PackBalanced(const MatrixJob& job);
  using Progress = std::function<bool(size_t, size_t)>;
  Status LoadVectors();
  Status PackAll(int threads, const Progress& progress);
  // Work(progress) on `threads` threads; the calling one alone gets a `progress`.
  Status RunOn(int threads, const std::function<void(const Progress*)>& work,
               const Progress& progress);
  void Pack(const std::vector<size_t>& order, const Progress* progress);
  void ReadPieces(const packed::File& file, const Progress* progress);
  void PairUp();
  // Reports that `bytes` more are in the arena; false cancels the load.
  bool Report(size_t bytes, const Progress* progress);
  Result<kernels::AlignedBuffer> Finish();
  Status PackOne(const MatrixJob& job, std::vector<std::byte>& buffer);
  void Fail(Status status) EXCLUDES(mutex_);

  const TensorStore& store_;
  size_t bytes_ = 0;  // of the arena, as planned
  kernels::AlignedBuffer arena_;
  std::vector<MatrixJob> matrices_;
  std::vector<VectorJob> vectors_;
  std::set<size_t> expected_;  // StoredTensor::index

  std::atomic<size_t> next_{0};
  std::atomic<size_t> packed_bytes_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> out_of_memory_{false};
  Mutex mutex_;
  Status failure_ GUARDED_BY(mutex_);  // the first
};

}  // namespace tutti::model
