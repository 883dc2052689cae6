#include "kernels/pack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"
#include "tensor/transcoded.h"

namespace tutti::kernels {
namespace {

using tensor::DType;

// Thirty-two weights of one row in the form of the target format: value = d * (q - offset) or d * q
// + m.
struct RowBlock {
  uint8_t q[32];  // as stored: nibble, five or six bits, or q + 128
  uint16_t d;     // fp16
  uint16_t m;     // fp16: of formats with a minimum that, of kQ6 the scale of the second half
};

void SplitNibbles(const uint8_t* qs, uint8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = qs[i] & 15;
    q[16 + i] = qs[i] >> 4;
  }
}

void AddFifthBits(const uint8_t* qh, uint8_t* q) {
  for (int i = 0; i < 32; ++i) {
    const int bit = (qh[i / 8] >> (i % 8)) & 1;
    q[i] = static_cast<uint8_t>(q[i] | (bit << 4));
  }
}

// Adding 1.5 * 2^23 leaves no bits for a fraction: the sum is rounded to nearest even, as
// nearbyint would without being a call per weight.
constexpr float kInteger = 12582912.0f;

// Floats to Q8_0: fp16 step, quants to nearest even against the step as stored.
RowBlock QuantizeQ8(const float* x) {
  float max = 0.0f;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    max = std::max(max, std::fabs(x[i]));
    finite = finite && std::isfinite(x[i]);
  }
  RowBlock out{};
  out.d = finite ? tensor::FloatToHalf(max / 127.0f) : uint16_t{0x7e00};
  const float step = tensor::HalfToFloat(out.d);
  if (!finite || step == 0.0f) {
    std::memset(out.q, 128, sizeof out.q);
    return out;
  }
  for (int i = 0; i < 32; ++i) {
    const float q = std::clamp(x[i] / step, -127.0f, 127.0f) + kInteger - kInteger;
    out.q[i] = static_cast<uint8_t>(static_cast<int>(q) + 128);
  }
  return out;
}

// Offset added to an integer when it is stored.
int StoredOffset(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return 8;
    case WeightFormat::kQ6:
      return 32;
    case WeightFormat::kQ8_0:
      return 128;
    default:
      return 16;
  }
}

// Integers that are kept, under one scale or one for each half, rounded to fp16. MXFP4 keeps its
// codes.
bool KeepsIntegers(DType dtype) {
  return dtype != DType::kMXFP4 && (tensor::HasOneScale(dtype) || dtype == DType::kQ3_K);
}

RowBlock KeepIntegers(DType dtype, const std::byte* row, int32_t block) {
  tensor::Block32 read;
  tensor::ReadBlock32(dtype, row, block, &read);
  const int offset = StoredOffset(NativeFormat(dtype));
  RowBlock out{};
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<uint8_t>(read.q[i] + offset);
  out.d = tensor::FloatToHalf(read.scale[0]);
  if (!tensor::HasOneScale(dtype)) out.m = tensor::FloatToHalf(read.scale[1]);
  return out;
}

// Reads four-bit types, and five-bit ones, whose fifth bits are `qh`.
template <typename Block>
RowBlock ReadNibbles(const std::byte* row, int32_t block) {
  const auto& b = reinterpret_cast<const Block*>(row)[block];
  RowBlock out{};
  SplitNibbles(b.qs, out.q);
  if constexpr (requires { b.qh; }) AddFifthBits(b.qh, out.q);
  out.d = b.d;
  if constexpr (requires { b.m; }) out.m = b.m;
  return out;
}

