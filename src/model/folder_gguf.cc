#include "model/folder_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/quote.h"
#include "gguf/header_writer.h"
#include "model/config_parameters.h"
#include "model/decoder_tensors.h"
#include "model/families/family.h"
#include "model/weights.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"
#include "tokenizer/huggingface.h"

namespace tutti::model {
namespace {

constexpr std::string_view kTokenizerPrefix = "tokenizer.ggml.";

// Order of the rows of queries or keys: a folder has the two halves of a head one after the other;
// in the GGUF of some architectures they alternate. Or of value heads (or of the columns that read
// them): a folder has those of a group one after another; in the GGUF of Qwen 3.5 head h is of
// group h % groups.
struct RowOrder {
  int64_t head = 0;      // rows of a head; 0: the order is kept
  int64_t rotating = 0;  // number of them that rotate, from the first on
  int64_t groups = 0;    // groups of value heads; 0: the order is that of rotation
  int64_t heads_of_group = 0;
  int64_t begin = 0;     // rows before those of value heads
  bool columns = false;  // the order is that of columns
  int64_t known = 0;  // rows of the folder's tensor; the GGUF's further ones are its first; 0: none

  // The folder's row that becomes the GGUF's `row`.
  int64_t Source(int64_t row) const {
    if (known != 0) return row < known ? row : 0;
    if (head == 0 || row < begin) return row;
    if (groups != 0) {
      const int64_t to = (row - begin) / head;
      return begin + (to % groups * heads_of_group + to / groups) * head + (row - begin) % head;
    }
    const int64_t in_head = row % head;
    if (in_head >= rotating) return row;
    return row - in_head + in_head % 2 * (rotating / 2) + in_head / 2;
  }
};

struct Piece {
  const StoredTensor* tensor;
  RowOrder order;
  uint64_t bytes = tensor->bytes;  // in the GGUF
};

// A tensor of the GGUF: consecutive pieces of the folder's tensors.
struct WholeTensor {
  std::string name;
  std::vector<Piece> pieces;
  std::vector<float> values;  // instead of pieces, of what no file has
  tensor::DType type = tensor::DType::kF32;
  tensor::Shape shape;
  bool floats = false;           // widened
  std::vector<RowScale> scales;  // of all its rows; of one piece
  uint64_t bytes = 0;
};

// The order of tensors in the GGUF, independent of the folder's.
std::tuple<int, int, std::string_view> PlaceInFile(std::string_view name) {
  if (const auto in = InLayer(name)) return {1, in->first, in->second};
  return {name == "token_embd.weight" || name.starts_with("rope_f") ? 0 : 2, 0, name};
}

std::optional<int> NumberAt(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The joined tensor of the architecture's GGUF that a tensor of the folder is a part of: its name,
// and the number of the part.
std::pair<std::string, int> WholeOf(const Family& family, const ModelConfig& config,
                                    const std::string& name) {
  for (const std::string_view stacked : {"altup_proj.", "altup_unembd_proj."}) {
    if (!name.starts_with(stacked)) continue;
    if (const auto number = NumberAt(std::string_view(name).substr(stacked.size())))
      return {std::string(stacked).append("weight"), *number};
  }
  const auto in = InLayer(name);
  if (!in) return {name, 0};
  const auto whole = [&](std::string_view rest, int part) {
    return std::pair(fmt::format("blk.{}.{}", in->first, rest), part);
  };
  for (const JoinedTensor& joined : family.gguf_joined)
    if (in->second == joined.part) return whole(joined.whole, joined.place);
  // Queries and gates of a head, and what DecoderTensors made of a group's heads.
  constexpr int kKind = 1 << 20;  // a kind of rows comes as a whole before the next
  static constexpr struct {
    std::string_view part, whole;
    int begin, step;
  } kNumbered[] = {
      {"attn_q.", "attn_q.weight", 0, 2},
      {"attn_gate.", "attn_q.weight", 1, 2},
      {"attn_k_b.", "attn_kv_b.weight", 0, 2},
      {"attn_v_b.", "attn_kv_b.weight", 1, 2},
      {"ssm_query.", "attn_qkv.weight", 0, 1},
      {"ssm_key.", "attn_qkv.weight", kKind, 1},
      {"ssm_value.", "attn_qkv.weight", 2 * kKind, 1},
      {"ssm_gate.", "attn_gate.weight", 0, 1},
      {"ssm_beta.", "ssm_ba.weight", 0, 2},
      {"ssm_alpha.", "ssm_ba.weight", 1, 2},
  };
  for (const auto& numbered : kNumbered) {
    if (!in->second.starts_with(numbered.part)) continue;
    if (const auto number = NumberAt(in->second.substr(numbered.part.size())))
      return whole(numbered.whole, numbered.begin + *number * numbered.step);
  }
  for (const std::string_view kind : {"ffn_gate.", "ffn_up.", "ffn_down."}) {
    if (config.experts == 0 || !in->second.starts_with(kind)) continue;
    const std::string_view end = in->second.ends_with(".bias") ? "bias" : "weight";
    if (const auto expert = NumberAt(in->second.substr(kind.size())))
      return whole(fmt::format("{}_exps.{}", kind.substr(0, kind.size() - 1), end), *expert);
  }
  return {name, 0};
}

// "dense_2" for the first module behind the pooling, which is the second of all.
std::string DenseNameOf(size_t index) { return fmt::format("dense_{}", index + 2); }

// What a GGUF cannot say of vectors and scores.
Status CheckVectors(const DecoderCheckpoint& checkpoint) {
  const auto refuse = [](std::string_view what) {
    return RefuseParameter("a GGUF cannot hold {}; serve the folder", what);
  };
  RETURN_IF_ERROR(checkpoint.vectors.status());
  const VectorModules& modules = *checkpoint.vectors;
  if (modules.scores) {
    if (!modules.scores->no) return refuse("a score of one token");
    if (modules.scores->activation != ScoreActivation::kSigmoid)
      return refuse("a score without a sigmoid");
    return RendersPairs(checkpoint.tokenizer.chat_template) ? OkStatus() : PairTemplateFault();
  }
  if (modules.pooling == Pooling::kMax) return refuse("the pooling max");
  if (!modules.normalize) return refuse("vectors that are not normalised");
  if (checkpoint.head.dense.size() > 2) return refuse("more than two Dense modules");
  for (const VectorHead::Dense& layer : checkpoint.head.dense) {
    if (layer.activation || !layer.bias.empty())
      return refuse("a Dense module with a bias or an activation");
  }
  return OkStatus();
}

void PutVectors(const DecoderCheckpoint& checkpoint, gguf::HeaderWriter& out) {
  const std::string prefix = checkpoint.config.architecture + ".";
  const VectorModules& modules = *checkpoint.vectors;
  if (modules.scores) {
    out.U32(prefix + "pooling_type", 4);
    const std::vector<std::string> labels = {"yes", "no"};
    out.Strings(prefix + "classifier.output_labels", labels);
    out.String("tokenizer.chat_template.rerank", RerankTextOf(checkpoint.tokenizer.chat_template));
    return;
  }
  out.U32(prefix + "pooling_type", modules.pooling == Pooling::kMean  ? 1
                                   : modules.pooling == Pooling::kCls ? 2
                                                                      : 3);
  size_t in = static_cast<size_t>(checkpoint.config.width);
  for (size_t i = 0; i < checkpoint.head.dense.size(); ++i) {
    const size_t columns = checkpoint.head.dense[i].columns;
    const std::string name = prefix + DenseNameOf(i);
    out.U32(name + "_feat_in", static_cast<uint32_t>(in));
    out.U32(name + "_feat_out", static_cast<uint32_t>(columns));
    in = columns;
  }
}

class Layout {
 public:
  Layout(const DecoderCheckpoint& checkpoint, const HyperParameters& keys)
      : checkpoint_(checkpoint),
        keys_(keys),
        family_(*FamilyOfArchitecture(checkpoint.config.architecture)) {}

  Result<std::vector<WholeTensor>> Make() {
    const ModelConfig& config = checkpoint_.config;
    std::map<std::string, std::map<int, Piece>> wholes;
    for (const StoredTensor& tensor : checkpoint_.tensors->tensors()) {
      const auto [name, part] = WholeOf(family_, config, tensor.name);
      wholes[name].emplace(part, Piece{&tensor, OrderOf(tensor.name)});
    }
    if (HasHeadOfItsOwn()) wholes[std::string(kHead)] = wholes[std::string(kEmbedding)];
    std::vector<WholeTensor> tensors;
    for (const auto& [name, pieces] : wholes) {
      ASSIGN_OR_RETURN(tensors.emplace_back(), Whole(name, pieces));
      RETURN_IF_ERROR(SetScales(tensors.back()));
    }
    AddRopeFactors(tensors);
    AddVectorHead(tensors);
    std::sort(tensors.begin(), tensors.end(), [](const WholeTensor& a, const WholeTensor& b) {
      return PlaceInFile(a.name) < PlaceInFile(b.name);
    });
    return tensors;
  }

 private:
  static constexpr std::string_view kEmbedding = "token_embd.weight", kHead = "output.weight";
  static constexpr std::string_view kLayerEmbedding = "per_layer_token_embd.weight";

  // Whether the head is the embedding in the folder, but has other multipliers in the GGUF.
  bool HasHeadOfItsOwn() const {
    const ModelConfig& config = checkpoint_.config;
    if (!config.tied_head || family_.gguf_scales == nullptr) return false;
    const auto factor = [&](std::string_view name) {
      return family_.gguf_scales(keys_, config, name).at(0).factor;
    };
    return factor(kEmbedding) != factor(kHead);
  }

  RowOrder OrderOf(std::string_view name) const {
    const ModelConfig& config = checkpoint_.config;
    const auto in = InLayer(name);
    const bool turns =
        in && (in->second.starts_with("attn_q.") || in->second.starts_with("attn_k."));
    if (in && family_.gguf_tiled_heads && config.is_recurrent(in->first))
      return OrderOfHeads(in->second);
    if (!turns || family_.gguf_rope == family_.folder_rope) return {};
    return {.head = config.head_dim, .rotating = config.rope_dims};
  }

  // The order of a tensor of a layer with a recurrence.
  RowOrder OrderOfHeads(std::string_view name) const {
    const ModelConfig& config = checkpoint_.config;
    RowOrder order{.head = config.state_values,
                   .groups = config.state_groups,
                   .heads_of_group = config.state_heads / config.state_groups};
    if (name == "attn_qkv.weight" || name == "ssm_conv1d.weight") {
      order.begin = int64_t{2} * config.state_groups * config.state_keys;
    } else if (name == "ssm_out.weight") {
      order.columns = true;
    } else if (name == "ssm_beta.weight" || name == "ssm_alpha.weight" || name == "ssm_a" ||
               name == "ssm_dt.bias") {
      order.head = 1;
    } else if (name != "attn_gate.weight") {
      return {};
    }
    return order;
  }

  Result<WholeTensor> Whole(const std::string& name, const std::map<int, Piece>& pieces) const {
    WholeTensor whole;
    whole.name = name;
    for (const auto& [part, piece] : pieces) whole.pieces.push_back(piece);
    const StoredTensor& first = *whole.pieces[0].tensor;
    whole.floats = first.shape.rows() == 1 || name.ends_with("ffn_gate_inp.weight") ||
                   name.ends_with("conv.weight") || name.ends_with("conv1d.weight") ||
                   name.ends_with(".ssm_a") || name.ends_with(".ssm_d") ||
                   name.ends_with("ssm_norm.weight") || name.ends_with("altup_router.weight") ||
                   name.ends_with("_coef.weight");
    whole.type = whole.floats ? tensor::DType::kF32 : first.dtype;
    whole.shape = first.shape;
    if (name == kLayerEmbedding && first.shape.rows() < checkpoint_.config.vocab_size) {
      PadLayerEmbedding(whole);
    } else if (name.ends_with("_exps.weight") || name.starts_with("altup_")) {
      whole.shape = {first.shape.columns(), first.shape.rows(),
                     static_cast<int64_t>(pieces.size())};
    } else if (name.ends_with("_exps.bias")) {
      whole.shape = {first.shape.columns(), static_cast<int64_t>(pieces.size())};
    } else if (name.ends_with("ffn_gate_inp_shexp.weight")) {
      whole.shape = {first.shape.columns()};  // a vector, as converters write it
    } else if (pieces.size() > 1) {
      int64_t rows = 0;
      for (const Piece& piece : whole.pieces) rows += piece.tensor->shape.rows();
      whole.shape = {first.shape.columns(), rows};
    }
    for (const Piece& piece : whole.pieces) {
      if (piece.tensor->dtype == first.dtype) continue;
      return InvalidArgument(checkpoint_.tensors->shape_code(),
                             fmt::format("tensors {} and {} are one in a GGUF and have types {} "
                                         "and {}",
                                         first.name, piece.tensor->name, tensor::Name(first.dtype),
                                         tensor::Name(piece.tensor->dtype)));
    }
    whole.bytes = tensor::RowBytes(whole.type, whole.shape.columns()) *
                  static_cast<uint64_t>(whole.shape.rows());
    return whole;
  }

  // Readers of a GGUF expect a row for each token.
  void PadLayerEmbedding(WholeTensor& whole) const {
    Piece& piece = whole.pieces[0];
    piece.order.known = whole.shape.rows();
    whole.shape = {whole.shape.columns(), checkpoint_.config.vocab_size};
    piece.bytes = tensor::RowBytes(whole.type, whole.shape.columns()) *
                  static_cast<uint64_t>(whole.shape.rows());
  }

  Status SetScales(WholeTensor& tensor) const {
    if (family_.gguf_scales == nullptr || tensor.floats) return OkStatus();
    tensor.scales = family_.gguf_scales(keys_, checkpoint_.config, tensor.name);
    const auto one = [](const RowScale& scale) { return scale.factor == 1; };
    if (std::all_of(tensor.scales.begin(), tensor.scales.end(), one)) tensor.scales.clear();
    if (tensor.scales.empty()) return OkStatus();
    const bool floats = tensor.type == tensor::DType::kF32 || tensor.type == tensor::DType::kF16 ||
                        tensor.type == tensor::DType::kBF16;
    if (floats) return OkStatus();
    return RefuseParameter("the multipliers of {} cannot become part of {}, which is {}",
                           checkpoint_.config.architecture, tensor.name, tensor::Name(tensor.type));
  }

  // Llama 3's scaling is a tensor there.
  void AddRopeFactors(std::vector<WholeTensor>& tensors) const {
    const ModelConfig& config = checkpoint_.config;
    if (config.rope_freq_factors.empty() || config.rope_yarn) return;
    if (checkpoint_.tensors->Find("rope_freqs.weight") != nullptr) return;
    AddFactors(config.rope_long ? "rope_factors_short.weight" : "rope_freqs.weight",
               config.rope_freq_factors, tensors);
    if (config.long_context != 0)
      AddFactors("rope_factors_long.weight", config.rope_long_factors, tensors);
  }

  static void AddFactors(std::string_view name, const std::vector<float>& values,
                         std::vector<WholeTensor>& tensors) {
    AddValues(name, values, {static_cast<int64_t>(values.size())}, tensors);
  }

  void AddVectorHead(std::vector<WholeTensor>& tensors) const {
    const VectorHead& head = checkpoint_.head;
    const int64_t width = checkpoint_.config.width;
    if (head.scores()) {
      std::vector<float> rows = head.yes;
      rows.insert(rows.end(), head.no.begin(), head.no.end());
      AddValues("cls.output.weight", std::move(rows), {width, 2}, tensors);
    }
    int64_t in = width;
    for (size_t i = 0; i < head.dense.size(); ++i) {
      const VectorHead::Dense& layer = head.dense[i];
      const size_t out = layer.columns;
      std::vector<float> rows(layer.weight.size());
      for (size_t at = 0; at < rows.size(); ++at)
        rows[at % out * static_cast<size_t>(in) + at / out] = layer.weight[at];
      const auto columns = static_cast<int64_t>(out);
      AddValues(DenseNameOf(i) + ".weight", std::move(rows), {in, columns}, tensors);
      in = columns;
    }
  }

  static void AddValues(std::string_view name, std::vector<float> values, tensor::Shape shape,
                        std::vector<WholeTensor>& tensors) {
    WholeTensor added;
    added.name = name;
    added.bytes = values.size() * sizeof(float);
    added.values = std::move(values);
    added.shape = shape;
    tensors.push_back(std::move(added));
  }

  const DecoderCheckpoint& checkpoint_;
  const HyperParameters& keys_;
  const Family& family_;  // of a GGUF
};

// The pairs of the architecture.
class KeyWriter {
 public:
  KeyWriter(const ModelConfig& config, const HyperParameters& keys, gguf::HeaderWriter& out)
      : config_(config),
        family_(*FamilyOfArchitecture(config.architecture)),
        keys_(keys),
        out_(out) {}

  Status Write() {
    PutInt("block_count", config_.layers);
    PutInt("context_length", config_.max_context());
    PutInt("embedding_length", config_.width);
    RETURN_IF_ERROR(PutFeedForward());
    PutInt("attention.head_count", config_.heads);
    PutKvHeads();
    PutInt("attention.key_length", config_.head_dim);
    PutInt("attention.value_length", config_.value_width());
    if (config_.latent_rank != 0) PutLatent();
    if (family_.layers_differ) PutLayerShapes();
    PutFloat(family_.norm_eps, static_cast<double>(config_.norm_eps));
    PutInt("vocab_size", config_.vocab_size);
    // If rows see each other both ways, the key counts the tokens of both sides.
    if (config_.window != 0 || family_.chunked)
      PutInt("attention.sliding_window",
             config_.both_ways ? 2 * (config_.window - 1) : config_.window);
    if (config_.experts != 0) {
      PutExperts();
      RETURN_IF_ERROR(CopyInt("leading_dense_block_count"));
      RETURN_IF_ERROR(CopyInt("interleave_moe_layer_step"));
    }
    if (family_.chunked) PutChunkedAttention();
    if (config_.inner_norms)
      out_.String(Named("hidden_activation"), config_.gate == GateKind::kRelu2 ? "relu2" : "silu");
    if (config_.output_bias) out_.Bool(Named("attention.bias"), true);
    if (family_.gguf_tiled_heads) PutRopeSections();
    for (const std::string_view key : family_.state_keys) RETURN_IF_ERROR(CopyInt(key));
    if (config_.state_heads != 0)
      PutInt("ssm.inner_size", config_.state_heads * config_.state_values);
    if (family_.recurrent_interval) PutRecurrentLayers();
    if (!config_.xielu.empty()) PutXielu();
    RETURN_IF_ERROR(PutFamilyKeys());
    // Readers of the hybrids take it for whether they rotate.
    if (family_.kv_heads_by_layer && config_.rope_mode != kernels::RopeMode::kNone)
      out_.Bool(Named("rope.scaling.finetuned"), true);
    return PutRope();
  }

 private:
  std::string Named(std::string_view key) const {
    return fmt::format("{}.{}", config_.architecture, key);
  }
  void PutInt(std::string_view key, int value) {
    out_.U32(Named(key), static_cast<uint32_t>(value));
  }
  void PutFloat(std::string_view key, double value) {
    out_.F32(Named(key), static_cast<float>(value));
  }
  Status CopyFloat(std::string_view key) {
    if (!keys_.Has(key)) return OkStatus();
    ASSIGN_OR_RETURN(const double value, keys_.Float(key, -1e12, 1e12));
    PutFloat(key, value);
    return OkStatus();
  }
  Status CopyInt(std::string_view key) {
    if (!keys_.Has(key)) return OkStatus();
    ASSIGN_OR_RETURN(const int64_t value, keys_.Int(key, 0, kMaxContext));
    PutInt(key, static_cast<int>(value));
    return OkStatus();
  }

  // Keys of layers with a window, and of what layers share or have of their own.
  void PutLayerShapes() {
    int shared = 0;
    for (int i = 0; i < config_.layers; ++i) shared += !config_.owns_kv(i);
    PutInt("attention.shared_kv_layers", shared);
    PutInt("embedding_length_per_layer_input", config_.layer_inputs);
    if (config_.streams != 0) {
      PutInt("altup.num_inputs", config_.streams);
      PutInt("altup.active_idx", config_.active_stream);
      out_.Floats(Named("activation_sparsity_scale"), config_.gate_cutoffs);
      constexpr std::string_view kCap = "final_logit_softcapping";  // none is not the default there
      if (!keys_.Has(kCap)) PutFloat(kCap, static_cast<double>(config_.logit_softcap));
    }
    if (config_.window_head_dim == 0) return;
    for (const char* key :
         {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
      PutInt(key, config_.window_head_dim);
  }

  Status PutFeedForward() {
    if (!config_.feed_forwards.empty()) {
      out_.Int32s(Named("feed_forward_length"), config_.feed_forwards);
      return OkStatus();
    }
    if (config_.feed_forward_alone.empty()) {
      PutInt("feed_forward_length", config_.feed_forward);
      return OkStatus();
    }
    std::vector<int32_t> widths;
    int32_t first = 0;
    for (int i = 0; i < config_.layers; ++i) {
      const int32_t width = !config_.has_feed_forward(i) ? 0
                            : config_.has_experts(i)     ? config_.expert_feed_forward
                                                         : config_.feed_forward;
      if (width != 0 && first != 0 && width != first) {
        return RefuseParameter("a GGUF of {} has feed-forwards of one width, not of {} and {}",
                               config_.architecture, first, width);
      }
      first = width != 0 ? width : first;
      widths.push_back(width);
    }
    out_.Int32s(Named("feed_forward_length"), widths);
    return OkStatus();
  }

  void PutKvHeads() {
    const bool listed = family_.kv_heads_by_layer || config_.window_kv_heads != 0;
    if (!listed) return PutInt("attention.head_count_kv", config_.kv_heads);
    std::vector<int32_t> heads;
    for (int i = 0; i < config_.layers; ++i)
      heads.push_back(config_.has_attention(i) ? config_.kv_heads_of(i) : 0);
    out_.Int32s(Named("attention.head_count_kv"), heads);
  }

  // Other programs need it: how many of the rotating pairs turn by time, height and width.
  void PutRopeSections() {
    const int pairs = config_.rope_dims / 2;
    const std::vector<int32_t> sections = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    out_.Int32s(Named("rope.dimension_sections"), sections);
  }

  void PutRecurrentLayers() {
    std::vector<bool> recurrent;
    for (int i = 0; i < config_.layers; ++i) recurrent.push_back(config_.is_recurrent(i));
    const auto first = std::find(recurrent.begin(), recurrent.end(), false) - recurrent.begin();
    const int every = static_cast<int>(first) + 1;
    bool regular = true;
    for (int i = 0; i < config_.layers; ++i)
      regular &= recurrent[static_cast<size_t>(i)] == ((i + 1) % every != 0);
    if (regular) return PutInt("full_attention_interval", every);
    out_.Bools(Named("attention.recurrent_layers"), recurrent);
  }

  // These keys have no architecture before them.
  void PutXielu() {
    const std::pair<const char*, float Xielu::*> parameters[] = {
        {"xielu.alpha_p", &Xielu::alpha_positive},
        {"xielu.alpha_n", &Xielu::alpha_negative},
        {"xielu.beta", &Xielu::beta},
        {"xielu.eps", &Xielu::epsilon}};
    for (const auto& [key, parameter] : parameters) {
      std::vector<float> values;
      for (const Xielu& layer : config_.xielu) values.push_back(layer.*parameter);
      out_.Floats(key, values);
    }
  }

  // Converters write none of these. The last is a key of Tutti's own.
  void PutChunkedAttention() {
    PutFloat("attention.temperature_scale", config_.query_growth);
    PutInt("attention.temperature_length", config_.query_period);
    out_.Bool(Named("attention.qk_norm"), config_.head_norm == HeadNorm::kUnweighted);
  }

  // Ranks of latent attention. The epsilon is a key of Tutti's own: converters have none.
  void PutLatent() {
    PutInt("attention.kv_lora_rank", config_.latent_rank);
    if (config_.query_rank != 0) PutInt("attention.q_lora_rank", config_.query_rank);
    if (config_.latent_norm_eps != config_.norm_eps)
      PutFloat("attention.latent_norm_epsilon", static_cast<double>(config_.latent_norm_eps));
  }

  void PutExperts() {
    PutInt("expert_count", config_.experts);
    PutInt("expert_used_count", config_.experts_used);
    if (family_.expert_width_key) PutInt("expert_feed_forward_length", config_.expert_feed_forward);
    constexpr std::string_view kCount = "expert_shared_count";
    constexpr std::string_view kLength = "expert_shared_feed_forward_length";
    const auto knows = [&](std::string_view key) {
      return std::find(family_.keys.begin(), family_.keys.end(), key) != family_.keys.end();
    };
    if (config_.shared_feed_forward != 0 && knows(kCount) && !knows(kLength)) {
      PutInt(kCount, config_.shared_feed_forward / config_.expert_feed_forward);
    } else if (config_.shared_feed_forward != 0) {
      PutInt(kLength, config_.shared_feed_forward);
    }
    if (config_.expert_groups > 1) {
      PutInt("expert_group_count", config_.expert_groups);
      PutInt("expert_group_used_count", config_.expert_groups_used);
    }
    if (config_.router_score == RouterScore::kSigmoid) {
      PutInt("expert_gating_func", 2);
      PutFloat("expert_weights_scale", static_cast<double>(config_.expert_weights_scale));
      out_.Bool(Named("expert_weights_norm"), config_.expert_weights_sum_to_1);
      return;
    }
    if (!config_.expert_weights_sum_to_1) out_.Bool(Named("expert_weights_norm"), false);
    if (config_.expert_weights_scale != 1)
      PutFloat("expert_weights_scale", static_cast<double>(config_.expert_weights_scale));
  }

  // Multipliers and caps, which the family has read already.
  Status PutFamilyKeys() {
    for (const std::string_view key : family_.keys) {
      const auto& whole = family_.state_keys;
      const bool copied = std::find(whole.begin(), whole.end(), key) != whole.end();
      const bool folded = family_.gguf_scales != nullptr && key == "embedding_scale";
      if (copied || folded || key.starts_with("expert_") || key == "mlp_bias" ||
          key == "attention.sliding_window" || key == "attention.causal")
        continue;
      RETURN_IF_ERROR(CopyFloat(key));
    }
    RETURN_IF_ERROR(CopyFloat("query_pre_attn_scalar"));
    PutWindowedLayers();
    PutRotatingLayers();
    return OkStatus();
  }

  // Where they are not those that readers of the architecture assume.
  void PutWindowedLayers() {
    if (config_.window == 0) return;
    const bool second = config_.architecture == "gemma2" || config_.architecture == "gpt-oss";
    const bool gemma3 = config_.architecture == "gemma3" || config_.both_ways;
    const int every = second ? 2 : gemma3 ? 6 : family_.chunked ? family_.unrotated_every : 0;
    std::vector<bool> windowed, assumed;
    for (int i = 0; i < config_.layers; ++i) {
      windowed.push_back(config_.has_window(i));
      assumed.push_back(every == 0 || (i + 1) % every != 0);
    }
    if (windowed != assumed || family_.window_list)
      out_.Bools(Named("attention.sliding_window_pattern"), windowed);
  }

  // Where they are not those that readers of the architecture assume.
  void PutRotatingLayers() {
    if (family_.unrotated_every == 0) return;
    std::vector<bool> rotating, assumed;
    for (int i = 0; i < config_.layers; ++i) {
      rotating.push_back(config_.rotates(i));
      assumed.push_back((i + 1) % family_.unrotated_every != 0);
    }
    if (rotating != assumed) out_.Bools(Named("rope.layers"), rotating);
  }

  Status PutRope() {
    PutInt("rope.dimension_count", config_.rope_dims);
    PutFloat("rope.freq_base", config_.rope_freq_base);
    if (config_.rope_window_freq_base != 0)
      PutFloat("rope.freq_base_swa", config_.rope_window_freq_base);
    if (config_.rope_long) {
      out_.String(Named("rope.scaling.type"), "longrope");
      PutInt("rope.scaling.original_context_length", config_.context_length);
      PutFloat("rope.scaling.attn_factor", config_.rope_magnitude);
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string type, keys_.StringOr("rope.scaling.type", "none"));
    if (type != "linear" && type != "yarn") return OkStatus();  // a tensor, or none
    out_.String(Named("rope.scaling.type"), type);
    RETURN_IF_ERROR(CopyFloat("rope.scaling.factor"));
    if (type == "linear") return OkStatus();
    RETURN_IF_ERROR(CopyInt("rope.scaling.original_context_length"));
    RETURN_IF_ERROR(CopyFloat("rope.scaling.yarn_beta_fast"));
    RETURN_IF_ERROR(CopyFloat("rope.scaling.yarn_beta_slow"));
    // A key of Tutti's own: converters have none.
    constexpr std::string_view kTruncate = "rope.scaling.truncate";
    ASSIGN_OR_RETURN(const bool truncates, keys_.BoolOr(kTruncate, true));
    if (truncates != family_.yarn_truncates) out_.Bool(Named(kTruncate), truncates);
    // A folder's is the whole magnitude, a GGUF's multiplies YaRN's own.
    ASSIGN_OR_RETURN(const double factor, keys_.Float("rope.scaling.factor", 1.0, 1e6));
    double own = 0.1 * std::log(factor) + 1.0;
    if (config_.latent_rank != 0) {
      ASSIGN_OR_RETURN(const double all, keys_.FloatOr("rope.scaling.mscale_all_dim", 0, 0, 1e3));
      if (all != 0) {
        PutFloat("rope.scaling.yarn_log_multiplier", 0.1 * all);
        own = 1;
      }
    }
    if (config_.rope_magnitude != own)
      PutFloat("rope.scaling.attn_factor", config_.rope_magnitude / own);
    return OkStatus();
  }

  const ModelConfig& config_;
  const Family& family_;
  const HyperParameters& keys_;
  gguf::HeaderWriter& out_;
};

Status PutTokenizer(const tokenizer::TokenizerSpec& spec, gguf::HeaderWriter& out) {
  const bool characters = spec.model == "bpe";
  if (spec.model != "gpt2" && spec.model != "llama" && !characters) {
    return InvalidArgument("tokenizer_unsupported",
                           fmt::format("a tokenizer of kind {} is in no decoder's GGUF (gpt2 and "
                                       "llama are)",
                                       Quote(spec.model)));
  }
  const auto key = [](std::string_view name) { return std::string(kTokenizerPrefix).append(name); };
  // Other programs read BPE over characters as SentencePiece's, by scores; this one by the merges
  // and the pipeline.
  out.String(key("model"), characters ? "llama" : spec.model);
  out.String(key("pre"), spec.pre.empty() ? "default" : spec.pre);
  out.Strings(key("tokens"), spec.tokens);
  if (characters) {
    ASSIGN_OR_RETURN(const std::vector<float> scores, tokenizer::ScoresFromMerges(spec));
    out.Floats(key("scores"), scores);
  } else if (!spec.scores.empty()) {
    out.Floats(key("scores"), spec.scores);
  }
  if (!spec.token_types.empty()) out.Int32s(key("token_type"), spec.token_types);
  if (!spec.merges.empty()) out.Strings(key("merges"), spec.merges);
  const std::pair<std::string_view, const std::optional<int64_t>*> ids[] = {
      {"bos_token_id", &spec.bos},     {"eos_token_id", &spec.eos},
      {"eot_token_id", &spec.eot},     {"eom_token_id", &spec.eom},
      {"unknown_token_id", &spec.unk}, {"padding_token_id", &spec.pad},
      {"mask_token_id", &spec.mask},
  };
  for (const auto& [name, id] : ids) {
    // An id that is no token is not used when the folder is served, so that it is left out here.
    if (!*id || **id < 0 || static_cast<uint64_t>(**id) >= spec.tokens.size()) continue;
    out.U32(key(name), static_cast<uint32_t>(**id));
  }
  const std::pair<std::string_view, const std::optional<bool>*> flags[] = {
      {"add_bos_token", &spec.add_bos},
      {"add_eos_token", &spec.add_eos},
      {"add_space_prefix", &spec.add_space_prefix},
  };
  for (const auto& [name, flag] : flags) {
    if (*flag) out.Bool(key(name), **flag);
  }
  if (characters) {
    const bool prefix =
        std::ranges::any_of(spec.normalizer, [](const tokenizer::NormalizerStep& step) {
          return step.kind == tokenizer::NormalizerStep::Kind::kPrepend;
        });
    out.Bool(key("add_space_prefix"), prefix || spec.decode_strips_space.value_or(false));
  }
  // Tutti's own keys, for settings of the folder that the format has no key for.
  if (!spec.ends.empty()) {
    std::vector<int32_t> ends;
    for (const int64_t id : spec.ends) {
      if (id >= 0 && static_cast<uint64_t>(id) < spec.tokens.size())
        ends.push_back(static_cast<int32_t>(id));
    }
    out.Int32s(key("tutti.ends"), ends);
  }
  if (!spec.pipeline.empty()) out.String(key("tutti.pipeline"), spec.pipeline);
  if (!spec.chat_template.empty()) out.String("tokenizer.chat_template", spec.chat_template);
  return OkStatus();
}

void PutSampling(const GenerationDefaults& defaults, gguf::HeaderWriter& out) {
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) out.F32(key, static_cast<float>(*value));
  };
  if (defaults.do_sample) out.Bool("general.sampling.do_sample", *defaults.do_sample);
  if (defaults.top_k) out.U32("general.sampling.top_k", static_cast<uint32_t>(*defaults.top_k));
  put("general.sampling.temp", defaults.temperature);
  put("general.sampling.top_p", defaults.top_p);
  put("general.sampling.min_p", defaults.min_p);
  put("general.sampling.penalty_repeat", defaults.repetition_penalty);
}

std::vector<uint64_t> BytesOf(const std::vector<WholeTensor>& tensors) {
  std::vector<uint64_t> bytes;
  for (const WholeTensor& tensor : tensors) bytes.push_back(tensor.bytes);
  return bytes;
}

// The GGUF's bytes: its header from memory, its tensors from the folder.
class FolderSource final : public gguf::ComposedSource {
 public:
  FolderSource(std::shared_ptr<const TensorStore> store, std::vector<std::byte> header,
               std::vector<WholeTensor> tensors)
      : ComposedSource(std::move(header), BytesOf(tensors), gguf::kDefaultAlignment),
        store_(std::move(store)),
        tensors_(std::move(tensors)) {}

  Status CheckUnchanged() const override { return store_->CheckUnchanged(); }

 private:
  Status ReadTensor(size_t index, uint64_t offset, std::span<std::byte> out) const override {
    const WholeTensor& tensor = tensors_[index];
    if (tensor.pieces.empty()) {
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(tensor.values.data()) + offset,
                  out.size());
      return OkStatus();
    }
    if (tensor.floats) return ReadWidened(tensor, offset, out);
    if (!tensor.scales.empty()) return ReadScaled(tensor, offset, out);
    for (const Piece& piece : tensor.pieces) {
      const uint64_t bytes = piece.bytes;
      if (offset < bytes) {
        const size_t here = static_cast<size_t>(std::min<uint64_t>(bytes - offset, out.size()));
        RETURN_IF_ERROR(ReadRows(piece, offset, out.first(here)));
        out = out.subspan(here);
        offset = 0;
      } else {
        offset -= bytes;
      }
      if (out.empty()) break;
    }
    return OkStatus();
  }

  Status ReadRows(const Piece& piece, uint64_t offset, std::span<std::byte> out) const {
    if (piece.order.head == 0 && piece.order.known == 0)
      return store_->Read(*piece.tensor, offset, out);
    const size_t row_bytes = piece.tensor->bytes / static_cast<size_t>(piece.tensor->shape.rows());
    while (!out.empty()) {
      const int64_t row = static_cast<int64_t>(offset / row_bytes);
      const size_t in_row = static_cast<size_t>(offset % row_bytes);
      const size_t here = std::min(out.size(), row_bytes - in_row);
      if (piece.order.columns) {
        RETURN_IF_ERROR(ReadColumns(piece, row, in_row, out.first(here)));
      } else {
        const uint64_t from = static_cast<uint64_t>(piece.order.Source(row)) * row_bytes + in_row;
        RETURN_IF_ERROR(store_->Read(*piece.tensor, from, out.first(here)));
      }
      out = out.subspan(here);
      offset += here;
    }
    return OkStatus();
  }

  // Bytes of one row from `begin` on, head by head.
  Status ReadColumns(const Piece& piece, int64_t row, size_t begin,
                     std::span<std::byte> out) const {
    const int64_t head = piece.order.head;
    const auto head_bytes = static_cast<size_t>(tensor::RowBytes(piece.tensor->dtype, head));
    const size_t row_bytes = piece.tensor->bytes / static_cast<size_t>(piece.tensor->shape.rows());
    while (!out.empty()) {
      const size_t in_head = begin % head_bytes;
      const size_t here = std::min(out.size(), head_bytes - in_head);
      const int64_t column = static_cast<int64_t>(begin / head_bytes) * head;
      const size_t from =
          static_cast<size_t>(piece.order.Source(column) / head) * head_bytes + in_head;
      RETURN_IF_ERROR(store_->Read(*piece.tensor, static_cast<uint64_t>(row) * row_bytes + from,
                                   out.first(here)));
      out = out.subspan(here);
      begin += here;
    }
    return OkStatus();
  }

  // Rows of F32, F16 or BF16, multiplied.
  Status ReadScaled(const WholeTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
    const Piece& piece = tensor.pieces[0];
    const auto columns = static_cast<uint64_t>(piece.tensor->shape.columns());
    const uint64_t size = tensor::RowBytes(tensor.type, 1);
    const uint64_t first = offset / size;
    const uint64_t end = (offset + out.size() + size - 1) / size;
    std::vector<std::byte> read(static_cast<size_t>((end - first) * size));
    RETURN_IF_ERROR(ReadRows(piece, first * size, read));
    size_t part = 0;
    uint64_t part_end = static_cast<uint64_t>(tensor.scales[0].rows) * columns;
    for (uint64_t i = first; i < end; ++i) {
      while (i >= part_end) part_end += static_cast<uint64_t>(tensor.scales[++part].rows) * columns;
      Multiply(tensor.type, static_cast<float>(tensor.scales[part].factor),
               read.data() + (i - first) * size);
    }
    std::memcpy(out.data(), read.data() + (offset - first * size), out.size());
    return OkStatus();
  }

  static void Multiply(tensor::DType type, float factor, std::byte* value) {
    if (type == tensor::DType::kF32) {
      float number = 0;
      std::memcpy(&number, value, sizeof number);
      number *= factor;
      std::memcpy(value, &number, sizeof number);
      return;
    }
    uint16_t half = 0;
    std::memcpy(&half, value, sizeof half);
    half = type == tensor::DType::kF16
               ? tensor::FloatToHalf(tensor::HalfToFloat(half) * factor)
               : tensor::FloatToBFloat(tensor::BFloatToFloat(half) * factor);
    std::memcpy(value, &half, sizeof half);
  }

  // Small tensors whose values differ from the file's: converted as a whole at each read.
  Status ReadWidened(const WholeTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
    std::vector<float> ordered;
    for (const Piece& piece : tensor.pieces) {
      ASSIGN_OR_RETURN(const std::vector<float> values, store_->ReadFloats(*piece.tensor));
      // Each value of a vector is a row.
      const bool vector = piece.tensor->shape.rows() == 1;
      const auto columns = vector ? size_t{1} : static_cast<size_t>(piece.tensor->shape.columns());
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t row = piece.order.Source(static_cast<int64_t>(i / columns));
        ordered.push_back(values[static_cast<size_t>(row) * columns + i % columns]);
      }
    }
    CHECK_EQ(ordered.size() * sizeof(float), tensor.bytes);
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(ordered.data()) + offset,
                out.size());
    return OkStatus();
  }

