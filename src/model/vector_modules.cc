#include "model/vector_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/quote.h"
#include "model/config.h"
#include "model/json_file.h"

namespace tutti::model {
namespace {

namespace json = boost::json;

constexpr size_t kMaxModules = 16;

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

// "sentence_transformers.models.Pooling" -> "Pooling"
std::string_view KindOf(const json::object& module) {
  const json::value* type = module.if_contains("type");
  const json::string* name = type == nullptr ? nullptr : type->if_string();
  if (name == nullptr) return {};
  const std::string_view text = View(*name);
  return text.substr(text.rfind('.') + 1);
}

// The published name of an activation: of a class, with the modules it lies in.
Result<ScoreActivation> ActivationOf(const JsonFile& file, std::string_view key,
                                     std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  if (name == "Sigmoid") return ScoreActivation::kSigmoid;
  if (name == "Identity") return ScoreActivation::kNone;
  if (name == "Softmax") return ScoreActivation::kSoftmax;
  return file.Refuse(key, "{} is not supported (Sigmoid, Identity, Softmax)", Quote(path));
}

// The ways to pool, as flags name them and, from 5.4 on, as one word does.
struct PoolingMode {
  const char* key;
  const char* word;
  std::optional<Pooling> pooling;  // nothing: known and not supported
};
constexpr std::array<PoolingMode, 6> kPoolingModes = {
    {{"pooling_mode_cls_token", "cls", Pooling::kCls},
     {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
     {"pooling_mode_max_tokens", "max", Pooling::kMax},
     {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
     {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
     {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt}}};

// One word, or a list of exactly one word.
Result<Pooling> PoolingOfWord(const JsonFile& file) {
  constexpr std::string_view kKey = "pooling_mode";
  const json::value* word = file.Find(kKey);
  if (const json::array* list = word->if_array()) {
    if (list->size() != 1) return file.Refuse(kKey, "names {} ways, not one", list->size());
    word = &list->front();
  }
  for (const PoolingMode& mode : kPoolingModes)
    if (mode.pooling && *word == mode.word) return *mode.pooling;
  return file.Refuse(kKey, "is {}, which is not supported (cls, mean, max, lasttoken)",
                     Excerpt(*word));
}

Result<Pooling> PoolingOfFlags(const JsonFile& file) {
  std::optional<Pooling> chosen;
  int count = 0;
  for (const PoolingMode& mode : kPoolingModes) {
    ASSIGN_OR_RETURN(const bool on, file.BoolOr(mode.key, false));
    if (!on) continue;
    if (!mode.pooling) return file.Refuse(mode.key, "is not supported");
    chosen = mode.pooling;
    ++count;
  }
  if (count != 1) return file.Refuse("pooling_mode_*", "is set {} times, not once", count);
  return *chosen;
}

Result<Pooling> ReadPooling(const std::string& text, int width) {
  // A BERT without a pooling module is published for the first token's row.
  if (text.empty()) return Pooling::kCls;
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "the pooling module's config.json"));
  ASSIGN_OR_RETURN(const Pooling pooling,
                   file.Has("pooling_mode") ? PoolingOfWord(file) : PoolingOfFlags(file));
  ASSIGN_OR_RETURN(const bool with_prompt, file.BoolOr("include_prompt", true));
  if (!with_prompt) return file.Refuse("include_prompt", "false is not supported");
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"}) {
    ASSIGN_OR_RETURN(const int said, file.IntOr(key, width, 1, kMaxWidth));
    if (said != width) return file.Refuse(key, "is {}, the model's width {}", said, width);
  }
  return pooling;
}

// The folder of a module: one below the checkpoint's, as every published model has it.
Result<std::string> FolderOf(const JsonFile& file, const json::object& module) {
  const json::value* path = module.if_contains("path");
  const json::string* name = path == nullptr ? nullptr : path->if_string();
  if (name == nullptr || name->empty() || name->size() > 255 || *name == "." || *name == ".." ||
      View(*name).find_first_of(std::string_view("/\\\0", 3)) != std::string_view::npos) {
    return file.Refuse("path", "of the module {} must name a folder next to it",
                       Quote(KindOf(module)));
  }
  return std::string(View(*name));
}

// The modules in their order; the folder of those whose config.json is read.
Result<std::vector<ModuleEntry>> EntriesOf(const JsonFile& file) {
  if (file.items().size() > kMaxModules)
    return file.Refuse("the list", "has {} modules", file.items().size());
  constexpr std::string_view kConfigured[] = {"Pooling", "SpladePooling", "LogitScore", "Dense",
                                              "MultiVectorMask"};
  std::vector<ModuleEntry> entries;
  for (const json::value& item : file.items()) {
    ModuleEntry& entry = entries.emplace_back();
    if (!item.is_object()) continue;  // of no kind, which ReadModules() refuses
    entry.kind = KindOf(item.get_object());
    if (std::ranges::find(kConfigured, entry.kind) == std::end(kConfigured)) continue;
    ASSIGN_OR_RETURN(entry.folder, FolderOf(file, item.get_object()));
  }
  return entries;
}

Result<DenseModule> ReadDense(const ModuleFiles& files, const std::string& folder) {
  DenseModule dense;
  dense.folder = folder;
  const auto found = files.modules_by_folder.find(folder);
  const std::string name = folder + "/config.json";
  if (found == files.modules_by_folder.end() || found->second.empty())
    return InvalidArgument("model_hparam", "the module has no " + name);
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(found->second, name));
  ASSIGN_OR_RETURN(dense.in, file.Int("in_features", 1, kMaxWidth));
  ASSIGN_OR_RETURN(dense.out, file.Int("out_features", 1, kMaxWidth));
  if (dense.in % 32 != 0)
    return file.Refuse("in_features", "is {}, not a multiple of 32 as the kernels need", dense.in);
  ASSIGN_OR_RETURN(dense.bias, file.BoolOr("bias", true));
  ASSIGN_OR_RETURN(const bool residual, file.BoolOr("use_residual", false));
  if (residual) return file.Refuse("use_residual", "true is not supported");
  ASSIGN_OR_RETURN(const std::string path, file.StringOr("activation_function", "torch.nn.Tanh"));
  const std::string kind = path.substr(path.rfind('.') + 1);
  if (kind == "Tanh") dense.activation = Activation::kTanh;
  if (kind == "GELU") dense.activation = Activation::kGelu;
  if (kind == "ReLU") dense.activation = Activation::kRelu;
  if (kind == "SiLU") dense.activation = Activation::kSilu;
  if (!dense.activation && kind != "Identity")
    return file.Refuse("activation_function",
                       "{} is not supported (Identity, Tanh, GELU, ReLU, SiLU)", Quote(path));
  return dense;
}

Result<LexicalPooling> ReadLexical(const ModuleFiles& files, const std::string& folder) {
  LexicalPooling lexical;
  const auto found = files.modules_by_folder.find(folder);
  if (found == files.modules_by_folder.end() || found->second.empty()) return lexical;
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(found->second, folder + "/config.json"));
  ASSIGN_OR_RETURN(const std::string strategy, file.StringOr("pooling_strategy", "max"));
  lexical.sum = strategy == "sum";
  if (strategy != "sum" && strategy != "max")
    return file.Refuse("pooling_strategy", "{} is not supported (max, sum)", Quote(strategy));
  ASSIGN_OR_RETURN(const std::string activation, file.StringOr("activation_function", "relu"));
  lexical.log_twice = activation == "log1p_relu";
  if (activation != "log1p_relu" && activation != "relu")
    return file.Refuse("activation_function", "{} is not supported (relu, log1p_relu)",
                       Quote(activation));
  return lexical;
}