// Block `block` (of 32) of a row of a type whose integers are kept.
RowBlock ReadBlock(DType dtype, const std::byte* row, int32_t block) {
  if (KeepsIntegers(dtype)) return KeepIntegers(dtype, row, block);
  RowBlock out{};
  switch (dtype) {
    case DType::kQ4_0:
      return ReadNibbles<tensor::BlockQ4_0>(row, block);
    case DType::kQ4_1:
      return ReadNibbles<tensor::BlockQ4_1>(row, block);
    case DType::kQ5_0:
      return ReadNibbles<tensor::BlockQ5_0>(row, block);
    case DType::kQ5_1:
      return ReadNibbles<tensor::BlockQ5_1>(row, block);
    case DType::kQ8_0: {
      const auto& b = reinterpret_cast<const tensor::BlockQ8_0*>(row)[block];
      for (int i = 0; i < 32; ++i) out.q[i] = static_cast<uint8_t>(b.qs[i] + 128);
      out.d = b.d;
      return out;
    }
    case DType::kMXFP4: {
      const auto& b = reinterpret_cast<const tensor::BlockMXFP4*>(row)[block];
      SplitNibbles(b.qs, out.q);
      out.d = tensor::FloatToHalf(tensor::HalfOfE8M0(b.e));
      return out;
    }
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const int part = block % 8;
      const int shift = part % 2 == 0 ? 0 : 4;
      const auto* q4 = reinterpret_cast<const tensor::BlockQ4_K*>(row) + block / 8;
      const auto* q5 = reinterpret_cast<const tensor::BlockQ5_K*>(row) + block / 8;
      const bool five = dtype == DType::kQ5_K;
      const uint8_t* qs = (five ? q5->qs : q4->qs) + part / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        out.q[i] = (qs[i] >> shift) & 15;
        if (five) out.q[i] = static_cast<uint8_t>(out.q[i] | (((q5->qh[i] >> part) & 1) << 4));
      }
      uint8_t sc[8];
      uint8_t mn[8];
      tensor::UnpackScalesK(five ? q5->scales : q4->scales, sc, mn);
      const float d = tensor::HalfToFloat(five ? q5->d : q4->d);
      const float dmin = tensor::HalfToFloat(five ? q5->dmin : q4->dmin);
      out.d = tensor::FloatToHalf(d * static_cast<float>(sc[part]));
      out.m = tensor::FloatToHalf(-(dmin * static_cast<float>(mn[part])));
      return out;
    }
    case DType::kQ6_K: {
      const auto& b = reinterpret_cast<const tensor::BlockQ6_K*>(row)[block / 8];
      const int half = block % 8 / 4;
      const int part = block % 4;
      const uint8_t* low = b.ql + half * 64 + part % 2 * 32;
      const uint8_t* upper = b.qh + half * 32;
      for (int i = 0; i < 32; ++i) {
        out.q[i] = static_cast<uint8_t>(((low[i] >> (part / 2 * 4)) & 15) |
                                        (((upper[i] >> (2 * part)) & 3) << 4));
      }
      const float d = tensor::HalfToFloat(b.d);
      const int8_t* scales = b.scales + block % 8 * 2;
      out.d = tensor::FloatToHalf(d * static_cast<float>(scales[0]));
      out.m = tensor::FloatToHalf(d * static_cast<float>(scales[1]));
      return out;
    }
    default:
      break;  // floats have none
  }
  CHECK(false) << "no integer blocks in " << dtype;
  return out;
}

bool HoldsFloats(WeightFormat format) {
  return !IsQuantized(format) || format == WeightFormat::kBf16Pairs;
}

bool IsFiniteHalf(uint16_t half) { return (half & 0x7c00u) != 0x7c00u; }

// Position of (row of panel, k) among the u8 lines.
constexpr int LineIndex(int row, int k) {
  return k / 4 * 128 + row / 16 * 64 + row % 16 * 4 + k % 4;
}

// As above, among the 16-bit values of a float format.
constexpr size_t HalfIndex(WeightFormat format, int row, size_t k) {
  const auto r = static_cast<size_t>(row);
  if (format == WeightFormat::kBf16Pairs) return (k / 2 * kPanelRows + r) * 2 + k % 2;
  return k * kPanelRows + r;
}

void StoreHalf(uint8_t* p, uint16_t half) { std::memcpy(p, &half, sizeof half); }

