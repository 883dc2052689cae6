// TokenizerSpec: a model file's description of its tokenizer, as plain data.
//
// Filled by the reader of the file (GGUF metadata, tokenizer.json) and consumed by
// Tokenizer::Create(), which validates it; nothing here is trusted. Field names follow the GGUF
// keys in the trailing comments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tokenizer {

// U+2581, which stands for a space in pieces of SentencePiece vocabularies.
inline constexpr std::string_view kWordMark = "\xE2\x96\x81";

// Numeric values are those of tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // structure: never produced from text that is not trusted
  kUserDefined = 4,  // cut out of the text before pre-tokenising
  kUnused = 5,
  kByte = 6,  // "<0x0A>": one raw byte (SentencePiece style)
};

// A place of the frame in which an encoder reads its texts: a special token, or a text.
struct FramePlace {
  static constexpr int64_t kFirstText = -1, kSecondText = -2;
  int64_t token = kFirstText;  // an id, or one of the two
  uint8_t type = 0;            // kind of the token, or of all of the text's
};
inline constexpr size_t kMaxFramePlaces = 16;

// One step of the normalizer, which rewrites a text before it is split. Steps run in order, each on
// the whole stretch between added tokens. Names and meaning are those of Hugging Face tokenizers.
struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStripAccents,  // drops combining marks
    kStripLeft,     // drops white space at the beginning
    kStripRight,    // drops white space at the end
    kReplaceText,   // `pattern` is the text itself
    kReplaceRegex,  // `pattern` is an expression (tokenizer/regex)
    kPrepend,       // puts `content` before a text that is not empty
    kNmt,           // control characters go, odd spaces become U+0020
    kCharsmap,      // `pattern` holds the bytes of SentencePiece's precompiled_charsmap
    kBertClean,     // BertNormalizer's clean_text
    kBertChinese,   // BertNormalizer's handle_chinese_chars
    kBertAccents,   // BertNormalizer's strip_accents
    kByteLevel,     // bytes become the characters of the byte alphabet
  };
  Kind kind = Kind::kNfc;
  std::string pattern{};
  std::string content{};
  bool operator==(const NormalizerStep&) const = default;
};

// One step of the pre-tokenizer, which cuts a text into words. Each step cuts the pieces that the
// one before it left.
struct SplitStep {
  enum class Kind : uint8_t {
    kByteLevel,    // GPT-2's expression if use_regex; later steps see the byte alphabet
    kRegex,        // matches of `pattern` (tokenizer/regex)
    kText,         // occurrences of `pattern`
    kMetaspace,    // spaces become `pattern`, one is put in front; splits before each if `split`
    kDigits,       // \p{N}, one by one if `individual`, else runs
    kPunctuation,  // ASCII and Unicode punctuation
    kWhitespace,   // keeps \w+ and [^\w\s]+
    kWhitespaceSplit,  // drops white space
    kUnicodeScripts,   // cuts where the script changes
    kFixedLength,      // pieces of `length` characters
  };
  enum class Behavior : uint8_t {
    kIsolated,
    kRemoved,
    kMergedWithPrevious,
    kMergedWithNext,
    kContiguous,
  };
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  Kind kind = Kind::kByteLevel;
  std::string pattern{};
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;                 // the text between the matches counts as the match
  bool add_prefix_space = false;       // kByteLevel: a space is put before a text without one
  bool use_regex = true;               // kByteLevel
  bool individual = false;             // kDigits
  Prepend prepend = Prepend::kAlways;  // kMetaspace
  bool split = true;                   // kMetaspace
  uint32_t length = 0;                 // kFixedLength, in characters; at least 1
  bool operator==(const SplitStep&) const = default;
};

// How an added token (a control or user-defined one) is found in a text.
struct AddedTokenRule {
  int32_t id = 0;
  bool single_word = false;  // not next to a word character
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;       // and on its right
  bool normalized = false;   // looked for in the normalized text, in its own normalized form
};

// A byte that no text of UTF-8 holds.
inline constexpr char kMergeBorder = '\xFF';
// Where the two pieces of a merge meet; npos: it is not two pieces.
inline size_t MergeBorder(std::string_view merge) {
  const size_t border = merge.find(kMergeBorder);
  return border != std::string_view::npos ? border : merge.find(' ', 1);
}

