#include "model/weight_arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "kernels/aligned_buffer.h"
#include "model/smooth_quant.h"

namespace tutti::model {
namespace {

// Runs of 16 rows of gate, then the same 16 of up, where either is one half of the rows.
std::vector<int32_t> InterleavedHalves(int32_t rows, bool up_first) {
  constexpr int32_t kRun = kernels::kPanelRows / 2;
  const int32_t half = rows / 2;
  std::vector<int32_t> order;
  for (int32_t begin = 0; begin < half; begin += kRun) {
    for (const int32_t from : {up_first ? half : 0, up_first ? 0 : half})
      for (int32_t i = 0; i < kRun; ++i) order.push_back(from + begin + i);
  }
  return order;
}

// As kernels::InterleaveGateUp, of one tensor whose first half of rows is the gate's, or up's.
kernels::PackSpec InterleaveHalves(const tensor::TensorView& both, kernels::WeightFormat format,
                                   bool up_first) {
  kernels::PackSpec spec;
  spec.cols = static_cast<int32_t>(both.shape.columns());
  spec.format = format;
  for (const int32_t row : InterleavedHalves(static_cast<int32_t>(both.shape.rows()), up_first))
    spec.rows.push_back({0, row});
  spec.sources = {both};
  return spec;
}

Status Abandoned() { return {StatusCode::kCancelled, "cancelled", "the load was abandoned"}; }

}  // namespace

Result<const StoredTensor*> WeightArena::Expect(const std::string& name,
                                                const tensor::Shape& shape) {
  ASSIGN_OR_RETURN(const StoredTensor* found, model::Expect(store_, name, shape));
  expected_.insert(found->index);
  return found;
}

Status WeightArena::RefuseOthers(const std::string& architecture,
                                 const std::function<bool(std::string_view)>& known) const {
  for (const StoredTensor& tensor : store_.tensors()) {
    if (expected_.count(tensor.index) != 0 || known(tensor.name)) continue;
    return InvalidArgument("model_hparam", fmt::format("tensor {} does not belong to {}",
                                                       Quote(tensor.name), architecture));
  }
  return OkStatus();
}

kernels::PackSpec WeightArena::SpecOf(const MatrixJob& job, std::vector<tensor::TensorView> views) {
  kernels::PackSpec spec;
  switch (job.gate_up) {
    case GateUp::kNone:
      spec = kernels::ConcatenateRows(std::move(views), job.format);
      break;
    case GateUp::kTwo:
      spec = kernels::InterleaveGateUp(views[0], views[1], job.format);
      break;
    case GateUp::kGateFirst:
    case GateUp::kUpFirst:
      spec = InterleaveHalves(views[0], job.format, job.gate_up == GateUp::kUpFirst);
      break;
  }
  for (const StoredTensor* tensor : job.tensors) spec.names.push_back(tensor->Named());
  return spec;
}

kernels::PackSpec WeightArena::MakeSpec(const MatrixJob& job,
                                        const std::vector<const std::byte*>& data) {
  std::vector<tensor::TensorView> views;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    views.push_back({job.tensors[i]->dtype, job.tensors[i]->shape, data[i]});
  }
  return SpecOf(job, std::move(views));
}

Result<size_t> WeightArena::PlanMatrix(Tensors tensors, kernels::WeightFormat format,
                                       GateUp gate_up, const Balance* balance) {
  MatrixJob job{std::move(tensors), format, gate_up, {}, bytes_, std::nullopt};
  const kernels::PackSpec spec =
      MakeSpec(job, std::vector<const std::byte*>(job.tensors.size(), nullptr));
  RETURN_IF_ERROR(kernels::CheckPack(spec));
  job.packed = kernels::DescribePacked(spec);
  bytes_ += kernels::RoundUpToLine(kernels::PackedBytes(job.packed));
  if (balance != nullptr) {
    CHECK_EQ(balance->peaks.size(), static_cast<size_t>(job.packed.cols));
    job.balance = *balance;
    job.factors_offset = bytes_;
    bytes_ += kernels::RoundUpToLine(balance->peaks.size() * sizeof(float));
  }
  matrices_.push_back(std::move(job));
  return matrices_.size() - 1;
}

void WeightArena::PlanVector(Tensors tensors, const float** target, size_t padded, float scale,
                             GateUp gate_up) {
  size_t floats = 0;
  for (const StoredTensor* tensor : tensors)
    floats += static_cast<size_t>(tensor->shape.elements());
  floats = std::max(floats, padded);
  vectors_.push_back({std::move(tensors), target, floats, bytes_, scale, gate_up});
  bytes_ += kernels::RoundUpToLine(floats * sizeof(float));
}

