// DeBERTa version 2 and 3 (He et al. 2021): BERT whose scores also have a product of the query with
// a key of the distance, and one of the key with a query of the distance. Usually without a table
// of positions; distances beyond half of the buckets share them by logarithm.
#include <array>

#include "base/quote.h"
#include "model/config.h"
#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr EncoderNames NamesOfDeberta() {
  EncoderNames names = NamesOfBert();
  names.positions = "embeddings.position_embeddings";
  names.q = "attention.self.query_proj";
  names.k = "attention.self.key_proj";
  names.v = "attention.self.value_proj";
  names.up = "intermediate.dense";
  names.down = "output.dense";
  names.ffn_norm = "output.LayerNorm";
  names.distances = "encoder.rel_embeddings";
  names.distances_norm = "encoder.LayerNorm";
  names.distance_k = "attention.self.pos_key_proj";
  names.distance_q = "attention.self.pos_query_proj";
  return names;
}
constexpr std::array<EncoderNames, 1> kDebertaNames = {NamesOfDeberta()};
constexpr std::string_view kDebertaPrefixes[] = {"deberta."};

// Calls add(word) for each word of a list, or of a text that has them between bars.
template <typename Add>
Status ForEachWord(const JsonFile& file, std::string_view key, const Add& add) {
  const boost::json::value* value = file.Find(key);
  if (value == nullptr) return OkStatus();
  if (const boost::json::string* text = value->if_string()) {
    std::string_view rest(text->data(), text->size());
    while (!rest.empty()) {
      const size_t bar = rest.find('|');
      std::string_view word = rest.substr(0, bar);
      rest = bar == rest.npos ? std::string_view() : rest.substr(bar + 1);
      while (word.starts_with(' ')) word.remove_prefix(1);
      while (word.ends_with(' ')) word.remove_suffix(1);
      RETURN_IF_ERROR(add(word));
    }
    return OkStatus();
  }
  if (!value->is_array()) return file.Refuse(key, "must be a text or a list");
  for (const boost::json::value& item : value->get_array()) {
    if (!item.is_string()) return file.Refuse(key, "must be a list of texts");
    RETURN_IF_ERROR(add(std::string_view(item.get_string().data(), item.get_string().size())));
  }
  return OkStatus();
}

// Settings that are known in one way alone.
Status CheckDebertaSwitches(const JsonFile& file, const EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "gelu"));
  for (const auto& [key, supported] : {std::pair<std::string_view, int>{"conv_kernel_size", 0},
                                       {"embedding_size", config.width},
                                       {"pooler_hidden_size", config.width},
                                       {"attention_head_size", config.head_dim()}}) {
    ASSIGN_OR_RETURN(const int value, file.IntOr(key, supported, 0, kMaxWidth));
    if (value != supported)
      return file.Refuse(key, "is {}, only {} is supported", value, supported);
  }
  return OkStatus();
}

// The terms of distances and the rows of their embeddings.
Status ReadRelative(const JsonFile& file, EncoderConfig& config) {
  EncoderConfig::Relative& relative = config.relative;
  ASSIGN_OR_RETURN(const bool on, file.BoolOr("relative_attention", false));
  RETURN_IF_ERROR(ForEachWord(file, "pos_att_type", [&](std::string_view word) {
    if (word != "c2p" && word != "p2c")
      return file.Refuse("pos_att_type", "{} is not supported (c2p, p2c)", Quote(word));
    (word == "c2p" ? relative.keys : relative.queries) = true;
    return OkStatus();
  }));
  config.score_terms = 1 + (relative.keys ? 1 : 0) + (relative.queries ? 1 : 0);
  RETURN_IF_ERROR(ForEachWord(file, "norm_rel_ebd", [&](std::string_view word) {
    if (word != "layer_norm" && word != "none")
      return file.Refuse("norm_rel_ebd", "{} is not supported (none, layer_norm)", Quote(word));
    relative.norm |= word == "layer_norm";
    return OkStatus();
  }));
  ASSIGN_OR_RETURN(relative.shared, file.BoolOr("share_att_key", false));
  ASSIGN_OR_RETURN(const int farthest, file.IntOr("max_relative_positions", -1, -1, kMaxContext));
  relative.farthest = farthest < 1 ? config.positions : farthest;
  ASSIGN_OR_RETURN(const int buckets, file.IntOr("position_buckets", -1, -1, kMaxContext));
  relative.buckets = buckets < 1 ? 0 : buckets;
  if (!on || config.score_terms == 1) return OkStatus();
  if (relative.buckets % 2 != 0 || (buckets > 0 && relative.farthest - 1 <= buckets / 2)) {
    return file.Refuse("position_buckets",
                       "is {}, but must be even and its half below max_relative_positions - 1 ({})",
                       buckets, relative.farthest - 1);
  }
  relative.span = relative.buckets > 0 ? relative.buckets : relative.farthest;
  return OkStatus();
}

Status DescribeDeberta(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(ReadBertShape(file, 0, config));
  if (!file.Has("layer_norm_eps")) config.norm_eps = 1e-7F;
  RETURN_IF_ERROR(CheckDebertaSwitches(file, config));
  ASSIGN_OR_RETURN(config.position_table, file.BoolOr("position_biased_input", true));
  RETURN_IF_ERROR(ReadRelative(file, config));
  ASSIGN_OR_RETURN(config.head.activation, ReadActivationOf(file, "pooler_hidden_act", "gelu"));
  return OkStatus();
}

}  // namespace

const EncoderFamily kDebertaV2 = {.model_type = "deberta-v2",
                                  .architecture = "deberta-v2",
                                  .class_prefix = "DebertaV2",
                                  .prefixes = kDebertaPrefixes,
                                  .names = kDebertaNames,
                                  .describe = &DescribeDeberta};

}  // namespace tutti::model
