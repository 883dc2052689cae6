#include "model/recurrence.h"

namespace tutti::model {

RecurrentShape ShapeOfRecurrence(const ModelConfig& config) {
  RecurrentShape shape;
  const int taps = config.conv_taps;
  const int keys = config.state_groups * config.state_keys;
  if (config.recurrence == Recurrence::kDeltaNet || config.recurrence == Recurrence::kMamba2) {
    shape.inner = config.state_heads * config.state_values;
    shape.conv_channels = 2 * keys + shape.inner;
    shape.head_floats =
        static_cast<size_t>(config.state_keys) * static_cast<size_t>(config.state_values);
  }
  switch (config.recurrence) {
    case Recurrence::kNone:
      return shape;
    case Recurrence::kShortConv:
      shape.inner = config.width;
      shape.conv_channels = config.width;
      shape.projected = shape.columns = 3 * config.width;
      shape.conv_begin = 2 * config.width;
      break;
    case Recurrence::kDeltaNet:
      shape.key = keys;
      shape.value = 2 * keys;
      shape.gate = shape.conv_channels;
      shape.rate = shape.gate + shape.inner;
      shape.decay = shape.rate + config.state_heads;
      shape.projected = shape.columns = shape.decay + config.state_heads;
      break;
    case Recurrence::kMamba2:
      shape.conv_begin = shape.value = shape.inner;
      shape.key = 2 * shape.inner;
      shape.query = shape.key + keys;
      shape.rate = shape.inner + shape.conv_channels;
      shape.decay = shape.rate + config.state_heads;
      shape.projected = shape.decay;
      shape.columns = shape.decay + config.state_heads;
      break;
  }
  constexpr size_t kLine = 16;  // floats of a cache line
  const size_t conv = static_cast<size_t>(taps - 1) * static_cast<size_t>(shape.conv_channels);
  shape.conv_floats = (conv + kLine - 1) / kLine * kLine;
  shape.state_floats =
      shape.conv_floats + static_cast<size_t>(config.state_heads) * shape.head_floats;
  return shape;
}

const char* RecurrenceFault(const ModelConfig& config) {
  if (config.recurrence == Recurrence::kNone) return nullptr;
  if (config.attention_layers() == 0) return "no layer has attention";
  if (config.conv_taps < kernels::kMinTaps || config.conv_taps > kernels::kMaxTaps)
    return "convolutions see 2 to 4 tokens";
  if (config.recurrence == Recurrence::kShortConv) return nullptr;
  if (config.state_heads % config.state_groups != 0) return "groups do not share heads evenly";
  if (config.state_values % (kernels::kStateColumns / 2) != 0)
    return "values of a head are not a multiple of 16";
  if (config.state_groups * config.state_keys % kernels::kChannelGranule != 0 ||
      config.state_keys % 2 != 0)
    return "keys are not a multiple of 16";
  if (ShapeOfRecurrence(config).inner > kMaxWidth) return "heads exceed the greatest width";
  return nullptr;
}

}  // namespace tutti::model