void WeightArena::PlanTransposed(const StoredTensor* tensor, const float** target,
                                 std::vector<float> factors) {
  PlanVector({tensor}, target);
  vectors_.back().columns = static_cast<size_t>(tensor->shape.columns());
  vectors_.back().factors = std::move(factors);
}

Result<kernels::AlignedBuffer> WeightArena::Build(
    int threads, const std::function<bool(size_t, size_t)>& progress) {
  ASSIGN_OR_RETURN(arena_, kernels::AlignedBuffer::Allocate(bytes_));
  RETURN_IF_ERROR(LoadVectors());
  RETURN_IF_ERROR(PackAll(threads, progress));
  RETURN_IF_ERROR(store_.CheckUnchanged());
  return Finish();
}

Result<kernels::AlignedBuffer> WeightArena::ReadPacked(
    const packed::File& file, int threads, const std::function<bool(size_t, size_t)>& progress) {
  CHECK_EQ(file.preamble().weight_bytes, bytes_);
  ASSIGN_OR_RETURN(arena_, kernels::AlignedBuffer::Allocate(bytes_));
  for (const VectorJob& job : vectors_)
    *job.target = reinterpret_cast<const float*>(arena_.data() + job.offset);
  RETURN_IF_ERROR(RunOn(
      threads, [&](const Progress* told) { ReadPieces(file, told); }, progress));
  RETURN_IF_ERROR(file.CheckUnchanged());
  next_ = 0;
  RETURN_IF_ERROR(RunOn(
      threads, [&](const Progress*) { PairUp(); }, nullptr));
  return Finish();
}

void WeightArena::HoldInPairs(size_t number) {
  matrices_[number].in_pairs = true;
  matrices_[number].packed.format = kernels::WeightFormat::kBf16Pairs;
}

Result<kernels::AlignedBuffer> WeightArena::Finish() {
  for (MatrixJob& job : matrices_) {
    job.packed.data = reinterpret_cast<const uint8_t*>(arena_.data() + job.offset);
  }
  if (mprotect(arena_.data(), arena_.size(), PROT_READ) != 0) {
    return Internal("cannot make the weights read-only");
  }
  return std::move(arena_);
}

Status WeightArena::LoadVectors() {
  for (const VectorJob& job : vectors_) {
    auto* out = reinterpret_cast<float*>(arena_.data() + job.offset);
    *job.target = out;
    const float* const end = out + job.floats;
    for (const StoredTensor* tensor : job.tensors) {
      ASSIGN_OR_RETURN(const std::vector<float> values, ReadFinite(store_, *tensor));
      const size_t columns = std::max<size_t>(job.columns, 1);
      for (size_t column = 0; column < columns; ++column) {
        for (size_t i = column; i < values.size(); i += columns) {
          const float factor = job.factors.empty() ? 1 : job.factors[i / columns];
          *out++ = values[i] * job.scale * factor;
        }
      }
    }
    if (job.gate_up != GateUp::kNone) {
      float* const begin = reinterpret_cast<float*>(arena_.data() + job.offset);
      const std::vector<float> values(begin, out);
      const auto order =
          InterleavedHalves(static_cast<int32_t>(values.size()), job.gate_up == GateUp::kUpFirst);
      for (size_t i = 0; i < order.size(); ++i) begin[i] = values[static_cast<size_t>(order[i])];
    }
    while (out != end) *out++ = 0;
  }
  return OkStatus();
}

// As PackOne, of the weights in float32 after their columns were balanced.
Status WeightArena::PackBalanced(const MatrixJob& job) {
  const auto cols = static_cast<size_t>(job.packed.cols);
  std::vector<std::vector<float>> values;
  std::vector<float> greatest(cols, 0.0f);
  for (const StoredTensor* tensor : job.tensors) {
    ASSIGN_OR_RETURN(values.emplace_back(), store_.ReadFloats(*tensor));
    RaiseToMagnitudes(values.back(), greatest);
  }
  const std::vector<float> factors = BalancingFactors(job.balance->peaks, greatest);
  std::vector<tensor::TensorView> views;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; k < values[i].size(); ++k) values[i][k] *= factors[k % cols];
    views.push_back({tensor::DType::kF32, job.tensors[i]->shape,
                     reinterpret_cast<const std::byte*>(values[i].data())});
  }
  auto* inverse = reinterpret_cast<float*>(arena_.data() + job.factors_offset);
  for (size_t k = 0; k < cols; ++k) inverse[k] = 1 / factors[k];
  *job.balance->input_factors = inverse;
  return kernels::PackPanels(SpecOf(job, std::move(views)), 0, kernels::PanelCount(job.packed),
                             reinterpret_cast<uint8_t*>(arena_.data() + job.offset));
}