// Where the upper bits of (row, k) of kQ6 lie behind the lines, and how far up.
struct UpperBits {
  int byte;
  int shift;
};
constexpr UpperBits UpperBitsOf(int row, int k) {
  const int group = k / 4;
  return {group % 2 * 128 + LineIndex(row, k % 4), group / 2 * 2};
}

bool HasMinimum(WeightFormat format) {
  return format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1;
}

// Writes one row's block into the panel's block. Lines start zeroed (nibbles and masks are or-ed
// in).
void WriteBlock(WeightFormat format, int row, const RowBlock& in, uint8_t* block) {
  if (format == WeightFormat::kQ8_0) {
    for (int k = 0; k < 32; ++k) block[LineIndex(row, k)] = in.q[k];
    StoreHalf(block + 1024 + 2 * row, in.d);
    return;
  }
  for (int k = 0; k < 16; ++k) {
    block[LineIndex(row, k)] = static_cast<uint8_t>((in.q[k] & 15) | ((in.q[k + 16] & 15) << 4));
  }
  uint8_t* tail = block + 512;
  if (format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_1) {
    for (int k = 0; k < 32; ++k) {
      const int index = LineIndex(row, k);
      tail[index / 8] = static_cast<uint8_t>(tail[index / 8] | ((in.q[k] >> 4) << (index % 8)));
    }
    tail += 128;
  }
  if (format == WeightFormat::kQ6) {
    for (int k = 0; k < 32; ++k) {
      const UpperBits at = UpperBitsOf(row, k);
      tail[at.byte] = static_cast<uint8_t>(tail[at.byte] | ((in.q[k] >> 4) << at.shift));
    }
    tail += 256;
  }
  StoreHalf(tail + 2 * row, in.d);
  if (HasMinimum(format) || format == WeightFormat::kQ6) StoreHalf(tail + 64 + 2 * row, in.m);
}

Status NonFinite(const PackSpec& spec, const PackRow& row) {
  const auto source = static_cast<size_t>(row.source);
  return InvalidArgument(
      "model_nonfinite",
      (source < spec.names.size() ? spec.names[source] : "part " + std::to_string(source)) +
          ", row " + std::to_string(row.row) + ": a scale or weight is infinite or not a number");
}

// Types that become Q8_0 by way of floats.
bool IsRequantized(DType dtype) {
  return !tensor::IsQuantized(dtype) ||
         (tensor::IsTranscoded(dtype) && !KeepsIntegers(dtype) && dtype != DType::kMXFP4);
}

Status PackQuantizedRow(const PackSpec& spec, const PackRow& from, int row, std::vector<float>& x,
                        uint8_t* panel) {
  const tensor::TensorView& source = spec.sources[static_cast<size_t>(from.source)];
  const std::byte* data = source.row(from.row);
  const bool requantize = IsRequantized(source.dtype);
  if (requantize) tensor::DequantizeRow(source.dtype, data, x.data(), spec.cols);
  const size_t block_bytes = BlockBytes(spec.format);
  for (int32_t b = 0; b < spec.cols / kQuantBlock; ++b) {
    const RowBlock block =
        requantize ? QuantizeQ8(x.data() + b * kQuantBlock) : ReadBlock(source.dtype, data, b);
    if (!IsFiniteHalf(block.d) || !IsFiniteHalf(block.m)) return NonFinite(spec, from);
    WriteBlock(spec.format, row, block, panel + static_cast<size_t>(b) * block_bytes);
  }
  return OkStatus();
}

