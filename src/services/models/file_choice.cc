#include "services/models/file_choice.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/ascii.h"
#include "base/quote.h"

namespace tutti::models {
namespace {

// Read by Tutti or by other programs of the cache; none is large.
constexpr std::array<std::string_view, 22> kSideFiles = {"added_tokens.json",
                                                         "chat_template.jinja",
                                                         "chat_template.json",
                                                         "config.json",
                                                         "config_sentence_transformers.json",
                                                         "generation_config.json",
                                                         "hf_quant_config.json",
                                                         "merges.txt",
                                                         "model.safetensors.index.json",
                                                         "modules.json",
                                                         "preprocessor_config.json",
                                                         "quantize_config.json",
                                                         "sentence_bert_config.json",
                                                         "sentencepiece.bpe.model",
                                                         "special_tokens_map.json",
                                                         "spiece.model",
                                                         "spm.model",
                                                         "tokenizer.json",
                                                         "tokenizer.model",
                                                         "tokenizer_config.json",
                                                         "vocab.json",
                                                         "vocab.txt"};

// In the order in which one is taken when none was named: small and good first.
constexpr std::array<std::string_view, 12> kUsualQuants = {"Q4_K_M", "Q4_K_XL", "Q4_K_S", "Q4_1",
                                                           "Q4_0",   "Q5_K_M",  "Q5_K_S", "Q6_K",
                                                           "Q8_0",   "MXFP4",   "BF16",   "F16"};

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool AreDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A GGUF of the repository, with all its parts.
struct GgufGroup {
  std::string stem;  // path without ".gguf" and "-00001-of-00003"
  uint32_t count = 1;
  std::vector<HubFile> parts;  // in order