Status WeightArena::PackOne(const MatrixJob& job, std::vector<std::byte>& buffer) {
  size_t size = 0;
  for (const StoredTensor* tensor : job.tensors) size += kernels::RoundUpToLine(tensor->bytes);
  if (buffer.size() < size) buffer.resize(size);
  std::vector<const std::byte*> data;
  size_t at = 0;
  for (const StoredTensor* tensor : job.tensors) {
    RETURN_IF_ERROR(store_.Read(*tensor, 0, std::span(buffer).subspan(at, tensor->bytes)));
    data.push_back(buffer.data() + at);
    at += kernels::RoundUpToLine(tensor->bytes);
  }
  auto* out = reinterpret_cast<uint8_t*>(arena_.data() + job.offset);
  return kernels::PackPanels(MakeSpec(job, data), 0, kernels::PanelCount(job.packed), out);
}

// Worker function: packs matrices, the largest first, until none is left or a worker failed.
void WeightArena::Pack(const std::vector<size_t>& order, const Progress* progress) {
  std::vector<std::byte> buffer;
  for (size_t i = next_.fetch_add(1); i < order.size() && !stop_.load(); i = next_.fetch_add(1)) {
    const MatrixJob& job = matrices_[order[i]];
    Status status = job.balance ? PackBalanced(job) : PackOne(job, buffer);
    if (!status.ok()) return Fail(std::move(status));
    if (!Report(kernels::PackedBytes(job.packed), progress)) return;
  }
}

// Worker function: reads one piece after the other, so that together the threads read the file
// sequentially.
void WeightArena::ReadPieces(const packed::File& file, const Progress* progress) {
  const uint64_t pieces = file.preamble().pieces();
  for (size_t i = next_.fetch_add(1); i < pieces && !stop_.load(); i = next_.fetch_add(1)) {
    const std::span<std::byte> out(arena_.data() + i * packed::kPieceBytes, file.PieceBytes(i));
    if (Status status = file.ReadPiece(i, out); !status.ok()) return Fail(std::move(status));
    if (!Report(out.size(), progress)) return;
  }
}

void WeightArena::PairUp() {
  for (size_t i = next_.fetch_add(1); i < matrices_.size(); i = next_.fetch_add(1)) {
    const MatrixJob& job = matrices_[i];
    if (!job.in_pairs) continue;
    kernels::PackedMatrix as_read = job.packed;
    as_read.format = job.format;
    kernels::PairUpPanels(as_read, 0, kernels::PanelCount(as_read),
                          reinterpret_cast<uint8_t*>(arena_.data() + job.offset));
  }
}

bool WeightArena::Report(size_t bytes, const Progress* progress) {
  const size_t done = packed_bytes_.fetch_add(bytes) + bytes;
  if (progress == nullptr || !*progress || (*progress)(done, bytes_)) return true;
  Fail(Abandoned());
  return false;
}

void WeightArena::Fail(Status status) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
  stop_.store(true);
}

Status WeightArena::RunOn(int threads, const std::function<void(const Progress*)>& work,
                          const Progress& progress) {
  const auto guarded = [&](const Progress* told) {
    try {
      work(told);
    } catch (const std::bad_alloc&) {
      out_of_memory_.store(true);  // a message would need memory
      stop_.store(true);
    }
  };
  {
    std::vector<std::jthread> helpers;  // joined when this scope ends, however it ends
    try {
      for (int i = 1; i < threads; ++i) helpers.emplace_back(guarded, nullptr);
      guarded(&progress);
    } catch (const std::system_error& error) {
      Fail(Internal(std::string("cannot start a thread: ") + error.what()));
    }
  }
  if (out_of_memory_.load()) {
    return ResourceExhausted("out_of_memory", "not enough memory to pack the weights");
  }
  {
    const MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
  }
  if (progress && !progress(bytes_, bytes_)) return Abandoned();
  return OkStatus();
}

Status WeightArena::PackAll(int threads, const Progress& progress) {
  std::vector<size_t> order(matrices_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return kernels::PackedBytes(matrices_[a].packed) > kernels::PackedBytes(matrices_[b].packed);
  });
  return RunOn(
      threads, [&](const Progress* told) { Pack(order, told); }, progress);
}

}  // namespace tutti::model
