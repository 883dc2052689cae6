#include "model/decoder_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "files/digest.h"
#include "gguf/metadata.h"
#include "model/config_parameters.h"
#include "model/decoder_tensors.h"
#include "model/encoder_checkpoint.h"
#include "model/families/family.h"
#include "model/hyper_parameters.h"
#include "model/json_file.h"
#include "model/quantized/quantized_store.h"
#include "model/tensor_store.h"
#include "model/text_config.h"
#include "model/tokenizer_metadata.h"
#include "safetensors/checkpoint.h"
#include "tensor/dtype.h"

namespace tutti::model {
namespace {

// Adds remarks about settings of the file that are served differently from what it suggests.
void RemarkConfig(const ModelConfig& config, std::vector<std::string>& remarks) {
  if (!config.rope_long) return;
  remarks.push_back(
      config.long_context == 0
          ? fmt::format("longrope: the context ends at {} tokens: there are no factors for longer "
                        "texts",
                        config.context_length)
          : fmt::format("longrope: the context is {} tokens; --context up to {} uses the factors "
                        "for long texts in all texts",
                        config.context_length, config.long_context));
}

void RemarkUnusedModules(const Status& fault, std::vector<std::string>& remarks) {
  remarks.push_back(
      fmt::format("the model generates text and no embeddings or scores: {}", fault.message()));
}

// Rows that see each other both ways have no last one that knows the most: they are averaged where
// the files do not say what becomes of them, as sentence-transformers does.
void PoolBothWays(DecoderCheckpoint& checkpoint) {
  if (!checkpoint.config.both_ways || !checkpoint.vectors.ok()) return;
  VectorModules& modules = *checkpoint.vectors;
  if (modules.stated || modules.scores) return;
  modules.stated = modules.normalize = true;
  modules.pooling = Pooling::kMean;
}

Result<DecoderCheckpoint> OverGguf(const gguf::File& file, std::unique_ptr<TensorStore> store) {
  DecoderCheckpoint checkpoint;
  ASSIGN_OR_RETURN(checkpoint.config, ReadModelConfig(file));
  const Family* family = FamilyOfArchitecture(checkpoint.config.architecture);
  ASSIGN_OR_RETURN(GgufVectors vectors, ReadGgufVectors(file.header(), checkpoint.config, *store));
  checkpoint.vectors = std::move(vectors.modules);
  checkpoint.head = std::move(vectors.head);
  PoolBothWays(checkpoint);
  if (checkpoint.encodes()) checkpoint.config.tied_head = true;  // no logits are computed
  auto tensors = std::make_shared<DecoderTensors>(std::move(store), *family, Form::kGguf);
  tensors->Hide(vectors.tensors);
  RemarkConfig(checkpoint.config, checkpoint.remarks);
  tensors->DropUnneeded(checkpoint.config, checkpoint.remarks);
  RETURN_IF_ERROR(tensors->Split(checkpoint.config));
  checkpoint.tensors = std::move(tensors);
  checkpoint.file_type = gguf::FileTypeName(file.header());
  RemarkUnread(file.header(), checkpoint.remarks);
  checkpoint.generation = GenerationDefaults::FromGguf(file.header(), checkpoint.remarks);
  return checkpoint;
}

std::vector<std::pair<std::string, uint64_t>> BytesByType(const TensorStore& tensors) {
  std::map<std::string, uint64_t> bytes;
  for (const StoredTensor& tensor : tensors.tensors())
    bytes[std::string(tensor::Name(tensor.dtype))] += tensor.bytes;
  std::vector<std::pair<std::string, uint64_t>> sorted(bytes.begin(), bytes.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

// Sampling and ends. Where generation_config.json names no ends, they are those of config.json, and
// where that names none, those of its text part: the order of transformers' GenerationConfig.
Result<GenerationDefaults> ReadGeneration(const files::Folder& folder, const std::string& config,
                                          const std::string& text_config,
                                          std::vector<std::string>& remarks) {
  ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(folder, "generation_config.json"));
  GenerationDefaults defaults;
  if (!text.empty()) {
    ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "generation_config.json"));
    defaults = GenerationDefaults::FromJson(file, remarks);
  }
  for (const std::string& fallback : {config, text_config}) {
    if (!defaults.ends.empty()) break;
    ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(fallback, "config.json"));
    std::vector<std::string> ignored;  // of sampling, which is not taken from there
    defaults.ends = GenerationDefaults::FromJson(file, ignored).ends;
  }
  return defaults;
}