Status PackFloatRow(const PackSpec& spec, const PackRow& from, int row, std::vector<float>& x,
                    uint8_t* panel) {
  const tensor::TensorView& source = spec.sources[static_cast<size_t>(from.source)];
  const std::byte* data = source.row(from.row);
  if (spec.format == WeightFormat::kF32) {
    tensor::DequantizeRow(source.dtype, data, x.data(), spec.cols);
    for (size_t k = 0; k < x.size(); ++k) {
      if (!std::isfinite(x[k])) return NonFinite(spec, from);
      std::memcpy(panel + (k * kPanelRows + static_cast<size_t>(row)) * 4, &x[k], 4);
    }
    return OkStatus();
  }
  const bool half = spec.format == WeightFormat::kF16;
  const uint32_t exponent = half ? 0x7c00u : 0x7f80u;
  const bool as_it_is = source.dtype == (half ? DType::kF16 : DType::kBF16);
  if (!as_it_is) tensor::DequantizeRow(source.dtype, data, x.data(), spec.cols);
  for (size_t k = 0; k < static_cast<size_t>(spec.cols); ++k) {
    uint16_t bits = 0;
    if (as_it_is) {
      std::memcpy(&bits, data + 2 * k, sizeof bits);
    } else {
      bits = half ? tensor::FloatToHalf(x[k]) : tensor::FloatToBFloat(x[k]);
    }
    if ((bits & exponent) == exponent) return NonFinite(spec, from);
    StoreHalf(panel + HalfIndex(spec.format, row, k) * 2, bits);
  }
  return OkStatus();
}

// A row of one step: float32 scale behind the panel's blocks, quants to nearest even.
Status PackRowScaled(const PackSpec& spec, const PackRow& from, int row, std::vector<float>& x,
                     uint8_t* panel) {
  const tensor::TensorView& source = spec.sources[static_cast<size_t>(from.source)];
  tensor::DequantizeRow(source.dtype, source.row(from.row), x.data(), spec.cols);
  float max = 0.0f;
  for (float value : x) {
    if (!std::isfinite(value)) return NonFinite(spec, from);
    max = std::max(max, std::fabs(value));
  }
  const float step = max / 127.0f;
  const size_t block_bytes = BlockBytes(spec.format);
  for (size_t k = 0; k < x.size(); ++k) {
    const float q = step > 0.0f ? std::clamp(x[k] / step, -127.0f, 127.0f) : 0.0f;
    uint8_t* block = panel + k / kQuantBlock * block_bytes;
    block[LineIndex(row, static_cast<int>(k % kQuantBlock))] =
        static_cast<uint8_t>(static_cast<int>(q + kInteger - kInteger) + 128);
  }
  uint8_t* scales = panel + x.size() / kQuantBlock * block_bytes;
  std::memcpy(scales + static_cast<size_t>(row) * sizeof step, &step, sizeof step);
  return OkStatus();
}

Status PackOneRow(const PackSpec& spec, const PackRow& from, int row, std::vector<float>& x,
                  uint8_t* panel) {
  if (spec.format == WeightFormat::kI8Row) return PackRowScaled(spec, from, row, x, panel);
  return HoldsFloats(spec.format) ? PackFloatRow(spec, from, row, x, panel)
                                  : PackQuantizedRow(spec, from, row, x, panel);
}

}  // namespace

WeightFormat NativeFormat(tensor::DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kBF16:
      return WeightFormat::kBf16;
    case DType::kQ4_0:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return WeightFormat::kQ4_0;
    case DType::kQ4_1:
    case DType::kQ4_K:
      return WeightFormat::kQ4_1;
    case DType::kMXFP4:
      return WeightFormat::kMXFP4;
    case DType::kQ5_0:
    case DType::kIQ1_S:
    case DType::kIQ3_S:
      return WeightFormat::kQ5_0;
    case DType::kQ5_1:
    case DType::kQ5_K:
      return WeightFormat::kQ5_1;
    case DType::kQ6_K:
    case DType::kQ3_K:
      return WeightFormat::kQ6;
    case DType::kQ8_0:
    case DType::kQ2_K:
    case DType::kIQ1_M:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return WeightFormat::kQ8_0;
  }
  CHECK(false) << "unreadable type";
  return WeightFormat::kF32;
}

