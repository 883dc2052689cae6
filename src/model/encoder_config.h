// EncoderConfig: the configuration of a BERT-family encoder, read from its checkpoint's JSON files
// and validated.
//
// Plain value, immutable once read; any thread. Every field is within the ranges of config.h, so no
// later code needs to check a product of two of them for overflow. Formats: config.json of Hugging
// Face transformers; modules.json, the pooling folder's config.json, sentence_bert_config.json and
// config_sentence_transformers.json of sentence-transformers. An unsupported setting that would
// change a vector is refused by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::model {

// How the rows of one text become its vector. Special tokens count as others do.
enum class Pooling : uint8_t {
  kMean,
  kCls,   // the first token's row
  kLast,  // the last token's row
  kMax,   // the greatest of each component
};
const char* PoolingName(Pooling pooling);  // "mean", "cls", "last", "max"

// Activation through which a model's scores are published. The forward pass leaves it out, because
// raw scores may be requested.
enum class ScoreActivation : uint8_t {
  kNone,
  kSigmoid,  // each score by itself
  kSoftmax,  // over the labels
};
const char* ScoreActivationName(ScoreActivation activation);  // "none", "sigmoid", "softmax"

inline constexpr size_t kMaxLabels = 4096;
inline constexpr std::string_view kNomicBert = "nomic-bert";  // as its GGUF files are called
// A table of angles has a row for each position.
inline constexpr int kMaxRotatedPositions = 1 << 17;

struct EncoderConfig {
  std::string architecture;  // "bert", "roberta", "xlm-roberta", "nomic-bert"
  int layers = 0;
  int width = 0;
  int feed_forward = 0;
  int heads = 0;
  int vocab_size = 0;
  int positions = 0;       // rows of the position table, or what rotation was made for
  int first_position = 0;  // row of the first token: 0, or behind the padding token's (RoBERTa)
  int token_types = 0;     // rows of the token type table; 0 = no such table
  float norm_eps = 0;
  // The differences of nomic-bert: queries and keys are rotated by their position (halves of a
  // head) in place of a position table, two matrices feed the feed-forward block (SwiGLU), and no
  // matrix has a bias.
  double rope_base = 0;  // of the angles; 0: a position table
  bool gated = false;

  Pooling pooling = Pooling::kMean;
  bool normalize = false;                      // vectors have length 1
  int max_tokens = 0;                          // of one text, special tokens included
  bool lowercase = false;                      // before tokenising (sentence_bert_config.json)
  std::map<std::string, std::string> prompts;  // put before a text, by name
  std::optional<std::string> default_prompt;   // name of the one used when none is asked for

  // Names of the scores of a cross-encoder or classifier, which gives no embeddings; empty for
  // encoders of embeddings.
  std::vector<std::string> labels;
  ScoreActivation activation = ScoreActivation::kNone;  // of the scores, unless raw ones are wanted

  int head_dim() const { return width / heads; }
};

// The texts of the files, as read; empty where a file is not there. Only config.json is required.
struct EncoderFiles {
  std::string config;                 // config.json
  std::string modules;                // modules.json
  std::string pooling;                // config.json of the module that pools
  std::string sentence_bert;          // sentence_bert_config.json
  std::string sentence_transformers;  // config_sentence_transformers.json
  std::string tokenizer;    // tokenizer_config.json: the longest text, if no other file has it
  bool classifies = false;  // the weights have a head that scores
};

// Settings of a model's vectors in sentence-transformers' files, for an encoder or a decoder.
struct VectorModules {
  bool stated = false;  // there is a module that pools
  Pooling pooling = Pooling::kCls;
  bool normalize = false;
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt;
};
// Reads all of `files` but `config`. `width`: of the model's rows. Errors: model_hparam, also for
// an unsupported module.
Result<VectorModules> ReadVectorModules(const EncoderFiles& files, int width);

// The folder that holds the pooling module's config.json, relative to the checkpoint's
// ("1_Pooling"), or nothing if `modules` names none. Never leaves the checkpoint's folder. Errors:
// model_hparam.
Result<std::optional<std::string>> PoolingFolder(const std::string& modules);

// model_hparam where the kernels cannot run a model of this width, feed_forward and heads.
Status CheckEncoderShape(const EncoderConfig& config);

// Errors: model_hparam, naming file, key and value.
Result<EncoderConfig> ReadEncoderConfig(const EncoderFiles& files);

}  // namespace tutti::model
