// TokenizerSpec: what a model file says about its tokenizer, as plain data.
//
// Filled by whoever reads the file (GGUF metadata, tokenizer.json) and consumed by
// Tokenizer::Create(), which validates it; nothing here is trusted. Field names follow the GGUF
// keys in the trailing comments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tokenizer {

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

// What a unigram model ("t5") has beside its tokens. Defaults are those of a plain Metaspace.
struct UnigramSpec {
  enum class StepKind : uint8_t {
    kCharsmap,    // the map below
    kStripLeft,   // white space at the beginning goes
    kStripRight,  // white space at the end goes
    kSqueeze,     // two and more spaces in a row become `content`
  };
  struct Step {
    StepKind kind = StepKind::kCharsmap;
    std::string content;
  };
  std::vector<double> scores;    // of the tokens from 0 on; those behind are none of the model's
  std::vector<Step> normalizer;  // one after the other, on each stretch between special tokens
  std::string charsmap;          // precompiled_charsmap, its bytes
  bool split_space = false;      // white space divides the text and goes
  bool mark_first = true;        // U+2581 before what does not begin with it
  bool split_words = true;       // pieces do not reach across a U+2581
  bool byte_fallback = false;    // unknown characters become tokens of their bytes
};

struct TokenizerSpec {
  std::string model;                // tokenizer.ggml.model: "gpt2", "llama", "bert" or "t5"
  std::string pre;                  // tokenizer.ggml.pre: decides for "gpt2", ignored otherwise
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, index = id
  std::vector<float> scores;  // tokenizer.ggml.scores: empty, or one per token ("llama": required)
  std::vector<int32_t>
      token_types;  // tokenizer.ggml.token_type: empty (all normal), or one per token
  std::vector<std::string>
      merges;  // tokenizer.ggml.merges: "left right", index = rank ("gpt2" only)

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
  std::optional<bool>
      ignore_merges;  // "gpt2": a word that is a token is not merged; absent: as `pre` says
  // "bert": tokens are spelled as in vocab.txt ("##ing") and not in GGUF's rewriting (U+2581 before
  // words).
  bool wordpiece_plain_vocabulary = false;

  // How a pair of texts is framed: each text once, ids within the vocabulary. Empty: as the model
  // kind has it ("bert": [CLS] A [SEP] B [SEP]), or not at all.
  std::vector<FramePlace> pair;

  UnigramSpec unigram;  // "t5"

  std::string chat_template;  // tokenizer.chat_template: carried, not interpreted here
};

}  // namespace tutti::tokenizer