std::string_view PackingLoss(tensor::DType dtype) {
  switch (dtype) {
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kQ3_K:
    case DType::kIQ1_S:
    case DType::kIQ2_XXS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ4_XS:
      return "scales rounded to fp16, at most 2^-11 of each";
    case DType::kMXFP4:
      return "exact from scales of 2^-23 to 2^16";
    case DType::kIQ4_NL:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return "exact";
    default:
      return IsRequantized(dtype) && tensor::IsQuantized(dtype)
                 ? "requantised, at most 1/254 of the largest of each 32"
                 : "";
  }
}

bool CanPack(tensor::DType dtype, WeightFormat format) {
  if (format == NativeFormat(dtype)) return true;
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBf16:
    case WeightFormat::kI8Row:
    case WeightFormat::kBf16Pairs:
      return true;
    default:
      return format == WeightFormat::kQ8_0 && !tensor::IsQuantized(dtype);
  }
}

PackSpec ConcatenateRows(std::vector<tensor::TensorView> sources, WeightFormat format) {
  PackSpec spec;
  spec.format = format;
  for (size_t i = 0; i < sources.size(); ++i) {
    for (int64_t row = 0; row < sources[i].shape.rows(); ++row) {
      spec.rows.push_back({static_cast<int32_t>(i), static_cast<int32_t>(row)});
    }
  }
  if (!sources.empty()) spec.cols = static_cast<int32_t>(sources[0].shape.columns());
  spec.sources = std::move(sources);
  return spec;
}

PackSpec InterleaveGateUp(const tensor::TensorView& gate, const tensor::TensorView& up,
                          WeightFormat format) {
  PackSpec spec;
  spec.sources = {gate, up};
  spec.cols = static_cast<int32_t>(gate.shape.columns());
  spec.format = format;
  const int32_t rows = static_cast<int32_t>(gate.shape.rows());
  for (int32_t first = 0; first < rows; first += 16) {
    for (int32_t source = 0; source < 2; ++source) {
      for (int32_t i = 0; i < 16; ++i) spec.rows.push_back({source, first + i});
    }
  }
  return spec;
}

Status CheckPack(const PackSpec& spec) {
  if (spec.cols <= 0 || spec.cols % kQuantBlock != 0) {
    return InvalidArgument(
        "model_hparam", "matrix width " + std::to_string(spec.cols) + " is not a multiple of 32");
  }
  constexpr size_t kMaxRows = size_t{1} << 30;  // row numbers, padded, must fit int32
  if (spec.rows.empty() || spec.rows.size() > kMaxRows) {
    return InvalidArgument("model_hparam",
                           "matrix of " + std::to_string(spec.rows.size()) + " rows");
  }
  if (spec.format == WeightFormat::kI8Row && spec.cols > kMaxRowScaledCols) {
    return InvalidArgument("model_hparam", "matrix width " + std::to_string(spec.cols) +
                                               " is more than sums over whole rows can hold (" +
                                               std::to_string(kMaxRowScaledCols) + ")");
  }
  for (const tensor::TensorView& source : spec.sources) {
    if (source.shape.columns() != spec.cols) {
      return InvalidArgument("model_hparam", "matrices to be joined are " +
                                                 std::to_string(spec.cols) + " and " +
                                                 std::to_string(source.shape.columns()) + " wide");
    }
    if (!CanPack(source.dtype, spec.format)) {
      return InvalidArgument("gguf_unsupported_type", std::string(tensor::Name(source.dtype)) +
                                                          " cannot be packed as " +
                                                          WeightFormatName(spec.format));
    }
  }
  for (const PackRow& row : spec.rows) {
    if (row.source == -1) continue;
    if (row.source < 0 || static_cast<size_t>(row.source) >= spec.sources.size() || row.row < 0 ||
        row.row >= spec.sources[static_cast<size_t>(row.source)].shape.rows()) {
      return InvalidArgument("model_hparam", "row " + std::to_string(row.row) + " of part " +
                                                 std::to_string(row.source) + " does not exist");
    }
  }
  return OkStatus();
}

