#include "quantize/requantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/quote.h"
#include "gguf/header_writer.h"
#include "gguf/metadata.h"
#include "quantize/output_file.h"
#include "tensor/dequantize.h"
#include "tensor/quantize.h"

namespace tutti::quantize {
namespace {

using tensor::DType;

constexpr uint32_t kQuantizationVersion = 2;  // of the block layouts, since May 2023
constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kVersionKey = "general.quantization_version";

// Elements that a thread takes at a time: whole blocks of every form.
constexpr int64_t kChunk = int64_t{1} << 19;

using Bytes = std::vector<std::byte>;

// Everything before the data, padded.
Bytes MakeHeader(const gguf::Header& header, const FileType& type,
                 const std::vector<TensorOutcome>& tensors) {
  gguf::HeaderWriter writer;
  for (size_t i = 0; i < header.entry_count(); ++i) {
    const gguf::Entry entry = header.entry(i);
    if (entry.key == kFileTypeKey || entry.key == kVersionKey || entry.key.starts_with("split.")) {
      continue;
    }
    writer.Copy(entry);
  }
  writer.U32(kVersionKey, kQuantizationVersion);
  writer.U32(kFileTypeKey, type.id);
  for (const TensorOutcome& tensor : tensors) {
    const TensorPlan& plan = tensor.plan;
    writer.Tensor(plan.from->name, plan.to, plan.from->shape, plan.bytes);
  }
  return writer.Build(header.alignment());
}

// One thread's part of a batch.
struct Part {
  int64_t first = 0, elements = 0;  // of the tensor
  std::vector<float> values, again;
  Bytes out;
  double lost = 0, power = 0;  // sums of squares
  Status status;
};

class Writer {
 public:
  Writer(const gguf::File& file, const RequantizeOptions& options, OutputFile* out, uint64_t total)
      : file_(file), options_(options), out_(*out), total_(total) {
    parts_.resize(static_cast<size_t>(options.threads));
  }

  Status Write(TensorOutcome* tensor) {
    const gguf::TensorInfo& from = *tensor->plan.from;
    const int64_t elements = from.shape.elements();
    const int64_t batch = kChunk * static_cast<int64_t>(parts_.size());
    double lost = 0;
    double power = 0;
    Bytes read;
    for (int64_t first = 0; first < elements; first += batch) {
      const int64_t many = std::min(batch, elements - first);
      read.resize(tensor::RowBytes(from.dtype(), many));
      RETURN_IF_ERROR(file_.Read(from, tensor::RowBytes(from.dtype(), first), read));
      if (tensor->plan.to == from.dtype()) {
        RETURN_IF_ERROR(CheckFinite(from, from.dtype(), first, many, read.data(), ""));
        RETURN_IF_ERROR(out_.Append(read));
      } else {
        RETURN_IF_ERROR(Convert(tensor->plan, first, many, read, &lost, &power));
      }
      done_ += static_cast<uint64_t>(many);
      if (options_.progress && !options_.progress(done_, total_)) {
        return {StatusCode::kCancelled, "cancelled", "the quantisation was abandoned"};
      }
    }
    tensor->relative_error = power > 0 ? std::sqrt(lost / power) : 0;
    const uint64_t end = gguf::PaddedTo(out_.bytes(), file_.header().alignment());
    return out_.Append(Bytes(static_cast<size_t>(end - out_.bytes())));
  }

 private:
  static Status CheckFinite(const gguf::TensorInfo& tensor, DType form, int64_t first,
                            int64_t elements, const std::byte* blocks, std::string_view as) {
    const int64_t found = tensor::FirstNonFinite(form, blocks, elements);
    if (found < 0) return OkStatus();
    const int64_t columns = tensor.shape.columns();
    return InvalidArgument("model_nonfinite",
                           fmt::format("tensor {} at row {}, column {}: {}", Quote(tensor.name),
                                       (first + found) / columns, (first + found) % columns,
                                       as.empty() ? std::string("not a number, or infinite")
                                                  : fmt::format("too large for {}", as)));
  }

  // The parts in parallel, written in their order.
  Status Convert(const TensorPlan& plan, int64_t first, int64_t many, const Bytes& read,
                 double* lost, double* power) {
    std::vector<std::thread> others;
    size_t used = 0;
    for (int64_t at = 0; at < many; at += kChunk, ++used) {
      parts_[used].first = first + at;
      parts_[used].elements = std::min(kChunk, many - at);
    }
    for (size_t i = 1; i < used; ++i) {
      const auto work = [this, i, &plan, first, &read] { Encode(plan, first, read, &parts_[i]); };
      try {
        others.emplace_back(work);
      } catch (const std::system_error&) {  // no more threads: this one does it
        work();
      }
    }
    Encode(plan, first, read, &parts_[0]);
    for (std::thread& other : others) other.join();
    for (size_t i = 0; i < used; ++i) {
      RETURN_IF_ERROR(parts_[i].status);
      RETURN_IF_ERROR(out_.Append(parts_[i].out));
      *lost += parts_[i].lost;
      *power += parts_[i].power;
    }
    return OkStatus();
  }