struct TokenizerSpec {
  // tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece's BPE by scores), "bert"
  // (WordPiece), "t5" (unigram); and "bpe", defined by this project: BPE by ranks over characters.
  std::string model;
  std::string pre;  // tokenizer.ggml.pre: names `split` and more for "gpt2" (pre_tokenizer_names.h)
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, index = id
  std::vector<float> scores;  // tokenizer.ggml.scores: empty, or one per token ("llama": required)
  std::vector<int32_t>
      token_types;  // tokenizer.ggml.token_type: empty (all normal), or one per token
  // tokenizer.ggml.merges, index = rank ("gpt2", "bpe"): "left right", or, where a piece holds a
  // space, the two with kMergeBorder between them.
  std::vector<std::string> merges;

  // tokenizer.ggml.*_token_id; absent means the default of the model kind.
  std::optional<int64_t> bos;      // bos_token_id
  std::optional<int64_t> eos;      // eos_token_id
  std::optional<int64_t> eot;      // eot_token_id
  std::optional<int64_t> eom;      // eom_token_id
  std::optional<int64_t> unk;      // unknown_token_id
  std::optional<int64_t> sep;      // seperator_token_id (spelled so in the format)
  std::optional<int64_t> pad;      // padding_token_id
  std::optional<int64_t> cls;      // cls_token_id
  std::optional<int64_t> mask;     // mask_token_id
  std::optional<int64_t> fim_pre;  // fim_pre_token_id
  std::optional<int64_t> fim_suf;  // fim_suf_token_id
  std::optional<int64_t> fim_mid;  // fim_mid_token_id
  std::optional<int64_t> fim_pad;  // fim_pad_token_id
  std::optional<int64_t> fim_rep;  // fim_rep_token_id
  std::optional<int64_t> fim_sep;  // fim_sep_token_id

  std::optional<bool> add_bos;           // add_bos_token
  std::optional<bool> add_eos;           // add_eos_token
  std::optional<bool> add_space_prefix;  // add_space_prefix
  std::optional<bool> lowercase;         // normalizer.lowercase ("bert"; absent = true)
  std::optional<bool> strip_accents;     // normalizer.strip_accents ("bert"; absent = as lowercase)
  // BPE: a word that is a token is not merged; absent: the default of `pre`.
  std::optional<bool> ignore_merges;

  // The steps before the model. For "llama" they are not used: its encoder marks spaces itself. For
  // "bert" without any, BERT's own. For "gpt2" without any, those that `pre` names.
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> split;
  bool has_steps = false;  // the two above are the file's, also where they are empty

  std::vector<AddedTokenRule> added;  // rules of added tokens; the others have the defaults

  // BPE: the token for text that no token spells. Absent: such text is dropped.
  std::optional<int64_t> model_unknown;

  // "bpe": the replacement of a character that is no token, and the spelling of tokens inside a
  // word.
  bool byte_fallback = false;      // its bytes, "<0x0A>"; also "t5"
  bool fuse_unknown = false;       // adjacent unknown symbols become one unknown token
  std::string continuing_prefix;   // before pieces that do not begin a word; "bert": "##" if empty
  std::string end_of_word_suffix;  // behind pieces that end a word
  uint32_t max_word_characters = 0;  // "bert": longer words are unknown; 0: 100

  // "bert": tokens are spelled as in vocab.txt ("##ing") and not in GGUF's rewriting (U+2581 before
  // words).
  bool wordpiece_plain_vocabulary = false;

  std::vector<double> unigram_scores;  // "t5": of the tokens from 0 on; later ones are not pieces

  // Decoding drops the one space at the beginning that encoding put there. Absent: as
  // add_space_prefix.
  std::optional<bool> decode_strips_space;

  // Further tokens that end a generation, in addition to eos, eot and eom. Ids outside the
  // vocabulary are ignored.
  std::vector<int64_t> ends;

  // How one text and a pair are framed: each text once, ids within the vocabulary. Empty: as the
  // model kind has it ("bert": [CLS] A [SEP] B [SEP]), or by add_bos and add_eos, or not at all.
  std::vector<FramePlace> single;
  std::vector<FramePlace> pair;

  // The blocks of tokenizer.json that are not lists of tokens or merges, as JSON, because a GGUF
  // has no other place for them (huggingface.h). Empty if the file had none.
  std::string pipeline;

  std::string chat_template;  // tokenizer.chat_template: carried, not interpreted here
};

}  // namespace tutti::tokenizer