// Scores are sentence-transformers' default for one label: through a sigmoid.
Result<LogitScore> ReadLogitScore(const ModuleFiles& files, const std::string& folder) {
  const auto found = files.modules_by_folder.find(folder);
  const std::string name = folder + "/config.json";
  if (found == files.modules_by_folder.end() || found->second.empty())
    return InvalidArgument("model_hparam", "the module has no " + name);
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(found->second, name));
  LogitScore scores;
  ASSIGN_OR_RETURN(scores.yes, file.Int("true_token_id", 0, kMaxVocabulary - 1));
  if (file.Has("false_token_id")) {
    ASSIGN_OR_RETURN(scores.no, file.Int("false_token_id", 0, kMaxVocabulary - 1));
  }
  ASSIGN_OR_RETURN(const std::string input, file.StringOr("module_input_name", "causal_logits"));
  if (input != "causal_logits")
    return file.Refuse("module_input_name", "{} is not supported (causal_logits)", Quote(input));
  ASSIGN_OR_RETURN(const JsonFile config, JsonFile::Parse(files.config, "config.json"));
  ASSIGN_OR_RETURN(scores.activation, ReadScoreActivation(config, files.sentence_transformers, 1));
  return scores;
}

// Which tokens of a text count for multi-vector ranking: all of them, or refused.
Status CheckMultiVectorMask(const ModuleFiles& files, const std::string& folder) {
  const auto found = files.modules_by_folder.find(folder);
  if (found == files.modules_by_folder.end() || found->second.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(found->second, folder + "/config.json"));
  const json::value* words = file.Find("skiplist_words");
  if (words != nullptr && !words->is_null() && !(words->is_array() && words->get_array().empty()))
    return file.Refuse("skiplist_words", "is not empty, which is not supported");
  const json::value* kept = file.Find("keep_only_token_ids");
  if (kept != nullptr && !kept->is_null())
    return file.Refuse("keep_only_token_ids", "is not null, which is not supported");
  return OkStatus();
}

