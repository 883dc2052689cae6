// MXFP4: codes of E2M1, two in a byte, with an exponent (E8M0) for each 32. The experts of gpt-oss.
//
// Shapes: NAME_blocks U8 [...][rows][columns / 32][16], NAME_scales U8 [...][rows][columns / 32],
// which become NAME, MXFP4 [...][rows][columns]. Byte i of a block has its elements 2i and 2i + 1,
// the lower four bits first; in GGUF's form it has i and i + 16. Source: transformers,
// integrations/mxfp4.py.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/quote.h"
#include "model/quantized/ignore_list.h"
#include "model/quantized/scheme.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"

namespace tutti::model::quantized {
namespace {

using tensor::BlockMXFP4;

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr uint8_t kNotANumber = 255;  // of E8M0
constexpr size_t kCodeBytes = sizeof BlockMXFP4::qs;

// From pairs of neighbours to pairs of elements 16 apart.
void Reorder(const std::byte* from, uint8_t* to) {
  uint8_t codes[tensor::kBlock];
  for (size_t i = 0; i < kCodeBytes; ++i) {
    codes[2 * i] = static_cast<uint8_t>(from[i]) & 15;
    codes[2 * i + 1] = static_cast<uint8_t>(from[i]) >> 4;
  }
  for (size_t i = 0; i < kCodeBytes; ++i)
    to[i] = static_cast<uint8_t>(codes[i] | (codes[i + kCodeBytes] << 4));
}

class Mxfp4Store final : public ViewStore {
 public:
  struct Source {
    const StoredTensor* blocks;
    const StoredTensor* scales;
  };

  Mxfp4Store(std::unique_ptr<TensorStore> files, const std::map<std::string, Source>& sources)
      : ViewStore(std::move(files)) {
    std::set<size_t> consumed;
    for (const auto& [name, source] : sources) {
      consumed.insert(source.blocks->index);
      consumed.insert(source.scales->index);
    }
    for (const StoredTensor& tensor : this->files().tensors()) {
      if (consumed.contains(tensor.index)) continue;
      Add(tensor);
      places_.push_back({&tensor, nullptr});
    }
    for (const auto& [name, source] : sources) {
      StoredTensor tensor;
      tensor.name = name;
      tensor.file = source.blocks->file;
      tensor.dtype = tensor::DType::kMXFP4;
      tensor.shape = source.scales->shape;
      tensor.shape.ne[0] *= tensor::kBlock;
      tensor.bytes = source.scales->bytes * sizeof(BlockMXFP4);
      Add(std::move(tensor));
      places_.push_back({source.blocks, source.scales});
    }
  }

  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    const Source& place = places_[tensor.index];
    if (place.scales == nullptr) return files().Read(*place.blocks, offset, out);
    if (out.empty()) return OkStatus();
    constexpr size_t kBytes = sizeof(BlockMXFP4);
    const size_t first = offset / kBytes;
    const size_t count = (offset + out.size() + kBytes - 1) / kBytes - first;
    std::vector<std::byte> codes(count * kCodeBytes), scales(count);
    RETURN_IF_ERROR(files().Read(*place.blocks, first * kCodeBytes, codes));
    RETURN_IF_ERROR(files().Read(*place.scales, first, scales));
    std::vector<BlockMXFP4> blocks(count);
    for (size_t i = 0; i < count; ++i) {
      blocks[i].e = static_cast<uint8_t>(scales[i]);
      if (blocks[i].e == kNotANumber) {
        return InvalidArgument("model_nonfinite",
                               place.scales->Named() + " holds a scale that is not a number");
      }
      Reorder(&codes[i * kCodeBytes], blocks[i].qs);
    }
    std::memcpy(out.data(), std::as_bytes(std::span(blocks)).data() + offset % kBytes, out.size());
    return OkStatus();
  }

  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    const Source& place = places_[tensor.index];
    if (place.scales == nullptr) return files().ReadFloats(*place.blocks);
    const StoredTensor& whole = tensors()[tensor.index];
    std::vector<std::byte> bytes(whole.bytes);
    RETURN_IF_ERROR(Read(whole, 0, bytes));
    std::vector<float> values(static_cast<size_t>(whole.shape.elements()));
    tensor::DequantizeRow(whole.dtype, bytes.data(), values.data(), whole.shape.elements());
    return values;
  }

 private:
  std::vector<Source> places_;  // where tensors() come from; without scales the tensor itself
};

}  // namespace

Result<std::unique_ptr<TensorStore>> MakeMxfp4Store(std::unique_ptr<TensorStore> files,
                                                    const JsonFile& config,
                                                    std::vector<std::string>& notes) {
  constexpr std::string_view kIgnore = "modules_to_not_convert";
  ASSIGN_OR_RETURN(const IgnoreList ignored, IgnoreList::Read(config, kIgnore));
  std::map<std::string, Mxfp4Store::Source> sources;
  for (const std::string& name : ModulesWith(*files, kBlocks)) {
    const std::string module = name.substr(0, name.rfind('.'));
    if (ignored.Find(module) == IgnoreList::Match::kYes)
      return config.Refuse(kIgnore, "names module {}, which is quantised", Quote(module, 128));
    const StoredTensor* blocks = files->Find(name + std::string(kBlocks));
    tensor::Shape shape;  // of the scales
    shape.dims = blocks->shape.dims - 1;
    for (size_t i = 1; i < tensor::kMaxDims; ++i) shape.ne[i - 1] = blocks->shape.ne[i];
    if (blocks->stored_type != "U8" || shape.dims < 1 || blocks->shape.columns() != kCodeBytes ||
        shape.elements() < 1) {
      return InvalidArgument(files->shape_code(),
                             fmt::format("{} is {} {}, not U8 in blocks of 16", blocks->Named(),
                                         blocks->stored_type, blocks->shape.ToString()));
    }
    ASSIGN_OR_RETURN(const StoredTensor* scales,
                     ExpectStored(*files, name + std::string(kScales), {"U8"}, shape));
    sources[name] = {blocks, scales};
  }
  if (sources.empty())
    return config.Refuse("quant_method", "is {}, but no tensor is quantised", Quote("mxfp4"));
  notes.push_back(
      fmt::format("{} tensor{} of experts in MXFP4, kept in 4 bits: codes exact, scales exact from "
                  "2^-23 to 2^16",
                  sources.size(), sources.size() == 1 ? "" : "s"));
  return std::unique_ptr<TensorStore>(std::make_unique<Mxfp4Store>(std::move(files), sources));
}

}  // namespace tutti::model::quantized
