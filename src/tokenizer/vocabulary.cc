#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "tokenizer/character_rules.h"
#include "tokenizer/pre_tokenizer_names.h"

namespace tutti::tokenizer {
namespace {

struct InfillFamily {
  std::string_view prefix, suffix;
  std::string_view middle;  // empty: no token comes before the answer
  bool suffix_first = false;
};

// Sources: llama.cpp's llama-vocab.cpp; the paper of Seed-Coder; encode_fim of mistral-common.
constexpr std::array<InfillFamily, 10> kInfillFamilies = {{
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},        // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},              // StarCoder, Granite Code
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},              // SantaCoder
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", true},  // Seed-Coder
    {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>",
     "<\uff5cfim\u2581end\uff5c>"},                             // DeepSeek
    {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},              // CodeLlama
    {"<PRE>", "<SUF>", "<MID>"},                                // CodeLlama, as some files spell it
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},  // GLM
    {"<|prefix|>", "<|suffix|>", "<|middle|>"},                 // Falcon-H1
    {"[PREFIX]", "[SUFFIX]", "", true},                         // Codestral
}};
constexpr std::array<std::string_view, 6> kRepositorySpellings = {
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<repo_name>", "<REPO>", "<reponame>"};
constexpr std::array<std::string_view, 4> kFileSpellings = {"<|file_sep|>", "<file_sep>",
                                                            "<|file_separator|>", "<filename>"};
constexpr std::array<std::string_view, 3> kPadSpellings = {"<|fim_pad|>", "<fim_pad>", "<fim-pad>"};

// Mellum has StarCoder's tokens in another order. A GGUF names its split so.
constexpr std::string_view kSuffixFirstSplit = "mellum";

const InfillFamily* FamilyOf(const Vocabulary& vocabulary) {
  const TokenId named = vocabulary.special().fim_pre;
  for (const InfillFamily& family : kInfillFamilies) {
    if (named != kNoToken) {
      if (vocabulary.Text(named) == family.prefix) return &family;
      continue;
    }
    const auto has = [&](std::string_view text) {
      return text.empty() || vocabulary.Find(text) != kNoToken;
    };
    if (has(family.prefix) && has(family.suffix) && has(family.middle)) return &family;
  }
  return nullptr;
}

// `named`, or the first of `spellings` that is a token.
TokenId NamedOrSpelled(const Vocabulary& vocabulary, TokenId named,
                       std::span<const std::string_view> spellings) {
  if (named != kNoToken) return named;
  for (const std::string_view spelling : spellings) {
    if (const TokenId id = vocabulary.Find(spelling); id != kNoToken) return id;
  }
  return kNoToken;
}

Status Invalid(std::string message) {
  return InvalidArgument("tokenizer_invalid", std::move(message));
}
Status TooLarge(std::string message) {
  return InvalidArgument("tokenizer_limit", std::move(message));
}

// A name from a file, made fit for a message: printable ASCII and at most 64 bytes.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 64)) out.push_back(c >= 0x20 && c < 0x7F ? c : '?');
  return out + "'";
}

std::optional<ModelKind> KindOf(std::string_view model) {
  if (model == "gpt2") return ModelKind::kByteBpe;
  if (model == "llama") return ModelKind::kSentencePiece;
  if (model == "bert") return ModelKind::kWordPiece;
  if (model == "t5") return ModelKind::kUnigram;
  if (model == "bpe") return ModelKind::kCharacterBpe;
  return std::nullopt;
}

// Spellings that end a turn in published models whose files do not name them as eos, eot or eom.
constexpr std::array<std::string_view, 20> kEndSpellings = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<EOT>",
    "_<EOT>",
    "\u2581<EOT>",
    "[EOT]",
    "<|end_of_text|>",
    "<|EOT|>",
    "<|return|>",
    "<|call|>",
    "<end_of_utterance>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>"};