  bool whole() const { return parts.size() == count; }
};

// Projectors of pictures and matrices of importance are GGUF files that hold no model.
bool IsModelFile(std::string_view path) {
  const std::string name = AsciiLower(BaseName(path));
  return name.ends_with(".gguf") && !name.starts_with("mmproj") &&
         name.find("imatrix") == std::string::npos;
}

std::vector<GgufGroup> GroupsOf(const std::vector<HubFile>& files) {
  std::map<std::pair<std::string, uint32_t>, GgufGroup> groups;  // by stem and number of parts
  for (const HubFile& file : files) {
    if (!IsModelFile(file.path)) continue;
    std::string_view stem = std::string_view(file.path).substr(0, file.path.size() - 5);
    uint32_t count = 1;
    if (const auto split = ReadSplitStem(stem)) {
      stem = split->stem;
      count = split->count;
    }
    GgufGroup& group = groups[{std::string(stem), count}];
    group.stem = std::string(stem);
    group.count = count;
    group.parts.push_back(file);
  }
  std::vector<GgufGroup> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

bool IsBoundary(char c) { return c == '-' || c == '.' || c == '/'; }

// Where `quant` (in lower case) stands in the stem: 2 at its end, 1 elsewhere between separators, 0
// nowhere. "q4_k" does not stand in "m-q4_k_m".
int MatchOf(const std::string& stem, std::string_view quant) {
  const std::string lower = AsciiLower(stem);
  int best = 0;
  for (size_t at = lower.find(quant); at != std::string::npos; at = lower.find(quant, at + 1)) {
    const size_t end = at + quant.size();
    const bool begins = at == 0 || IsBoundary(lower[at - 1]) || lower[at - 1] == '_';
    if (begins && end == lower.size()) return 2;
    if (begins && IsBoundary(lower[end])) best = 1;
  }
  return best;
}

// The quantisation that the stem ends with: "Q4_K_M" of "qwen3-0.6b-q4_k_m".
std::string QuantOf(const GgufGroup& group) {
  const std::string_view name = BaseName(group.stem);
  const size_t from = name.find_last_of("-.");
  std::string quant(from == std::string_view::npos ? name : name.substr(from + 1));
  for (char& c : quant) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return quant;
}

// What each may be called behind a repository: its quantisation, or its whole name where several
// have the same.
std::vector<std::string> NamesOf(const std::vector<GgufGroup>& groups) {
  std::map<std::string, int> count;
  for (const GgufGroup& group : groups) ++count[QuantOf(group)];
  std::vector<std::string> names;
  for (const GgufGroup& group : groups) {
    std::string quant = QuantOf(group);
    names.push_back(count[quant] == 1 ? std::move(quant) : std::string(BaseName(group.stem)));
  }
  return names;
}

std::string QuantList(const std::vector<GgufGroup>& groups) {
  std::string list;
  for (const std::string& name : NamesOf(groups)) {
    if (list.size() > 300) return list + ", ...";
    list += (list.empty() ? "" : ", ") + name;
  }
  return Printable(list);
}

// Weights of a folder: one file, or the parts of an index; variants such as model.fp16.safetensors
// are not read.
bool IsFolderWeight(std::string_view path) {
  if (path == "model.safetensors") return true;
  if (!path.ends_with(".safetensors") || path.find('/') != std::string_view::npos) return false;
  return ReadSplitStem(path.substr(0, path.size() - 12)).has_value();
}

// Modules of sentence-transformers: "1_Pooling/config.json", "2_Dense/model.safetensors".
bool IsModuleFile(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view folder = path.substr(0, slash), name = path.substr(slash + 1);
  const size_t underscore = folder.find('_');
  return underscore != std::string_view::npos && AreDigits(folder.substr(0, underscore)) &&
         (name == "config.json" || name == "model.safetensors");
}

bool HasPath(const std::vector<HubFile>& files, std::string_view path) {
  return std::any_of(files.begin(), files.end(),
                     [&](const HubFile& file) { return file.path == path; });
}

bool HasFolderModel(const std::vector<HubFile>& files) {
  return HasPath(files, "config.json") &&
         std::any_of(files.begin(), files.end(),
                     [](const HubFile& file) { return IsFolderWeight(file.path); });
}

FileChoice FolderChoice(const std::vector<HubFile>& files) {
  FileChoice choice;
  // Both forms in one repository hold the same weights; transformers reads the whole file.
  const bool single = HasPath(files, "model.safetensors");
  for (const HubFile& file : files) {
    const bool side =
        std::find(kSideFiles.begin(), kSideFiles.end(), file.path) != kSideFiles.end();
    const bool weight = IsFolderWeight(file.path) && (!single || file.path == "model.safetensors");
    const bool index_of_none = single && file.path == "model.safetensors.index.json";
    if ((side && !index_of_none) || weight || IsModuleFile(file.path)) choice.files.push_back(file);
  }
  for (const std::string_view name : kSideFiles) {
    if (!HasPath(files, name)) choice.absent.emplace_back(name);
  }
  return choice;
}

Result<FileChoice> GgufChoice(const GgufGroup& group) {
  if (!group.whole()) {
    return Status(StatusCode::kFailedPrecondition, "model_incomplete",
                  Quote(group.stem, 128) + " has " + std::to_string(group.parts.size()) + " of " +
                      std::to_string(group.count) + " parts");
  }
  FileChoice choice;
  choice.files = group.parts;
  choice.entry = group.parts.front().path;
  return choice;
}

bool IsArithmetic(std::string_view quant) {
  const std::string lower = AsciiLower(quant);
  return lower == "f32" || lower == "f16" || lower == "bf16" || lower == "int8";
}

}  // namespace

Result<FileChoice> ChooseFiles(const std::vector<HubFile>& files, std::string_view quant,
                               const std::string& repository) {
  const std::vector<GgufGroup> groups = GroupsOf(files);
  const bool folder = HasFolderModel(files);
  if (groups.empty() && !folder) {
    return NotFound("quant_not_found",
                    repository + " has no GGUF file and no safetensors with config.json");
  }
  const auto find = [&](std::string_view wanted) {
    const std::string lower = AsciiLower(wanted);
    std::vector<const GgufGroup*> found;
    int best = 1;
    for (const GgufGroup& group : groups) {
      const int match = MatchOf(group.stem, lower);
      if (match > best) found.clear();
      if (match >= best) found.push_back(&group);
      best = std::max(best, match);
    }
    return found;
  };
  if (quant.empty()) {
    if (folder) return FolderChoice(files);
    if (groups.size() == 1) return GgufChoice(groups.front());
    for (const std::string_view usual : kUsualQuants) {
      if (const auto found = find(usual); found.size() == 1) return GgufChoice(*found.front());
    }
    return InvalidArgument("model_ambiguous", repository + " has several GGUF files; name one of " +
                                                  repository + ":QUANT: " + QuantList(groups));
  }
  const std::vector<const GgufGroup*> found = find(quant);
  if (found.empty() && folder && IsArithmetic(quant)) return FolderChoice(files);
  if (found.empty()) {
    return NotFound("quant_not_found",
                    repository + " has no GGUF file of " + std::string(quant) + "; it has " +
                        (groups.empty() ? "a folder of safetensors" : QuantList(groups)));
  }
  if (found.size() > 1) {
    return InvalidArgument("model_ambiguous", repository + ":" + std::string(quant) +
                                                  " means several files; give more of a name: " +
                                                  Quote(BaseName(found[0]->stem), 100) + ", " +
                                                  Quote(BaseName(found[1]->stem), 100));
  }
  return GgufChoice(*found.front());
}

std::vector<std::string> QuantsOf(const std::vector<HubFile>& files) {
  std::vector<std::string> quants;
  if (HasFolderModel(files)) quants.emplace_back();
  const std::vector<GgufGroup> groups = GroupsOf(files);
  const std::vector<std::string> names = NamesOf(groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].whole()) quants.push_back(names[i]);
  }
  return quants;
}

}  // namespace tutti::models