  const std::shared_ptr<const TensorStore> store_;
  const std::vector<WholeTensor> tensors_;
};

}  // namespace

Result<std::shared_ptr<const gguf::File>> FolderAsGguf(DecoderCheckpoint checkpoint,
                                                       std::string_view name) {
  RETURN_IF_ERROR(checkpoint.encodes() ? CheckVectors(checkpoint) : OkStatus());
  RETURN_IF_ERROR(Weights::Check(checkpoint));
  ASSIGN_OR_RETURN(const JsonFile json, JsonFile::Parse(checkpoint.config_json, "config.json"));
  const ConfigParameters keys(json);
  ASSIGN_OR_RETURN(std::vector<WholeTensor> tensors, Layout(checkpoint, keys).Make());
  gguf::HeaderWriter header;
  header.String("general.architecture", checkpoint.config.architecture);
  header.String("general.type", "model");
  if (!name.empty()) header.String("general.name", name);
  PutSampling(checkpoint.generation, header);
  RETURN_IF_ERROR(KeyWriter(checkpoint.config, keys, header).Write());
  if (checkpoint.encodes()) PutVectors(checkpoint, header);
  RETURN_IF_ERROR(PutTokenizer(checkpoint.tokenizer, header));
  for (const WholeTensor& tensor : tensors)
    header.Tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
  return gguf::File::FromSource(std::make_shared<FolderSource>(
      checkpoint.tensors, header.Build(gguf::kDefaultAlignment), std::move(tensors)));
}

Result<std::shared_ptr<const gguf::File>> OpenFolderAsGguf(const std::string& path) {
  ASSIGN_OR_RETURN(DecoderCheckpoint checkpoint, DecoderCheckpoint::Open(path));
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  const std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return FolderAsGguf(std::move(checkpoint), name);
}

}  // namespace tutti::model