// Whether a token is spelled like structural markup, which does not occur in text by chance.
bool IsMarker(std::string_view text) {
  return text.size() > 2 && ((text.front() == '<' && text.back() == '>') ||
                             (text.front() == '[' && text.back() == ']'));
}

// "<0x0A>" -> 0x0A.
std::optional<unsigned char> ByteOfSpelling(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = HexDigit(text[3]), low = HexDigit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string SpacesFromMarks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text.starts_with(kWordMark)) {
      out.push_back(' ');
      text.remove_prefix(kWordMark.size());
    } else {
      out.push_back(text.front());
      text.remove_prefix(1);
    }
  }
  return out;
}

// GGUF writes "##ing" as "ing" and "word" as U+2581 + "word"; this is the way back to vocab.txt.
std::string PlainWordPiece(std::string_view text) {
  if (text.starts_with(kWordMark)) return std::string(text.substr(kWordMark.size()));
  // Older converters left "[unused7]" and the like unchanged.
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') return std::string(text);
  return "##" + std::string(text);
}

// Finds them by the model file's keys, and otherwise by the spellings that published families
// share. No value: the vocabulary has no prefix, suffix and middle token of one family. A
// vocabulary with such tokens does not imply that the model was trained with them.
std::optional<InfillTokens> FindInfillTokens(const Vocabulary& vocabulary) {
  const SpecialIds& named = vocabulary.special();
  InfillTokens tokens{.prefix = named.fim_pre, .suffix = named.fim_suf, .middle = named.fim_mid};
  const InfillFamily* const family = FamilyOf(vocabulary);
  if (family != nullptr) {
    tokens.prefix = NamedOrSpelled(vocabulary, tokens.prefix, {&family->prefix, 1});
    tokens.suffix = NamedOrSpelled(vocabulary, tokens.suffix, {&family->suffix, 1});
    // Mistral's vocabularies have a middle token, which its prompts leave out.
    tokens.middle = family->middle.empty()
                        ? kNoToken
                        : NamedOrSpelled(vocabulary, tokens.middle, {&family->middle, 1});
    tokens.suffix_first = family->suffix_first || vocabulary.pre() == kSuffixFirstSplit;
  }
  const bool needs_middle = family == nullptr || !family->middle.empty();
  if (tokens.prefix == kNoToken || tokens.suffix == kNoToken ||
      (needs_middle && tokens.middle == kNoToken))
    return std::nullopt;
  tokens.repository = NamedOrSpelled(vocabulary, named.fim_rep, kRepositorySpellings);
  tokens.file = NamedOrSpelled(vocabulary, named.fim_sep, kFileSpellings);
  tokens.pad = NamedOrSpelled(vocabulary, named.fim_pad, kPadSpellings);
  return tokens;
}

}  // namespace

std::vector<TokenId> InfillTokens::All() const {
  std::vector<TokenId> all;
  for (const TokenId id : {prefix, suffix, middle, repository, file, pad}) {
    if (id != kNoToken) all.push_back(id);
  }
  return all;
}

Result<Vocabulary> Vocabulary::Create(TokenizerSpec& spec, std::string_view behind_answer) {
  const std::optional<ModelKind> kind = KindOf(spec.model);
  if (!kind) {
    return InvalidArgument("tokenizer_unsupported",
                           "tokenizer model " + Quoted(spec.model) +
                               " is not supported; gpt2, llama, bert and t5 are");
  }
  Vocabulary v;
  v.kind_ = *kind;
  v.pre_ = spec.pre;
  RETURN_IF_ERROR(v.TakeTokens(spec));
  RETURN_IF_ERROR(v.IndexTexts());
  RETURN_IF_ERROR(v.TakeSpecialIds(spec));
  v.TakeInfillTokens();
  v.FindEndOfGeneration(spec, behind_answer);
  v.FillPieces(spec);
  return v;
}