// Modules after the transformer, in the order in which they run: one that pools, then Dense, then
// Normalize. Without one that pools, Dense applies to each token.
Status ReadModules(const ModuleFiles& files, int width, VectorModules& modules) {
  if (files.modules.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(files.modules, "modules.json", true));
  ASSIGN_OR_RETURN(const std::vector<ModuleEntry> entries, EntriesOf(file));
  for (const auto& [kind, folder] : entries) {
    const bool pools = kind == "Pooling" || kind == "SpladePooling" || kind == "LogitScore";
    if (pools && (modules.stated || modules.lexical || modules.scores || !modules.dense.empty() ||
                  modules.normalize))
      return file.Refuse("type", "{} must come first, and once, after the transformer",
                         Quote(kind));
    if (modules.scores)
      return file.Refuse("type", "{} after LogitScore is not supported", Quote(kind));
    if (kind == "Normalize") {
      modules.normalize = true;
    } else if (kind == "Pooling") {
      modules.stated = true;
    } else if (kind == "SpladePooling") {
      ASSIGN_OR_RETURN(modules.lexical, ReadLexical(files, folder));
    } else if (kind == "LogitScore") {
      ASSIGN_OR_RETURN(modules.scores, ReadLogitScore(files, folder));
    } else if (kind == "Dense") {
      if (modules.lexical || modules.normalize)
        return file.Refuse("type", "Dense after SpladePooling or Normalize is not supported");
      ASSIGN_OR_RETURN(DenseModule dense, ReadDense(files, folder));
      const int before = modules.dense.empty() ? width : modules.dense.back().out;
      if (dense.in != before)
        return file.Refuse("type", "Dense in {} reads {} values, it gets {}", folder, dense.in,
                           before);
      modules.dense.push_back(std::move(dense));
    } else if (kind == "MultiVectorMask") {
      RETURN_IF_ERROR(CheckMultiVectorMask(files, folder));
    } else if (kind != "Transformer" && kind != "MLMTransformer") {
      return file.Refuse(
          "type",
          "{} is not supported (Transformer, MLMTransformer, Pooling, SpladePooling, "
          "LogitScore, Dense, MultiVectorMask and Normalize are)",
          Quote(kind));
    }
  }
  modules.per_token = !modules.stated && !modules.dense.empty();
  return OkStatus();
}