void AddEnds(const std::vector<int64_t>& named, tokenizer::TokenizerSpec& spec) {
  std::vector<int64_t> ends;
  if (spec.eos) ends.push_back(*spec.eos);
  for (const int64_t id : named)
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  std::optional<int64_t>* const places[] = {&spec.eos, &spec.eot, &spec.eom};
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i < std::size(places)) {
      *places[i] = ends[i];
    } else {
      spec.ends.push_back(ends[i]);
    }
  }
}

void KeepChecksums(DecoderCheckpoint& checkpoint) {
  checkpoint.checksums = std::make_shared<ChecksumStore>(std::move(checkpoint.tensors));
  checkpoint.tensors = checkpoint.checksums;
}

// All of a checkpoint that is not among its tensors: also values of tensors that were read when it
// was opened.
std::string FrontOf(const DecoderCheckpoint& checkpoint) {
  std::string front = checkpoint.front_digest;
  const auto add = [&](const std::vector<float>& values) {
    front += fmt::format(" {:016x}", files::Xxh64(std::as_bytes(std::span(values))));
  };
  add(checkpoint.config.rope_freq_factors);
  add(checkpoint.config.rope_long_factors);
  for (const Xielu& layer : checkpoint.config.xielu)
    add({layer.alpha_positive, layer.alpha_negative, layer.beta, layer.epsilon});
  add(checkpoint.head.yes);
  add(checkpoint.head.no);
  for (const VectorHead::Dense& layer : checkpoint.head.dense) {
    add(layer.weight);
    add(layer.bias);
  }
  return front;
}

Status FitTokens(DecoderCheckpoint& checkpoint) {
  RETURN_IF_ERROR(
      CheckRows(checkpoint.config.vocab_size, checkpoint.tokenizer, checkpoint.remarks));
  PadTokens(checkpoint.config.vocab_size, checkpoint.tokenizer);
  return OkStatus();
}

// The chat template of a reranker's GGUF: its text with placeholders, or the file's own template if
// that writes the same text, because it may take an instruction too.
Status UsePairTemplate(const gguf::Header& header, DecoderCheckpoint& checkpoint) {
  std::string& chat_template = checkpoint.tokenizer.chat_template;
  ASSIGN_OR_RETURN(const std::string_view rerank,
                   gguf::GetString(header, "tokenizer.chat_template.rerank"));
  if (RerankTextOf(chat_template) == rerank) return OkStatus();
  ASSIGN_OR_RETURN(chat_template, PairTemplateOf(rerank));
  return OkStatus();
}

}  // namespace

Result<DecoderCheckpoint> DecoderCheckpoint::FromGguf(std::shared_ptr<const gguf::File> file) {
  ASSIGN_OR_RETURN(DecoderCheckpoint checkpoint, OverGguf(*file, MakeTensorStore(file)));
  ASSIGN_OR_RETURN(checkpoint.tokenizer, ReadTokenizerSpec(file->header()));
  if (checkpoint.head.scores()) RETURN_IF_ERROR(UsePairTemplate(file->header(), checkpoint));
  RETURN_IF_ERROR(FitTokens(checkpoint));
  ASSIGN_OR_RETURN(checkpoint.front_digest, file->HeaderDigest());
  KeepChecksums(checkpoint);
  return checkpoint;
}