Status Vocabulary::TakeTokens(TokenizerSpec& spec) {
  const size_t count = spec.tokens.size();
  if (count == 0) return Invalid("the vocabulary is empty");
  if (count > kMaxTokens) {
    return TooLarge("vocabulary of " + std::to_string(count) + " tokens; the limit is " +
                    std::to_string(kMaxTokens));
  }
  if (!spec.scores.empty() && spec.scores.size() != count) {
    return Invalid(std::to_string(spec.scores.size()) + " scores for " + std::to_string(count) +
                   " tokens");
  }
  if (!spec.token_types.empty() && spec.token_types.size() != count) {
    return Invalid(std::to_string(spec.token_types.size()) + " token types for " +
                   std::to_string(count) + " tokens");
  }
  if (kind_ == ModelKind::kSentencePiece && spec.scores.empty()) {
    return Invalid("a tokenizer of model llama needs scores");
  }
  size_t bytes = 0;
  for (size_t id = 0; id < count; ++id) {
    const std::string& text = spec.tokens[id];
    bytes += text.size();
    if (text.size() > kMaxTokenBytes || bytes > kMaxVocabularyBytes) {
      return TooLarge("token " + std::to_string(id) + " of " + std::to_string(text.size()) +
                      " bytes; the limits are " + std::to_string(kMaxTokenBytes) + " for one and " +
                      std::to_string(kMaxVocabularyBytes) + " for all");
    }
    if (!spec.scores.empty() && std::isnan(spec.scores[id])) {
      return Invalid("the score of token " + std::to_string(id) + " is not a number");
    }
  }
  types_.assign(count, TokenType::kNormal);
  for (size_t id = 0; id < spec.token_types.size(); ++id) {
    const int32_t type = spec.token_types[id];
    if (type < 0 || type > static_cast<int32_t>(TokenType::kByte)) {
      return Invalid("token " + std::to_string(id) + " has type " + std::to_string(type) +
                     "; types are 0 to 6");
    }
    types_[id] = type == 0 ? TokenType::kNormal : static_cast<TokenType>(type);
    if (types_[id] == TokenType::kByte &&
        (kind_ == ModelKind::kSentencePiece || kind_ == ModelKind::kUnigram ||
         kind_ == ModelKind::kCharacterBpe) &&
        !ByteOfSpelling(spec.tokens[id])) {
      return Invalid("byte token " + std::to_string(id) + " is spelled " + Quoted(spec.tokens[id]) +
                     " and not <0xNN>");
    }
  }
  texts_ = std::move(spec.tokens);
  scores_ = std::move(spec.scores);
  return OkStatus();
}

Status Vocabulary::IndexTexts() {
  by_text_.Reserve(texts_.size());
  const auto text_of = [this](TokenId id) { return Text(id); };
  TokenId first_repeat = kNoToken;
  size_t repeats = 0;
  for (TokenId id = 0; id < size(); ++id) {
    switch (by_text_.Insert(Text(id), id, text_of)) {
      case Inserted::kNew:
        break;
      case Inserted::kDuplicate:  // the table keeps the first
        if (repeats++ == 0) first_repeat = id;
        break;
      case Inserted::kTooManyProbes:
        return TooLarge("token texts collide in the hash table");
    }
  }
  if (repeats > 0) {
    remarks_.push_back("tokens " + std::to_string(Find(Text(first_repeat))) + " and " +
                       std::to_string(first_repeat) + " have the same text " +
                       Quoted(Text(first_repeat)) + "; text becomes the lower one" +
                       (repeats > 1 ? " (so for " + std::to_string(repeats) + " tokens)" : ""));
  }
  return OkStatus();
}