PackedMatrix DescribePacked(const PackSpec& spec) {
  PackedMatrix out;
  out.format = spec.format;
  out.used_rows = static_cast<int32_t>(spec.rows.size());
  out.rows = RoundUpToPanel(out.used_rows);
  out.cols = spec.cols;
  return out;
}

size_t PackedBytes(const PackedMatrix& matrix) {
  return PanelBytes(matrix) * static_cast<size_t>(PanelCount(matrix));
}

Status PackPanels(const PackSpec& spec, int32_t panel_begin, int32_t panel_end, uint8_t* out) {
  const PackedMatrix matrix = DescribePacked(spec);
  const size_t panel_bytes = PanelBytes(matrix);
  std::vector<float> x(static_cast<size_t>(spec.cols));
  for (int32_t p = panel_begin; p < panel_end; ++p) {
    uint8_t* panel = out + static_cast<size_t>(p) * panel_bytes;
    std::memset(panel, 0, panel_bytes);
    // Padding rows hold 128, which stands for 0; a zero byte would stand for -128 steps.
    if (spec.format == WeightFormat::kI8Row)
      std::memset(panel, 128, panel_bytes - kPanelRows * sizeof(float));
    for (int row = 0; row < kPanelRows; ++row) {
      const size_t index = static_cast<size_t>(p) * kPanelRows + static_cast<size_t>(row);
      if (index >= spec.rows.size() || spec.rows[index].source == -1) continue;
      RETURN_IF_ERROR(PackOneRow(spec, spec.rows[index], row, x, panel));
    }
  }
  return OkStatus();
}

Result<OwnedMatrix> PackMatrix(const PackSpec& spec) {
  RETURN_IF_ERROR(CheckPack(spec));
  OwnedMatrix out;
  out.view = DescribePacked(spec);
  ASSIGN_OR_RETURN(out.memory, AlignedBuffer::Allocate(PackedBytes(out.view)));
  uint8_t* data = reinterpret_cast<uint8_t*>(out.memory.data());
  RETURN_IF_ERROR(PackPanels(spec, 0, PanelCount(out.view), data));
  out.view.data = data;
  return out;
}

void PairUpPanels(const PackedMatrix& matrix, int32_t panel_begin, int32_t panel_end,
                  uint8_t* data) {
  const bool half = matrix.format == WeightFormat::kF16;
  CHECK(half || matrix.format == WeightFormat::kBf16);
  constexpr size_t kBlock = size_t{kQuantBlock} * kPanelRows;  // values of 16 bits
  const size_t panel_bytes = PanelBytes(matrix);
  std::array<uint16_t, kBlock> from{}, to{};
  for (size_t at = static_cast<size_t>(panel_begin) * panel_bytes;
       at < static_cast<size_t>(panel_end) * panel_bytes; at += sizeof from) {
    std::memcpy(from.data(), data + at, sizeof from);
    for (size_t k = 0; k < kQuantBlock; ++k) {
      for (int row = 0; row < kPanelRows; ++row) {
        const uint16_t bits = from[HalfIndex(matrix.format, row, k)];
        to[HalfIndex(WeightFormat::kBf16Pairs, row, k)] =
            half ? tensor::FloatToBFloat(tensor::HalfToFloat(bits)) : bits;
      }
    }
    std::memcpy(data + at, to.data(), sizeof to);
  }
}