// model_max_length of tokenizer_config.json; no value if it is absent or a huge number, which
// stands for "any".
Result<std::optional<int>> TokenizerLength(const std::string& text) {
  if (text.empty()) return std::optional<int>();
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "tokenizer_config.json"));
  const json::value* said = file.Find("model_max_length");
  boost::system::error_code error;
  const double length = said != nullptr && said->is_number() ? said->to_number<double>(error) : 0;
  if (error || !(length >= 3 && length <= kMaxContext)) return std::optional<int>();
  return std::optional<int>(static_cast<int>(length));
}

Status ReadPrompts(const std::string& text, VectorModules& config) {
  if (text.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "config_sentence_transformers.json"));
  const json::value* prompts = file.Find("prompts");
  if (prompts != nullptr) {
    if (!prompts->is_object() || prompts->get_object().size() > kMaxPrompts) {
      return file.Refuse("prompts", "must be an object of at most {} texts", kMaxPrompts);
    }
    for (const auto& [name, prompt] : prompts->get_object()) {
      if (!prompt.is_string() || prompt.get_string().size() > kMaxPromptBytes) {
        return file.Refuse("prompts", "must hold texts of at most {} bytes", kMaxPromptBytes);
      }
      config.prompts.emplace(std::string(name.data(), name.size()), View(prompt.get_string()));
    }
  }
  // PyLate's names of them.
  for (const char* name : {"query", "document"}) {
    ASSIGN_OR_RETURN(const std::string prefix, file.StringOr(name + std::string("_prefix"), ""));
    if (prefix.size() > kMaxPromptBytes)
      return file.Refuse(name + std::string("_prefix"), "is longer than {} bytes", kMaxPromptBytes);
    if (!prefix.empty()) config.prompts.emplace(name, prefix);
  }
  ASSIGN_OR_RETURN(const std::string chosen, file.StringOr("default_prompt_name", ""));
  if (chosen.empty()) return OkStatus();
  if (config.prompts.count(chosen) == 0) {
    return file.Refuse("default_prompt_name", "is not among the prompts");
  }
  config.default_prompt = chosen;
  return OkStatus();
}

}  // namespace

const char* PoolingName(Pooling pooling) {
  constexpr const char* kNames[] = {"mean", "cls", "last", "max"};
  return kNames[static_cast<size_t>(pooling)];
}

const char* ScoreActivationName(ScoreActivation activation) {
  constexpr const char* kNames[] = {"none", "sigmoid", "softmax"};
  return kNames[static_cast<size_t>(activation)];
}

Result<ScoreActivation> ReadScoreActivation(const JsonFile& file,
                                            const std::string& sentence_transformers,
                                            size_t labels) {
  ASSIGN_OR_RETURN(const std::string problem, file.StringOr("problem_type", ""));
  constexpr std::string_view kOldKey = "sbert_ce_default_activation_function";
  constexpr std::string_view kKey = "activation_fn";
  ASSIGN_OR_RETURN(std::string path, file.StringOr(kOldKey, ""));
  std::string_view key = kOldKey;
  const json::value* nested = file.Find("sentence_transformers");
  if (nested != nullptr && nested->is_object()) {
    const json::value* named = nested->get_object().if_contains(kKey);
    if (named != nullptr && named->is_string()) {
      path = View(named->get_string());
      key = kKey;
    }
  }
  if (!path.empty()) return ActivationOf(file, key, path);
  if (!sentence_transformers.empty()) {
    ASSIGN_OR_RETURN(const JsonFile own,
                     JsonFile::Parse(sentence_transformers, "config_sentence_transformers.json"));
    ASSIGN_OR_RETURN(path, own.StringOr(kKey, ""));
    if (!path.empty()) return ActivationOf(own, kKey, path);
  }
  if (labels == 1 || problem == "multi_label_classification") return ScoreActivation::kSigmoid;
  return problem == "regression" ? ScoreActivation::kNone : ScoreActivation::kSoftmax;
}