  static void Encode(const TensorPlan& plan, int64_t batch_first, const Bytes& read, Part* part) {
    const gguf::TensorInfo& from = *plan.from;
    const size_t n = static_cast<size_t>(part->elements);
    const std::byte* blocks =
        read.data() + tensor::RowBytes(from.dtype(), part->first - batch_first);
    part->status = CheckFinite(from, from.dtype(), part->first, part->elements, blocks, "");
    if (!part->status.ok()) return;
    part->values.resize(n);
    part->again.resize(n);
    part->out.resize(tensor::RowBytes(plan.to, part->elements));
    tensor::DequantizeRow(from.dtype(), blocks, part->values.data(), part->elements);
    // A product of finite scales may still be infinite.
    part->status = CheckFinite(from, DType::kF32, part->first, part->elements,
                               reinterpret_cast<const std::byte*>(part->values.data()), "");
    if (!part->status.ok()) return;
    tensor::QuantizeRowSearched(plan.to, part->values.data(), part->out.data(), part->elements);
    part->status = CheckFinite(from, plan.to, part->first, part->elements, part->out.data(),
                               tensor::Name(plan.to));
    if (!part->status.ok()) return;
    tensor::DequantizeRow(plan.to, part->out.data(), part->again.data(), part->elements);
    part->lost = part->power = 0;
    for (size_t i = 0; i < n; ++i) {
      const double value = static_cast<double>(part->values[i]);
      const double off = static_cast<double>(part->again[i]) - value;
      part->lost += off * off;
      part->power += value * value;
    }
  }

  const gguf::File& file_;
  const RequantizeOptions& options_;
  OutputFile& out_;
  std::vector<Part> parts_;
  uint64_t done_ = 0, total_ = 0;
};

}  // namespace

Result<RequantizeReport> PlanRequantize(const gguf::File& file, const FileType& type) {
  ASSIGN_OR_RETURN(std::vector<TensorPlan> plans, PlanTensors(file.header(), type));
  RequantizeReport report;
  report.type = type;
  report.bytes_before = file.header().file_bytes();
  uint64_t data = 0;
  for (TensorPlan& plan : plans) {
    report.parameters += static_cast<uint64_t>(plan.from->shape.elements());
    report.fell_back += plan.fell_back ? 1 : 0;
    data += gguf::PaddedTo(plan.bytes, file.header().alignment());
    report.tensors.push_back({std::move(plan), 0});
  }
  report.bytes_after = MakeHeader(file.header(), type, report.tensors).size() + data;
  return report;
}

Result<RequantizeReport> Requantize(const gguf::File& file, const FileType& type,
                                    const std::string& path, const RequantizeOptions& options) {
  CHECK_GE(options.threads, 1);
  ASSIGN_OR_RETURN(RequantizeReport report, PlanRequantize(file, type));
  if (report.tensors.empty()) {
    return InvalidArgument("model_tensor_missing",
                           "the file has no tensors: a vocabulary has nothing to quantise");
  }
  ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path, options.replace, report.bytes_after));
  RETURN_IF_ERROR(out.Append(MakeHeader(file.header(), type, report.tensors)));
  Writer writer(file, options, &out, report.parameters);
  for (TensorOutcome& tensor : report.tensors) RETURN_IF_ERROR(writer.Write(&tensor));
  CHECK_EQ(out.bytes(), report.bytes_after);
  RETURN_IF_ERROR(file.CheckUnchanged());
  RETURN_IF_ERROR(out.Keep());
  return report;
}

