#include "model/tokenizer_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/quote.h"
#include "gguf/metadata.h"
#include "model/hyper_parameters.h"
#include "model/json_file.h"
#include "tokenizer/huggingface.h"

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
  // Files of one tokenizer kind may contain the lists of another, even invalid ones: not read.
  const bool by_scores = spec.model == "llama" || spec.model == "t5";
  // BPE over characters is stored as kind "llama" for other programs; Tutti reads its merges
  // (folder_gguf_keys.cc).
  const bool by_merges =
      (!by_scores && spec.model != "bert") || header.Find(Key("tutti.pipeline")).has_value();
  if (by_merges && header.Find(Key("merges")))
    RETURN_IF_ERROR(ReadStrings(header, "merges", &spec.merges));
  if (by_scores && header.Find(Key("scores"))) {
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

// Writers represent "no token" as -1, as 2^32 - 1, as an id beyond the vocabulary or as a value of
// another type.
void ReadId(const gguf::Header& header, std::string_view name, size_t tokens,
            std::optional<int64_t>* out) {
  const std::optional<gguf::Value> value = header.Find(Key(name));
  if (!value || value->is_array()) return;
  const std::optional<int64_t> id = IntegerAt(*value, 0);
  if (id && *id >= 0 && static_cast<uint64_t>(*id) < tokens) *out = *id;
}

Status ReadFlag(const gguf::Header& header, const std::string& key, std::optional<bool>* out) {
  if (!header.Find(key)) return OkStatus();
  ASSIGN_OR_RETURN(*out, gguf::GetBool(header, key));
  return OkStatus();
}

// The steps of a unigram model ("t5"). A GGUF does not list them: it has a map of characters, and a
// flag for spaces at the ends and in rows.
Status ReadUnigram(const gguf::Header& header, tokenizer::TokenizerSpec& spec) {
  using Kind = tokenizer::NormalizerStep::Kind;
  spec.unigram_scores.assign(spec.scores.begin(), spec.scores.end());
  if (const auto map = header.Find(Key("precompiled_charsmap"));
      map && map->is_array() && map->count > 0) {
    if (map->element != gguf::ValueType::kUint8 && map->element != gguf::ValueType::kInt8) {
      return InvalidArgument("gguf_type", Key("precompiled_charsmap") + " is no array of bytes");
    }
    spec.normalizer.push_back({.kind = Kind::kCharsmap,
                               .pattern = std::string(reinterpret_cast<const char*>(map->data),
                                                      static_cast<size_t>(map->count))});
  }
  ASSIGN_OR_RETURN(const bool squeeze,
                   gguf::GetBoolOr(header, Key("remove_extra_whitespaces"), true));
  if (squeeze) {
    spec.normalizer.push_back({.kind = Kind::kStripLeft});
    spec.normalizer.push_back({.kind = Kind::kStripRight});
    spec.normalizer.push_back({.kind = Kind::kReplaceRegex, .pattern = " {2,}", .content = " "});
  }
  using Step = tokenizer::SplitStep;
  const bool prefix = spec.add_space_prefix.value_or(true);
  spec.split = {{.kind = Step::Kind::kMetaspace,
                 .pattern = "\xE2\x96\x81",
                 .prepend = prefix ? Step::Prepend::kAlways : Step::Prepend::kNever}};
  spec.decode_strips_space = prefix;
  spec.has_steps = true;
  return OkStatus();
}

// BPE over characters of Gemma 4, whose steps a GGUF does not list. Source: llama.cpp's
// llama-vocab.cpp.
void ReadGemma4(tokenizer::TokenizerSpec& spec) {
  using Split = tokenizer::SplitStep::Kind;
  spec.model = "bpe";
  spec.pre.clear();
  spec.byte_fallback = true;
  spec.normalizer = {{.kind = tokenizer::NormalizerStep::Kind::kReplaceText,
                      .pattern = " ",
                      .content = std::string(tokenizer::kWordMark)}};
  spec.split = {{.kind = Split::kRegex, .pattern = "[^\n]+|[\n]+"}};
  spec.has_steps = true;
}

// Rules of added tokens, which a GGUF does not carry: known by the names of the models that need
// them. Source: llama.cpp's llama-vocab.cpp.
void AddRulesByName(const gguf::Header& header, tokenizer::TokenizerSpec& spec) {
  using tokenizer::TokenType;
  const auto lower = [&](std::string_view key) {
    const auto text = gguf::GetStringOr(header, std::string(key), "");
    return text.ok() ? AsciiLower(*text) : std::string();
  };
  const std::string name = lower("general.name"), architecture = lower("general.architecture");
  const auto has = [](std::string_view text, std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(
        parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
  };
  const bool mask = has(spec.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code", "roberta-bpe"}) ||
                    has(architecture, {"nomic-bert-moe", "jina-bert-v3"});
  const bool bracket_mask = has(name, {"modern-bert", "modernbert"}) || spec.pre == "modern-bert";
  const bool phi3 = has(name, {"phi-3", "phi3"});
  if (!mask && !bracket_mask && !phi3) return;
  for (size_t id = 0; id < std::min(spec.tokens.size(), spec.token_types.size()); ++id) {
    const std::string& text = spec.tokens[id];
    const auto type = static_cast<TokenType>(spec.token_types[id]);
    tokenizer::AddedTokenRule rule{.id = static_cast<int32_t>(id)};
    rule.lstrip = (mask && text == "<mask>") || (bracket_mask && text == "[MASK]");
    const bool is_added = type == TokenType::kControl || type == TokenType::kUserDefined;
    rule.rstrip = phi3 && (is_added || text == "</s>") && text != "<unk>" && text != "<s>" &&
                  text != "<|endoftext|>";
    if (rule.lstrip || rule.rstrip) spec.added.push_back(rule);
  }
}

// Framing of a text pair for encoders with such tokenizers: <s> A </s> </s> B </s>.
void FramePairs(tokenizer::TokenizerSpec& spec) {
  if (!spec.bos || !spec.eos || !spec.add_bos.value_or(false) || !spec.add_eos.value_or(false))
    return;
  using Place = tokenizer::FramePlace;
  spec.pair = {{*spec.bos, 0}, {Place::kFirstText, 0},  {*spec.eos, 0},
               {*spec.eos, 0}, {Place::kSecondText, 0}, {*spec.eos, 0}};
}

Status NoTokenizerJson(const files::Folder& folder) {
  constexpr std::string_view kMissing = "the folder has no tokenizer.json";
  for (const char* name :
       {"tokenizer.model", "spm.model", "spiece.model", "sentencepiece.bpe.model"}) {
    if (!folder.OpenSource(name, "tokenizer_invalid").ok()) continue;
    return InvalidArgument(
        "tokenizer_invalid",
        fmt::format("{}: {} is not read; transformers' AutoTokenizer makes a tokenizer.json of it",
                    kMissing, name));
  }
  return InvalidArgument(
      "tokenizer_invalid",
      fmt::format("{}; copy it from the model that this one was made of, or save it there with "
                  "transformers' AutoTokenizer",
                  kMissing));
}

}  // namespace

Result<tokenizer::TokenizerSpec> ReadTokenizerSpec(const gguf::Header& header) {
  tokenizer::TokenizerSpec spec;
  ASSIGN_OR_RETURN(spec.model, gguf::GetString(header, Key("model")));
  ASSIGN_OR_RETURN(spec.pre, gguf::GetStringOr(header, Key("pre"), ""));
  RETURN_IF_ERROR(ReadLists(header, spec));
  if (spec.model == "gemma4") ReadGemma4(spec);

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
      // The first three are the older names of the three that follow.
      {"prefix_token_id", &spec.fim_pre},
      {"suffix_token_id", &spec.fim_suf},
      {"middle_token_id", &spec.fim_mid},
      {"fim_pre_token_id", &spec.fim_pre},
      {"fim_suf_token_id", &spec.fim_suf},
      {"fim_mid_token_id", &spec.fim_mid},
      {"fim_pad_token_id", &spec.fim_pad},
      {"fim_rep_token_id", &spec.fim_rep},
      {"fim_sep_token_id", &spec.fim_sep},
  };
  for (const auto& [name, out] : ids) ReadId(header, name, spec.tokens.size(), out);
  RETURN_IF_ERROR(ReadFlag(header, Key("add_bos_token"), &spec.add_bos));
  RETURN_IF_ERROR(ReadFlag(header, Key("add_eos_token"), &spec.add_eos));
  RETURN_IF_ERROR(ReadFlag(header, Key("add_space_prefix"), &spec.add_space_prefix));
  // Not a key of the format. Files that earlier versions packed have it; later ones have it in
  // tutti.pipeline.
  RETURN_IF_ERROR(ReadFlag(header, Key("ignore_merges"), &spec.ignore_merges));
  RETURN_IF_ERROR(ReadFlag(header, Key("normalizer.lowercase"), &spec.lowercase));
  RETURN_IF_ERROR(ReadFlag(header, Key("normalizer.strip_accents"), &spec.strip_accents));
  if (spec.model == "t5") RETURN_IF_ERROR(ReadUnigram(header, spec));
  if (spec.model == "t5" || spec.model == "gpt2") FramePairs(spec);
  ASSIGN_OR_RETURN(spec.chat_template, gguf::GetStringOr(header, "tokenizer.chat_template", ""));
  // Tutti's own keys, for settings of tokenizer.json that GGUF has no key for
  // (folder_gguf_keys.cc).
  ASSIGN_OR_RETURN(spec.pipeline, gguf::GetStringOr(header, Key("tutti.pipeline"), ""));
  if (header.Find(Key("tutti.ends"))) {
    ASSIGN_OR_RETURN(const auto ends, gguf::GetInt32s(header, Key("tutti.ends")));
    for (size_t i = 0; i < ends.size(); ++i) spec.ends.push_back(ends[i]);
  }
  if (!spec.pipeline.empty()) {
    spec.pre.clear();
    RETURN_IF_ERROR(tokenizer::ApplyPipeline(spec));
  } else {
    AddRulesByName(header, spec);
  }
  return spec;
}

Status CheckRows(int rows, const tokenizer::TokenizerSpec& spec,
                 std::vector<std::string>& remarks) {
  const size_t size = spec.tokens.size(), first = static_cast<size_t>(rows);
  if (size <= first) return OkStatus();
  const auto ordinary = [](int32_t type) {
    using tokenizer::TokenType;
    return type == static_cast<int32_t>(TokenType::kNormal) ||
           type == static_cast<int32_t>(TokenType::kByte);
  };
  for (size_t id = first; id < size; ++id) {
    // Tokenizer::Create refuses a list of types of another length.
    if (id < spec.token_types.size() && !ordinary(spec.token_types[id])) continue;
    return InvalidArgument(
        "tokenizer_invalid",
        fmt::format("the tokenizer has {} tokens, the embedding {} rows: token {} {} has none",
                    size, rows, id, Quote(spec.tokens[id], 40)));
  }
  const bool one = size == first + 1;
  remarks.push_back(fmt::format(
      "{} added token{} from {} {} on ha{} no row in the embedding: a prompt with {} is refused",
      size - first, one ? "" : "s", rows, Quote(spec.tokens[first], 40), one ? "s" : "ve",
      one ? "it" : "one"));
  return OkStatus();
}

void PadTokens(int rows, tokenizer::TokenizerSpec& spec) {
  const auto wanted = static_cast<size_t>(rows);
  if (spec.tokens.size() >= wanted) return;
  if (spec.token_types.empty())
    spec.token_types.assign(spec.tokens.size(),
                            static_cast<int32_t>(tokenizer::TokenType::kNormal));
  while (spec.tokens.size() < wanted) {
    spec.tokens.push_back(fmt::format("[PAD{}]", spec.tokens.size()));
    spec.token_types.push_back(static_cast<int32_t>(tokenizer::TokenType::kUnused));
    if (!spec.scores.empty()) spec.scores.push_back(0);
  }
}

Result<tokenizer::TokenizerSpec> ReadFolderTokenizer(const files::Folder& folder) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   ReadIfThere(folder, "tokenizer.json", tokenizer::kMaxTokenizerJsonBytes));
  if (!text) return NoTokenizerJson(folder);
  ASSIGN_OR_RETURN(const std::string settings, ReadOrEmpty(folder, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, tokenizer::SpecFromHuggingFace(*text, settings));
  ASSIGN_OR_RETURN(std::string chat, ReadOrEmpty(folder, "chat_template.jinja"));
  if (!chat.empty()) spec.chat_template = std::move(chat);
  return spec;
}

}  // namespace tutti::model
