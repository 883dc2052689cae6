// Steps of `describe` for families whose layers differ in shape, share keys and values, or have
// inputs of their own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/families/family.h"

namespace tutti::model {
namespace {

// Sizes of heads in layers with a window; those of the others are set already.
Status ReadWindowHeads(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  constexpr std::string_view kHeads = "attention.head_count_kv", kDims = "attention.key_length_swa";
  ASSIGN_OR_RETURN(const std::vector<int> kv_heads,
                   keys.IntsOfLayers(kHeads, config.layers, 1, kMaxHeads));
  const auto first = std::find(config.windowed.begin(), config.windowed.end(), true);
  config.window_kv_heads = kv_heads[static_cast<size_t>(first - config.windowed.begin())];
  // A folder states them for each kind of layer, a GGUF for each layer.
  for (int i = 0; i < config.layers; ++i) {
    if (source.form == Form::kTransformers && !config.has_window(i)) continue;
    if (kv_heads[static_cast<size_t>(i)] == config.kv_heads_of(i)) continue;
    return RefuseParameter("{} differs among layers of one kind, which is not supported",
                           keys.Spelled(kHeads));
  }
  ASSIGN_OR_RETURN(const int64_t dims, keys.IntOr(kDims, config.head_dim, 1, kMaxWidth));
  for (const char* same : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    ASSIGN_OR_RETURN(const int64_t other, keys.IntOr(same, dims, 1, kMaxWidth));
    if (other == dims) continue;
    return RefuseParameter("{} is {}, but {} is {}, which is not supported", keys.Spelled(same),
                           other, keys.Spelled(kDims), dims);
  }
  config.window_head_dim = static_cast<int>(dims);
  if (config.heads * dims > kMaxWidth || config.heads * dims % 32 != 0) {
    return RefuseParameter("{} heads of {} must be a multiple of 32 up to {}", config.heads, dims,
                           kMaxWidth);
  }
  return OkStatus();
}

}  // namespace

Status ShareKeysAndValues(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kShared = "attention.shared_kv_layers";
  int64_t shared = 0;
  // Published GGUFs of Gemma 3n have a float there.
  if (const auto number = source.keys.Float(kShared, 0, kMaxLayers);
      source.form == Form::kGguf && number.ok() && *number == std::floor(*number)) {
    shared = static_cast<int64_t>(*number);
  } else {
    ASSIGN_OR_RETURN(shared, source.keys.IntOr(kShared, 0, 0, kMaxLayers));
  }
  if (shared == 0) return OkStatus();
  const int64_t own = config.layers - shared;
  config.kv_layer.resize(static_cast<size_t>(config.layers));
  for (int i = 0; i < config.layers; ++i) {
    int owner = i;
    if (i >= own) {
      owner = static_cast<int>(own) - 1;
      while (owner >= 0 && config.has_window(owner) != config.has_window(i)) --owner;
    }
    if (owner < 0) {
      return RefuseParameter("{} is {} of {} layers: no layer of its kind has keys for layer {}",
                             source.keys.Spelled(kShared), shared, config.layers, i);
    }
    config.kv_layer[static_cast<size_t>(i)] = owner;
  }
  return OkStatus();
}

Status ReadFeedForwards(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kWidth = "feed_forward_length";
  ASSIGN_OR_RETURN(std::vector<int> widths,
                   source.keys.IntsOfLayers(kWidth, config.layers, 1, kMaxFeedForward / 2));
  ASSIGN_OR_RETURN(const bool wide, source.keys.BoolOr("use_double_wide_mlp", false));
  for (int i = 0; i < config.layers; ++i) {
    int& width = widths[static_cast<size_t>(i)];
    if (wide && !config.owns_kv(i)) width *= 2;
    if (width % 32 == 0) continue;
    return RefuseParameter("{} is {} in layer {}, not a multiple of 32 as the kernels need",
                           source.keys.Spelled(kWidth), width, i);
  }
  if (std::count(widths.begin(), widths.end(), config.feed_forward) != config.layers)
    config.feed_forwards = std::move(widths);
  return OkStatus();
}

Status ReadLayerShapes(const FamilySource& source, int every, ModelConfig& config) {
  RETURN_IF_ERROR(ReadKindsOfLayers(source, every, config));
  // transformers takes the last layer for one without a window whatever a folder says.
  if (!config.windowed.empty() && source.form == Form::kTransformers)
    config.windowed.back() = false;
  if (config.has_window(config.layers - 1)) {
    return RefuseParameter("{}: the last layer has a window, which is not supported",
                           source.keys.Spelled("attention.sliding_window_pattern"));
  }
  if (std::count(config.windowed.begin(), config.windowed.end(), true) == 0) {
    config.windowed.clear();
    config.window = 0;
  } else {
    RETURN_IF_ERROR(ReadWindowHeads(source, config));
    RETURN_IF_ERROR(ReadWindowRope(source, 10000.0, config));
  }
  RETURN_IF_ERROR(ShareKeysAndValues(source, config));
  RETURN_IF_ERROR(ReadFeedForwards(source, config));
  if (source.form == Form::kTransformers) {
    ASSIGN_OR_RETURN(config.values_are_keys, source.keys.BoolOr("attention_k_eq_v", false));
    return OkStatus();
  }
  for (int i = 0; i < config.layers; ++i) {
    if (config.has_window(i) || !config.owns_kv(i)) continue;
    config.values_are_keys = source.store.Find(fmt::format("blk.{}.attn_v.weight", i)) == nullptr;
    break;
  }
  return OkStatus();
}

Status ReadLayerInputs(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kInputs = "embedding_length_per_layer_input";
  constexpr std::string_view kTokens = "vocab_size_per_layer_input";
  ASSIGN_OR_RETURN(const int64_t inputs, source.keys.IntOr(kInputs, 0, 0, kMaxWidth));
  config.layer_inputs = static_cast<int>(inputs);
  if (inputs == 0) return OkStatus();
  if (inputs % 32 != 0 || config.layers * inputs > kMaxFeedForward) {
    return RefuseParameter("{} is {}; it must be a multiple of 32, and {} layers of it at most {}",
                           source.keys.Spelled(kInputs), inputs, config.layers, kMaxFeedForward);
  }
  const StoredTensor* tokens = source.store.Find("token_embd.weight");
  const int64_t rows = tokens == nullptr ? 0 : tokens->shape.rows();
  ASSIGN_OR_RETURN(const int64_t stated, source.keys.IntOr(kTokens, rows, 0, kMaxVocabulary));
  config.layer_vocab = static_cast<int>(stated);
  if (stated == rows || (config.streams != 0 && stated >= 1 && stated < rows)) return OkStatus();
  return RefuseParameter("{} is {}, but there are {} tokens, which is not supported",
                         source.keys.Spelled(kTokens), stated, rows);
}

}  // namespace tutti::model