namespace {

bool Has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Tensors that are not quantised: small matrices with much influence, and tables that are looked
// up.
constexpr std::string_view kKeptParts[] = {"_norm.weight",
                                           "ffn_gate_inp.weight",
                                           "altup",
                                           "laurel",
                                           "per_layer_model_proj",
                                           "ssm_conv1d",
                                           "time_mix_",
                                           "attn_rel_b.weight",
                                           "shortconv.conv",
                                           "position_embd",
                                           "token_types",
                                           ".rel_pos",
                                           ".patch_embd",
                                           "ffn_gate_tid2eid.weight"};

// Why the tensor is not quantised, or "".
std::string_view KeptBecause(const gguf::TensorInfo& tensor) {
  if (tensor.shape.rows() == 1) return "a vector";
  if (!tensor.name.ends_with("weight")) return "not a weight";
  for (const std::string_view part : kKeptParts) {
    if (Has(tensor.name, part)) return "small, and much depends on it";
  }
  return "";
}

// The N of "blk.N.", or -1.
int LayerOf(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

bool GetsMoreBits(int layer, int layers) {
  const int eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// A form of smaller blocks and no fewer bits.
DType Fallback(DType form) {
  switch (form) {
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    default:
      return form;
  }
}

class Planner {
 public:
  Planner(const gguf::Header& header, const FileType& type) : type_(type) {
    separate_head_ = header.FindTensor("output.weight") != nullptr;
    const auto text = gguf::GetStringOr(header, "general.architecture", "");
    const std::string architecture(text.ok() ? *text : "");
    const auto experts = gguf::GetUintOr(header, architecture + ".expert_count", 0);
    eight_experts_ = experts.ok() && *experts == 8;
    for (const gguf::TensorInfo& tensor : header.tensors()) {
      layers_ = std::max(layers_, LayerOf(tensor.name) + 1);
    }
  }

  TensorPlan Plan(const gguf::TensorInfo& tensor) const {
    TensorPlan plan{&tensor, type_.form, type_.form, "", false, 0};
    if (const std::string_view kept = KeptBecause(tensor); !kept.empty()) {
      plan.wanted = tensor.shape.rows() == 1 ? DType::kF32 : tensor.dtype();
      plan.reason = fmt::format("kept: {}", kept);
    } else if (tensor::IsQuantized(type_.form)) {
      plan.wanted = Rule(tensor, &plan.reason);
    }
    plan.to = plan.wanted;
    const int64_t width = tensor.shape.columns();
    if (width % tensor::Info(plan.to).block_elements != 0) {
      plan.to = Fallback(plan.to);
      if (width % tensor::Info(plan.to).block_elements != 0) plan.to = DType::kF16;
      plan.fell_back = true;
      plan.reason =
          fmt::format("width {} is no multiple of {}'s {}", width, tensor::Name(plan.wanted),
                      tensor::Info(plan.wanted).block_elements);
    }
    plan.bytes = tensor::RowBytes(plan.to, width) * static_cast<uint64_t>(tensor.shape.rows());
    return plan;
  }

 private:
  DType Rule(const gguf::TensorInfo& tensor, std::string* reason) const {
    const DType form = type_.form;
    const std::string_view name = tensor.name;
    if (name == "output.weight" || (!separate_head_ && name == "token_embd.weight")) {
      if (form == DType::kQ8_0) return form;
      *reason = "the output matrix";
      return DType::kQ6_K;
    }
    const int layer = LayerOf(name);
    const bool more = type_.mixed && layer >= 0 && GetsMoreBits(layer, layers_);
    if (Has(name, "attn_v.weight") || (eight_experts_ && Has(name, "attn_k.weight"))) {
      if (eight_experts_) {
        *reason = "shared by eight experts";
        return DType::kQ8_0;
      }
      return more ? WithMore(reason) : form;
    }
    if (Has(name, "ffn_down")) return more ? WithMore(reason) : form;
    if (type_.mixed && Has(name, "attn_qkv.weight")) {
      *reason = "holds the values of attention";
      return form == DType::kQ4_K ? DType::kQ5_K : DType::kQ6_K;
    }
    if (eight_experts_ && form == DType::kQ4_K && Has(name, "attn_output.weight")) {
      *reason = "shared by eight experts";
      return DType::kQ5_K;
    }
    return form;
  }

  static DType WithMore(std::string* reason) {
    *reason = "one of the layers with more bits";
    return DType::kQ6_K;
  }

  const FileType& type_;
  int layers_ = 0;
  bool separate_head_ = false, eight_experts_ = false;
};

}  // namespace

Result<std::vector<TensorPlan>> PlanTensors(const gguf::Header& header, const FileType& type) {
  const Planner planner(header, type);
  std::vector<TensorPlan> out;
  for (const gguf::TensorInfo& tensor : header.tensors()) {
    if (!tensor::ReadableType(tensor.type_id)) {
      return InvalidArgument(
          "gguf_unsupported_type",
          fmt::format("tensor {} has a type that is not read", Quote(tensor.name)));
    }
    out.push_back(planner.Plan(tensor));
  }
  return out;
}

}  // namespace tutti::quantize
