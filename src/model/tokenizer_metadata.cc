#include "model/tokenizer_metadata.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gguf/metadata.h"

namespace tutti::model {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string Key(std::string_view name) { return std::string(kPrefix).append(name); }

Status ReadStrings(const gguf::Header& header, std::string_view name,
                   std::vector<std::string>* out) {
  ASSIGN_OR_RETURN(const gguf::StringArray strings, gguf::GetStrings(header, Key(name)));
  out->reserve(strings.size());
  for (const std::string_view text : strings) out->emplace_back(text);
  return OkStatus();
}

Status ReadLists(const gguf::Header& header, tokenizer::TokenizerSpec& spec) {
  RETURN_IF_ERROR(ReadStrings(header, "tokens", &spec.tokens));
  if (header.Find(Key("merges"))) RETURN_IF_ERROR(ReadStrings(header, "merges", &spec.merges));
  if (header.Find(Key("scores"))) {
    ASSIGN_OR_RETURN(const auto scores, gguf::GetFloats(header, Key("scores")));
    spec.scores.reserve(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) spec.scores.push_back(scores[i]);
  }
  if (header.Find(Key("token_type"))) {
    ASSIGN_OR_RETURN(const auto types, gguf::GetInt32s(header, Key("token_type")));
    spec.token_types.reserve(types.size());
    for (size_t i = 0; i < types.size(); ++i) spec.token_types.push_back(types[i]);
  }
  return OkStatus();
}

Status ReadId(const gguf::Header& header, std::string_view name, std::optional<int64_t>* out) {
  const std::string key = Key(name);
  if (!header.Find(key)) return OkStatus();
  ASSIGN_OR_RETURN(const uint32_t id, gguf::GetU32(header, key));
  *out = id;
  return OkStatus();
}

Status ReadFlag(const gguf::Header& header, const std::string& key, std::optional<bool>* out) {
  if (!header.Find(key)) return OkStatus();
  ASSIGN_OR_RETURN(*out, gguf::GetBool(header, key));
  return OkStatus();
}

// Of a unigram model ("t5"). Such files do not list the steps of the normaliser; they have a map,
// and a flag for spaces at the ends and in rows.
Status ReadUnigram(const gguf::Header& header, tokenizer::TokenizerSpec& spec) {
  using Kind = tokenizer::UnigramSpec::StepKind;
  tokenizer::UnigramSpec& unigram = spec.unigram;
  unigram.scores.assign(spec.scores.begin(), spec.scores.end());
  if (const auto map = header.Find(Key("precompiled_charsmap"));
      map && map->is_array() && map->count > 0) {
    if (map->element != gguf::ValueType::kUint8 && map->element != gguf::ValueType::kInt8) {
      return InvalidArgument("gguf_type", Key("precompiled_charsmap") + " is no array of bytes");
    }
    unigram.charsmap.assign(reinterpret_cast<const char*>(map->data),
                            static_cast<size_t>(map->count));
    unigram.normalizer.push_back({Kind::kCharsmap, ""});
  }
  ASSIGN_OR_RETURN(const bool squeeze,
                   gguf::GetBoolOr(header, Key("remove_extra_whitespaces"), true));
  if (squeeze) {
    unigram.normalizer.push_back({Kind::kStripLeft, ""});
    unigram.normalizer.push_back({Kind::kStripRight, ""});
    unigram.normalizer.push_back({Kind::kSqueeze, " "});
  }
  unigram.mark_first = spec.add_space_prefix.value_or(true);
  return OkStatus();
}

// What encoders with such tokenizers read of two texts: <s> A </s> </s> B </s>.
void FramePairs(tokenizer::TokenizerSpec& spec) {
  if (!spec.bos || !spec.eos || !spec.add_bos.value_or(false) || !spec.add_eos.value_or(false))
    return;
  using Place = tokenizer::FramePlace;
  spec.pair = {{*spec.bos, 0}, {Place::kFirstText, 0},  {*spec.eos, 0},
               {*spec.eos, 0}, {Place::kSecondText, 0}, {*spec.eos, 0}};
}

}  // namespace

Result<tokenizer::TokenizerSpec> ReadTokenizerSpec(const gguf::Header& header) {
  tokenizer::TokenizerSpec spec;
  ASSIGN_OR_RETURN(spec.model, gguf::GetString(header, Key("model")));
  ASSIGN_OR_RETURN(spec.pre, gguf::GetStringOr(header, Key("pre"), ""));
  RETURN_IF_ERROR(ReadLists(header, spec));

  const std::pair<std::string_view, std::optional<int64_t>*> ids[] = {
      {"bos_token_id", &spec.bos},
      {"eos_token_id", &spec.eos},
      {"eot_token_id", &spec.eot},
      {"eom_token_id", &spec.eom},
      {"unknown_token_id", &spec.unk},
      {"seperator_token_id", &spec.sep},  // spelled so in the format
      {"padding_token_id", &spec.pad},
      {"cls_token_id", &spec.cls},
      {"mask_token_id", &spec.mask},
      {"fim_pre_token_id", &spec.fim_pre},
      {"fim_suf_token_id", &spec.fim_suf},
      {"fim_mid_token_id", &spec.fim_mid},
      {"fim_pad_token_id", &spec.fim_pad},
      {"fim_rep_token_id", &spec.fim_rep},
      {"fim_sep_token_id", &spec.fim_sep},
  };
  for (const auto& [name, out] : ids) RETURN_IF_ERROR(ReadId(header, name, out));
  RETURN_IF_ERROR(ReadFlag(header, Key("add_bos_token"), &spec.add_bos));
  RETURN_IF_ERROR(ReadFlag(header, Key("add_eos_token"), &spec.add_eos));
  RETURN_IF_ERROR(ReadFlag(header, Key("add_space_prefix"), &spec.add_space_prefix));
  // Not of the format: folder_gguf.cc writes it where the kind of split does not say it.
  RETURN_IF_ERROR(ReadFlag(header, Key("ignore_merges"), &spec.ignore_merges));
  RETURN_IF_ERROR(ReadFlag(header, Key("normalizer.lowercase"), &spec.lowercase));
  RETURN_IF_ERROR(ReadFlag(header, Key("normalizer.strip_accents"), &spec.strip_accents));
  if (spec.model == "t5") RETURN_IF_ERROR(ReadUnigram(header, spec));
  if (spec.model == "t5" || spec.model == "gpt2") FramePairs(spec);
  ASSIGN_OR_RETURN(spec.chat_template, gguf::GetStringOr(header, "tokenizer.chat_template", ""));
  return spec;
}

Status CheckVocabulary(const ModelConfig& config, const tokenizer::Tokenizer& tokenizer) {
  if (config.vocab_size == tokenizer.vocabulary_size()) return OkStatus();
  return InvalidArgument("tokenizer_invalid",
                         "the tokenizer has " + std::to_string(tokenizer.vocabulary_size()) +
                             " tokens and the model " + std::to_string(config.vocab_size));
}

}  // namespace tutti::model