Status Vocabulary::TakeSpecialIds(const TokenizerSpec& spec) {
  struct Field {
    const char* name;
    const std::optional<int64_t>& given;
    TokenId* id;
    int llama_default;
    int bert_default;
  };
  SpecialIds& s = special_;
  const Field fields[] = {
      {"bos_token_id", spec.bos, &s.bos, 1, -1},
      {"eos_token_id", spec.eos, &s.eos, 2, -1},
      {"eot_token_id", spec.eot, &s.eot, -1, -1},
      {"eom_token_id", spec.eom, &s.eom, -1, -1},
      {"unknown_token_id", spec.unk, &s.unk, 0, 100},
      {"seperator_token_id", spec.sep, &s.sep, -1, 102},
      {"padding_token_id", spec.pad, &s.pad, -1, 0},
      {"cls_token_id", spec.cls, &s.cls, -1, 101},
      {"mask_token_id", spec.mask, &s.mask, -1, 103},
      {"fim_pre_token_id", spec.fim_pre, &s.fim_pre, -1, -1},
      {"fim_suf_token_id", spec.fim_suf, &s.fim_suf, -1, -1},
      {"fim_mid_token_id", spec.fim_mid, &s.fim_mid, -1, -1},
      {"fim_pad_token_id", spec.fim_pad, &s.fim_pad, -1, -1},
      {"fim_rep_token_id", spec.fim_rep, &s.fim_rep, -1, -1},
      {"fim_sep_token_id", spec.fim_sep, &s.fim_sep, -1, -1},
  };
  for (const Field& field : fields) {
    if (field.given) {
      if (Contains(*field.given)) {
        *field.id = static_cast<TokenId>(*field.given);
        continue;
      }
      if (*field.given < 0) continue;  // -1 in a file means that the token does not exist
      remarks_.push_back(std::string(field.name) + " is " + std::to_string(*field.given) +
                         ", outside the vocabulary of " + std::to_string(size()) + ": not used");
    }
    int fallback = -1;
    if (kind_ == ModelKind::kSentencePiece) fallback = field.llama_default;
    // The ids of the first vocabularies; one spelled as in vocab.txt came with its names.
    if (kind_ == ModelKind::kWordPiece && !spec.wordpiece_plain_vocabulary)
      fallback = field.bert_default;
    if (Contains(fallback)) *field.id = fallback;
  }
  if (kind_ == ModelKind::kWordPiece) {
    if (s.cls == kNoToken) s.cls = s.bos;
    const bool framed = spec.single.empty();
    if (s.unk == kNoToken || (framed && (s.cls == kNoToken || s.sep == kNoToken))) {
      return Invalid("a tokenizer of model bert needs the tokens [UNK], [CLS] and [SEP]");
    }
  }
  // A file without types, and WordPiece files in general, name their structure only by id.
  if (spec.token_types.empty() || kind_ == ModelKind::kWordPiece) {
    for (const TokenId id : {s.bos, s.eos, s.eot, s.eom, s.sep, s.pad, s.cls, s.mask}) {
      if (id != kNoToken) types_[static_cast<size_t>(id)] = TokenType::kControl;
    }
    if (s.unk != kNoToken) types_[static_cast<size_t>(s.unk)] = TokenType::kUnknown;
  }
  const auto named = kind_ == ModelKind::kByteBpe ? FindPreTokenizer(pre_) : std::nullopt;
  const bool bos_by_default =
      kind_ == ModelKind::kSentencePiece || (named && named->add_bos && !spec.has_steps);
  add_bos_ = spec.add_bos.value_or(bos_by_default) && s.bos != kNoToken;
  add_eos_ = spec.add_eos.value_or(false) && s.eos != kNoToken;
  add_space_prefix_ = spec.add_space_prefix.value_or(kind_ == ModelKind::kSentencePiece);
  decode_strips_space_ = spec.decode_strips_space.value_or(add_space_prefix_);
  continuing_prefix_ = spec.continuing_prefix.empty() ? "##" : spec.continuing_prefix;
  if (spec.model_unknown && Contains(*spec.model_unknown))
    unknown_ = static_cast<TokenId>(*spec.model_unknown);
  return OkStatus();
}

void Vocabulary::TakeInfillTokens() {
  infill_ = FindInfillTokens(*this);
  if (!infill_.has_value()) return;
  for (const TokenId id : infill_->All()) {
    TokenType& type = types_[static_cast<size_t>(id)];
    if (type == TokenType::kNormal) type = TokenType::kControl;
  }
}