Result<std::vector<ModuleEntry>> ListModules(const std::string& modules) {
  if (modules.empty()) return std::vector<ModuleEntry>();
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(modules, "modules.json", true));
  return EntriesOf(file);
}

std::string VectorText(const VectorModules& modules, int width) {
  if (modules.scores) return "a score of pairs";
  return fmt::format("{} floats by {} pooling",
                     modules.dense.empty() ? width : modules.dense.back().out,
                     PoolingName(modules.stated ? modules.pooling : Pooling::kLast));
}

Result<VectorModules> ReadVectorModules(const ModuleFiles& files, int width) {
  VectorModules modules;
  RETURN_IF_ERROR(ReadModules(files, width, modules));
  ASSIGN_OR_RETURN(modules.pooling, ReadPooling(files.pooling, width));
  RETURN_IF_ERROR(ReadPrompts(files.sentence_transformers, modules));
  ASSIGN_OR_RETURN(const std::optional<int> length, TokenizerLength(files.tokenizer));
  modules.max_tokens = length.value_or(0);
  if (files.sentence_bert.empty()) return modules;
  ASSIGN_OR_RETURN(const JsonFile file,
                   JsonFile::Parse(files.sentence_bert, "sentence_bert_config.json"));
  if (file.Has("max_seq_length")) {
    ASSIGN_OR_RETURN(modules.max_tokens, file.Int("max_seq_length", 3, kMaxContext));
  }
  ASSIGN_OR_RETURN(modules.lowercase, file.BoolOr("do_lower_case", false));
  // With this entry sentence-transformers renders each text by the chat template.
  const json::value* modalities = file.Find("modality_config");
  if (!modules.scores && modalities != nullptr && modalities->is_object() &&
      modalities->get_object().contains("message"))
    return file.Refuse("modality_config",
                       "has \"message\", texts as messages of a chat, which is not supported; "
                       "remove it to embed plain texts");
  return modules;
}

Result<ModuleFiles> ReadModuleFiles(const files::Folder& folder) {
  ModuleFiles files;
  ASSIGN_OR_RETURN(std::optional<std::string> config,
                   ReadIfThere(folder, "config.json", MaxConfigBytes("config.json")));
  if (!config) return InvalidArgument("model_not_found", "the folder has no config.json");
  files.config = *std::move(config);
  ASSIGN_OR_RETURN(files.modules, ReadOrEmpty(folder, "modules.json"));
  ASSIGN_OR_RETURN(const std::vector<ModuleEntry> entries, ListModules(files.modules));
  for (const auto& [kind, module] : entries) {
    if (module.empty()) continue;
    const bool pools = kind == "Pooling";
    if (pools && !files.pooling.empty()) continue;  // ReadModules() refuses a second one
    std::string& text = pools ? files.pooling : files.modules_by_folder[module];
    ASSIGN_OR_RETURN(text, ReadOrEmpty(folder, module + "/config.json"));
    if (pools && text.empty()) {
      return InvalidArgument(
          "model_hparam", fmt::format("modules.json names {}, which has no config.json", module));
    }
  }
  ASSIGN_OR_RETURN(files.sentence_bert, ReadOrEmpty(folder, "sentence_bert_config.json"));
  ASSIGN_OR_RETURN(files.sentence_transformers,
                   ReadOrEmpty(folder, "config_sentence_transformers.json"));
  return files;
}

}  // namespace tutti::model
