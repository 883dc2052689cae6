// VectorModules: how rows of a model become vectors or scores of texts, as the files of
// sentence-transformers state it, for an encoder or a decoder.
//
// Plain values, immutable once read; any thread. Formats: modules.json, config.json in the folders
// of its modules, sentence_bert_config.json and config_sentence_transformers.json. An unsupported
// setting that would change a vector is refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "files/source.h"

namespace tutti::model {

class JsonFile;

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

// A function of one value between two matrices.
enum class Activation : uint8_t {
  kGelu,  // the exact (erf) form
  kSilu,
  kRelu,
  kTanh,
};

// A Dense module of sentence-transformers: y = activation(x * weight + bias), in float32.
struct DenseModule {
  std::string folder;  // below the checkpoint's: "2_Dense"
  int in = 0, out = 0;
  bool bias = true;
  std::optional<Activation> activation;  // none: the identity
};

// The vector of a text over the vocabulary (SPLADE): the logits of a masked-language head of each
// row, ReLU, log(1 + x), then the greatest or the sum over the rows. Sources: Formal et al. 2021,
// "SPLADE v2"; the module SpladePooling of sentence-transformers.
struct LexicalPooling {
  bool sum = false;        // else the greatest
  bool log_twice = false;  // log(1 + log(1 + x))
};

// The score of a pair by a decoder: the logit of a token behind the text, less that of another
// token if there is one. Source: the module LogitScore of sentence-transformers.
struct LogitScore {
  TokenId yes = 0;
  std::optional<TokenId> no;
  ScoreActivation activation = ScoreActivation::kSigmoid;
};

// The texts of the files, as read; empty where a file is not there. Only config.json is required.
struct ModuleFiles {
  std::string config;                                    // config.json
  std::string modules;                                   // modules.json
  std::string pooling;                                   // config.json of the module that pools
  std::map<std::string, std::string> modules_by_folder;  // config.json of the modules after it
  std::string sentence_bert;                             // sentence_bert_config.json
  std::string sentence_transformers;                     // config_sentence_transformers.json
  std::string tokenizer;    // tokenizer_config.json: the longest text, if no other file has it
  bool classifies = false;  // an encoder's weights have a head that scores
};

inline constexpr size_t kMaxPrompts = 256;
inline constexpr size_t kMaxPromptBytes = 4096;

struct VectorModules {
  bool stated = false;  // there is a module that pools
  Pooling pooling = Pooling::kCls;
  std::optional<LexicalPooling> lexical;
  std::vector<DenseModule> dense;
  bool per_token = false;
  std::optional<LogitScore> scores;  // instead of vectors
  bool normalize = false;
  int max_tokens = 0;      // longest text; 0: not stated
  bool lowercase = false;  // an encoder's texts, before tokenising
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt;
};
// "1024 floats by last pooling", "a score of pairs": for people.
std::string VectorText(const VectorModules& modules, int width);
// Reads all of `files` but `config`. `width`: of the model's rows. Errors: model_hparam, also for
// an unsupported module.
Result<VectorModules> ReadVectorModules(const ModuleFiles& files, int width);

// A module of modules.json: its class ("Pooling"), and the folder that holds its config.json,
// relative to the checkpoint's ("1_Pooling"); "" for classes without settings that are read. Never
// leaves the checkpoint's folder.
struct ModuleEntry {
  std::string kind, folder;
};
// The modules that `modules`, the text of modules.json, names, in order; none if it is empty.
// Errors: model_hparam.
Result<std::vector<ModuleEntry>> ListModules(const std::string& modules);
// The activation of `labels` scores that sentence-transformers recorded, in the place that its
// version uses; else the default of the problem type. `config`: config.json.
Result<ScoreActivation> ReadScoreActivation(const JsonFile& config,
                                            const std::string& sentence_transformers,
                                            size_t labels);

// All files of a folder but tokenizer_config.json. Errors: model_hparam, model_not_found,
// model_path.
Result<ModuleFiles> ReadModuleFiles(const files::Folder& folder);

}  // namespace tutti::model