void Vocabulary::FillPieces(const TokenizerSpec& spec) {
  piece_start_.reserve(texts_.size() + 1);
  piece_start_.push_back(0);
  for (TokenId id = 0; id < size(); ++id) {
    const std::string_view text = Text(id);
    const TokenType type = Type(id);
    const bool spelled_out = type == TokenType::kControl || type == TokenType::kUserDefined ||
                             type == TokenType::kUnknown;
    if (spelled_out) {
      pieces_.append(text);
    } else if (kind_ == ModelKind::kByteBpe) {
      // An added token may hold characters outside the alphabet; its spelling is then its text.
      const std::optional<std::string> bytes = BytesOfSpelling(text);
      pieces_.append(bytes ? std::string_view(*bytes) : text);
    } else if (kind_ == ModelKind::kSentencePiece || kind_ == ModelKind::kUnigram ||
               kind_ == ModelKind::kCharacterBpe) {
      const std::string_view suffix = spec.end_of_word_suffix;
      if (type == TokenType::kByte) {
        pieces_.push_back(static_cast<char>(*ByteOfSpelling(text)));
      } else if (!suffix.empty() && text.ends_with(suffix)) {
        pieces_.append(SpacesFromMarks(text.substr(0, text.size() - suffix.size())) + " ");
      } else {
        pieces_.append(SpacesFromMarks(text));
      }
    } else {
      pieces_.append(spec.wordpiece_plain_vocabulary ? std::string(text) : PlainWordPiece(text));
    }
    piece_start_.push_back(static_cast<uint32_t>(pieces_.size()));
  }
}

void Vocabulary::FindEndOfGeneration(const TokenizerSpec& spec, std::string_view behind_answer) {
  is_eog_.assign(texts_.size(), false);
  const auto mark = [this](TokenId id) {
    if (id != kNoToken) is_eog_[static_cast<size_t>(id)] = true;
  };
  mark(special_.eos);
  mark(special_.eot);
  mark(special_.eom);
  for (const int64_t id : spec.ends) {
    if (Contains(id)) mark(static_cast<TokenId>(id));
  }
  const auto end_turn = [&](TokenId id) {
    if (id == kNoToken) return;
    TokenType& type = types_[static_cast<size_t>(id)];
    if (type == TokenType::kNormal || type == TokenType::kUserDefined) type = TokenType::kControl;
    mark(id);
  };
  // In the harmony format <|end|> ends a message, and the answer continues with the next one.
  const bool harmony = Find("<|return|>") != kNoToken && Find("<|call|>") != kNoToken;
  for (const std::string_view spelling : kEndSpellings) {
    const TokenId id = Find(spelling);
    // A normal token so spelled is text that a model learnt: RoBERTa has "<|endoftext|>".
    if (id == kNoToken || Type(id) == TokenType::kNormal) continue;
    if (!(harmony && spelling == "<|end|>")) end_turn(id);
  }
  end_turn(MarkerAtBegin(behind_answer));
  for (TokenId id = 0; id < size(); ++id) {
    if (is_eog_[static_cast<size_t>(id)]) eog_tokens_.push_back(id);
  }
}

// The longest token that `text` begins with, if it is a control token or spelled like a marker.
TokenId Vocabulary::MarkerAtBegin(std::string_view text) const {
  for (size_t length = std::min(text.size(), kMaxSpecialBytes); length > 2; --length) {
    const TokenId id = Find(text.substr(0, length));
    if (id != kNoToken && (IsSpecial(id) || IsMarker(Text(id)))) return id;
  }
  return kNoToken;
}

std::string_view Vocabulary::Piece(TokenId id) const {
  const auto i = static_cast<size_t>(id);
  return std::string_view(pieces_).substr(piece_start_[i], piece_start_[i + 1] - piece_start_[i]);
}

TokenId Vocabulary::Find(std::string_view text) const {
  return by_text_.Find(text, [this](TokenId id) { return Text(id); });
}

}  // namespace tutti::tokenizer