Result<DecoderCheckpoint> DecoderCheckpoint::FromPacked(std::shared_ptr<const packed::File> file) {
  ASSIGN_OR_RETURN(DecoderCheckpoint checkpoint, FromGguf(file->description()));
  checkpoint.packed = std::move(file);
  return checkpoint;
}

Result<DecoderCheckpoint> DecoderCheckpoint::FromFiles(const ModelFiles& files) {
  RETURN_IF_ERROR(files.fault);
  switch (files.form) {
    case ModelFiles::Form::kFolder:
      return Open(files.path);
    case ModelFiles::Form::kPacked: {
      ASSIGN_OR_RETURN(auto file, packed::File::Open(files.path));
      return FromPacked(std::move(file));
    }
    case ModelFiles::Form::kGguf:
      break;
  }
  return FromGguf(files.gguf);
}

Result<DecoderCheckpoint> DecoderCheckpoint::Open(const std::string& path,
                                                  const std::string& root) {
  ASSIGN_OR_RETURN(const files::Folder folder, files::Folder::Open(path, root));
  ASSIGN_OR_RETURN(const std::optional<std::string> read,
                   ReadIfThere(folder, "config.json", MaxConfigBytes("config.json")));
  if (!read) return InvalidArgument("model_not_found", "the folder has no config.json");
  const std::string& config = *read;
  {
    // Checked before the weights are opened, so that a model of another kind is refused as such
    // even if its weights are bad too.
    ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(config, "config.json"));
    std::vector<std::string> told_later;
    RETURN_IF_ERROR(TextConfig::Read(file, told_later).status());
  }
  ASSIGN_OR_RETURN(auto files, safetensors::Checkpoint::Open(folder));
  ASSIGN_OR_RETURN(const std::string headers, files->HeaderDigest());
  std::vector<std::string> unnamed = files->unnamed();
  ASSIGN_OR_RETURN(DecoderCheckpoint checkpoint,
                   FromTransformers(config, MakeTensorStore(std::move(files))));
  RemarkUnnamed(std::move(unnamed), checkpoint.remarks);
  KeepChecksums(checkpoint);
  ASSIGN_OR_RETURN(checkpoint.generation,
                   ReadGeneration(folder, config, checkpoint.config_json, checkpoint.remarks));
  ASSIGN_OR_RETURN(checkpoint.tokenizer, ReadFolderTokenizer(folder));
  AddEnds(checkpoint.generation.ends, checkpoint.tokenizer);
  RETURN_IF_ERROR(FitTokens(checkpoint));
  Result<ModuleFiles> vectors = ReadModuleFiles(folder);
  ASSIGN_OR_RETURN(checkpoint.front_digest,
                   DigestFolderTexts(folder, headers, vectors.ok() ? &*vectors : nullptr));
  if (!vectors.ok()) {
    checkpoint.vectors = Result<VectorModules>(vectors.status());
    RemarkUnusedModules(vectors.status(), checkpoint.remarks);
    return checkpoint;
  }
  ASSIGN_OR_RETURN(vectors->tokenizer, ReadOrEmpty(folder, "tokenizer_config.json"));
  RETURN_IF_ERROR(checkpoint.UseModules(
      *vectors, [&](const std::string& name) -> Result<std::unique_ptr<TensorStore>> {
        ASSIGN_OR_RETURN(const files::Folder module, files::Folder::Open(path + "/" + name, root));
        auto weights = safetensors::Checkpoint::Open(module);
        if (!weights.ok()) return std::move(weights).status().WithContext(name);
        return MakeTensorStore(*std::move(weights));
      }));
  return checkpoint;
}