namespace {

uint16_t HalfAt(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return half;
}

// Row `row` of one block of a format with scales per block, 32 values.
void UnpackBlock(WeightFormat format, const uint8_t* block, int row, float* out) {
  const bool eight = format == WeightFormat::kQ8_0;
  const bool six = format == WeightFormat::kQ6;
  const bool five = format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_1;
  const uint8_t* masks = block + 512;
  const uint8_t* scales = eight ? block + 1024 : masks + (six ? 256 : five ? 128 : 0);
  const float d = tensor::HalfToFloat(HalfAt(scales + 2 * row));
  const float m =
      HasMinimum(format) || six ? tensor::HalfToFloat(HalfAt(scales + 64 + 2 * row)) : 0.0f;
  const int offset = eight ? 128 : format == WeightFormat::kQ4_0 ? 8 : five ? 16 : six ? 32 : 0;
  for (int k = 0; k < 32; ++k) {
    const int index = LineIndex(row, k);
    int q;
    if (eight) {
      q = block[index];
    } else {
      q = k < 16 ? block[index] & 15 : block[LineIndex(row, k - 16)] >> 4;
      if (format == WeightFormat::kMXFP4) q = tensor::kE2M1Values[q];
      if (five) q |= ((masks[index / 8] >> (index % 8)) & 1) << 4;
      if (six) q |= ((masks[UpperBitsOf(row, k).byte] >> UpperBitsOf(row, k).shift) & 3) << 4;
    }
    out[k] = HasMinimum(format) ? d * static_cast<float>(q) + m
                                : (six && k >= 16 ? m : d) * static_cast<float>(q - offset);
  }
}

}  // namespace

void UnpackRow(const PackedMatrix& matrix, int32_t row, float* out) {
  CHECK(row >= 0 && row < matrix.rows);
  const size_t block_bytes = BlockBytes(matrix.format);
  const uint8_t* panel = matrix.data + static_cast<size_t>(row / kPanelRows) * PanelBytes(matrix);
  const int r = row % kPanelRows;
  if (matrix.format == WeightFormat::kI8Row) {
    float step;
    const size_t lines = block_bytes * static_cast<size_t>(matrix.cols / kQuantBlock);
    std::memcpy(&step, panel + lines + static_cast<size_t>(r) * sizeof step, sizeof step);
    for (int32_t k = 0; k < matrix.cols; ++k) {
      const int q = panel[static_cast<size_t>(k / kQuantBlock) * block_bytes +
                          static_cast<size_t>(LineIndex(r, k % kQuantBlock))];
      out[k] = step * static_cast<float>(q - 128);
    }
    return;
  }
  for (int32_t b = 0; b < matrix.cols / kQuantBlock;
       ++b, panel += block_bytes, out += kQuantBlock) {
    if (matrix.format == WeightFormat::kF32) {
      for (int k = 0; k < 32; ++k) std::memcpy(out + k, panel + (k * kPanelRows + r) * 4, 4);
      continue;
    }
    if (HoldsFloats(matrix.format)) {
      for (size_t k = 0; k < 32; ++k) {
        const uint16_t bits = HalfAt(panel + HalfIndex(matrix.format, r, k) * 2);
        out[k] = matrix.format == WeightFormat::kF16 ? tensor::HalfToFloat(bits)
                                                     : tensor::BFloatToFloat(bits);
      }
      continue;
    }
    UnpackBlock(matrix.format, panel, r, out);
  }
}

size_t OutlierBytes(const PackedMatrix& matrix, int32_t outliers) {
  return static_cast<size_t>(matrix.rows) * static_cast<size_t>(outliers) * sizeof(uint16_t);
}

void CopyOutliers(const PackedMatrix& matrix, std::span<const int32_t> columns, uint16_t* out) {
  CHECK(ActivationScale(matrix.format) == ScalePer::kBlock && IsQuantized(matrix.format));
  float values[kQuantBlock];
  for (int32_t panel = 0; panel < PanelCount(matrix); ++panel) {
    const uint8_t* blocks = matrix.data + static_cast<size_t>(panel) * PanelBytes(matrix);
    for (const int32_t column : columns) {
      CHECK(column >= 0 && column < matrix.cols);
      const uint8_t* block =
          blocks + static_cast<size_t>(column / kQuantBlock) * BlockBytes(matrix.format);
      for (int row = 0; row < kPanelRows; ++row) {
        UnpackBlock(matrix.format, block, row, values);
        *out++ = tensor::FloatToHalf(values[column % kQuantBlock]);
      }
    }
  }
}

}  // namespace tutti::kernels