Status DecoderCheckpoint::UseModules(const ModuleFiles& files, const OpenModule& open) {
  vectors = ReadVectorModules(files, config.width);
  if (vectors.ok() && (vectors->lexical || vectors->per_token))
    vectors = RefuseParameter(
        "modules.json: Dense without Pooling, and SpladePooling, are supported for encoders only");
  if (!vectors.ok()) {
    if (!files.modules.empty()) RemarkUnusedModules(vectors.status(), remarks);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(head, ReadVectorHead(*vectors, config, *tensors, open));
  PoolBothWays(*this);
  // No logits are computed. Embedders are published without the matrix for them.
  if (encodes()) config.tied_head = true;
  return OkStatus();
}

Result<std::string> DecoderCheckpoint::Digest() const {
  if (packed != nullptr) return packed->ContentDigest();
  CHECK(checksums != nullptr) << "a checkpoint without a digest";
  return checksums->Digest(FrontOf(*this));
}

Result<std::string> DecoderCheckpoint::ContentDigest() const {
  if (packed != nullptr) return packed->ContentDigest();
  constexpr size_t kPiece = size_t{1} << 20;
  files::Sha256 hash;
  const std::string front = FrontOf(*this);
  hash.Update(std::as_bytes(std::span(front)));
  std::vector<std::byte> buffer(kPiece);
  for (const StoredTensor& tensor : tensors->tensors()) {
    for (size_t at = 0; at < tensor.bytes; at += kPiece) {
      const std::span<std::byte> piece(buffer.data(), std::min(kPiece, tensor.bytes - at));
      RETURN_IF_ERROR(tensors->Read(tensor, at, piece));
      hash.Update(piece);
    }
  }
  return hash.FinishHex();
}

std::string DecoderCheckpoint::MainType() const {
  const auto types = BytesByType(*tensors);
  return types.empty() ? "" : types.front().first;
}

std::string DecoderCheckpoint::TypeShares() const {
  const auto types = BytesByType(*tensors);
  uint64_t whole = 0;
  for (const auto& [name, bytes] : types) whole += bytes;
  std::string shares;
  for (const auto& [name, bytes] : types) {
    const double percent = 100.0 * static_cast<double>(bytes) / static_cast<double>(whole);
    if (percent < 0.5) continue;
    shares += fmt::format("{}{} {:.0f} %", shares.empty() ? "" : ", ", name, percent);
  }
  return shares.find(',') == std::string::npos ? MainType() : shares;
}

Result<DecoderCheckpoint> DecoderCheckpoint::FromGguf(const gguf::File& file) {
  return OverGguf(file, MakeTensorStore(file));
}

Result<DecoderCheckpoint> DecoderCheckpoint::FromTransformers(std::string_view config_json,
                                                              std::unique_ptr<TensorStore> store) {
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(config_json, "config.json"));
  DecoderCheckpoint checkpoint;
  ASSIGN_OR_RETURN(const TextConfig text, TextConfig::Read(file, checkpoint.remarks));
  const char* const key =
      text.keys.Has("quantization_config") ? "quantization_config" : "compression_config";
  if (const boost::json::value* quantization = text.keys.Find(key)) {
    if (!quantization->is_object()) return text.keys.Refuse(key, "must be an object");
    const JsonFile members =
        JsonFile::Of(quantization->get_object(), text.keys.name() + ": " + key);
    ASSIGN_OR_RETURN(
        store, MakeQuantizedStore(std::move(store), members, checkpoint.remarks, checkpoint.notes));
  }
  const ConfigParameters keys(text.keys);
  RETURN_IF_ERROR(keys.CheckNesting());
  auto tensors =
      std::make_shared<DecoderTensors>(std::move(store), *text.family, Form::kTransformers);
  ASSIGN_OR_RETURN(checkpoint.config,
                   ReadModelConfig(*text.family, Form::kTransformers, keys, *tensors));
  RemarkConfig(checkpoint.config, checkpoint.remarks);
  tensors->DropUnneeded(checkpoint.config, checkpoint.remarks);
  RETURN_IF_ERROR(tensors->Split(checkpoint.config));
  checkpoint.tensors = std::move(tensors);
  checkpoint.config_json = boost::json::serialize(text.keys.members());
  return checkpoint;
}

}  // namespace tutti::model
