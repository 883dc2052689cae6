#include "model/encoder_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "files/source.h"
#include "model/encoder_gguf.h"
#include "model/json_file.h"
#include "model/tensor_store.h"
#include "model/tokenizer_metadata.h"
#include "safetensors/checkpoint.h"

namespace tutti::model {
namespace {

// A head that scores, as transformers names it.
bool HasClassifier(const TensorStore& tensors) {
  return tensors.Find("classifier.weight") != nullptr ||
         tensors.Find("classifier.out_proj.weight") != nullptr;
}

// The tensors of a checkpoint, and those of one of its modules with the module's folder before
// their names.
class JoinedStore final : public IndexedStore {
 public:
  JoinedStore(std::unique_ptr<TensorStore> first, std::unique_ptr<TensorStore> second,
              const std::string& folder)
      : first_(std::move(first)), second_(std::move(second)) {
    for (const StoredTensor& tensor : first_->tensors()) Add(tensor);
    for (StoredTensor tensor : second_->tensors()) {
      tensor.name = folder + tensor.name;
      Add(std::move(tensor));
    }
  }

  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    const auto [store, original] = Original(tensor);
    return store->Read(*original, offset, out);
  }
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    const auto [store, original] = Original(tensor);
    return store->ReadFloats(*original);
  }
  Status CheckUnchanged() const override {
    RETURN_IF_ERROR(first_->CheckUnchanged());
    return second_->CheckUnchanged();
  }
  std::string_view shape_code() const override { return first_->shape_code(); }

 private:
  std::pair<const TensorStore*, const StoredTensor*> Original(const StoredTensor& tensor) const {
    const size_t before = first_->tensors().size();
    return tensor.index < before
               ? std::pair(first_.get(), &first_->tensors()[tensor.index])
               : std::pair(second_.get(), &second_->tensors()[tensor.index - before]);
  }

  const std::unique_ptr<TensorStore> first_, second_;
};

// Creates the tokenizer. Refuses a model whose length has no room for more than special tokens.
Status MakeTokenizer(tokenizer::TokenizerSpec spec, EncoderCheckpoint& checkpoint) {
  const EncoderConfig& config = checkpoint.config;
  RETURN_IF_ERROR(CheckRows(config.vocab_size, spec, checkpoint.remarks));
  // Tokenizers mark the second text of a pair also for models that have no types (DeBERTa).
  if (config.token_types == 0) {
    for (tokenizer::FramePlace& place : spec.single) place.type = 0;
    for (tokenizer::FramePlace& place : spec.pair) place.type = 0;
  }
  ASSIGN_OR_RETURN(checkpoint.tokenizer, tokenizer::Tokenizer::Create(std::move(spec)));
  const tokenizer::Tokenizer& tokenizer = *checkpoint.tokenizer;
  for (std::string& remark : tokenizer.Remarks()) checkpoint.remarks.push_back(std::move(remark));
  const int special = std::max(tokenizer.framing_tokens(), tokenizer.pair_framing_tokens());
  if (config.max_tokens <= special) {
    return InvalidArgument("model_hparam",
                           fmt::format("the model reads {} tokens, and {} special ones are added",
                                       config.max_tokens, special));
  }
  return OkStatus();
}

}  // namespace

Result<EncoderCheckpoint> EncoderCheckpoint::Open(const std::string& path,
                                                  const std::string& root) {
  ASSIGN_OR_RETURN(const files::Folder folder, files::Folder::Open(path, root));
  EncoderCheckpoint checkpoint;
  ASSIGN_OR_RETURN(ModuleFiles files, ReadModuleFiles(folder));
  ASSIGN_OR_RETURN(files.tokenizer, ReadOrEmpty(folder, "tokenizer_config.json"));
  // Checked before the tensors are opened, so that a model of another kind is refused as such even
  // if its tensors are bad too.
  ASSIGN_OR_RETURN(const EncoderConfig early, ReadEncoderConfig(files));
  ASSIGN_OR_RETURN(auto weights, safetensors::Checkpoint::Open(folder));
  ASSIGN_OR_RETURN(const std::string headers, weights->HeaderDigest());
  ASSIGN_OR_RETURN(checkpoint.front_digest, DigestFolderTexts(folder, headers, &files));
  RemarkUnnamed(weights->unnamed(), checkpoint.remarks);
  std::unique_ptr<TensorStore> tensors = MakeTensorStore(std::move(weights));
  for (const DenseModule& dense : early.dense) {
    const std::string place = path + "/" + dense.folder;
    ASSIGN_OR_RETURN(const files::Folder module, files::Folder::Open(place, root));
    auto own = safetensors::Checkpoint::Open(module);
    if (!own.ok()) return std::move(own).status().WithContext(dense.folder);
    tensors = std::make_unique<JoinedStore>(std::move(tensors), MakeTensorStore(*std::move(own)),
                                            dense.folder + "/");
  }
  checkpoint.tensors = std::make_shared<ChecksumStore>(std::move(tensors));
  files.classifies = HasClassifier(*checkpoint.tensors);
  ASSIGN_OR_RETURN(checkpoint.config, ReadEncoderConfig(files));
  ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, ReadFolderTokenizer(folder));
  RETURN_IF_ERROR(MakeTokenizer(std::move(spec), checkpoint));
  return checkpoint;
}

Result<EncoderCheckpoint> EncoderCheckpoint::FromGguf(std::shared_ptr<const gguf::File> file) {
  EncoderCheckpoint checkpoint;
  ASSIGN_OR_RETURN(checkpoint.config, ReadGgufEncoderConfig(*file));
  ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, ReadTokenizerSpec(file->header()));
  RETURN_IF_ERROR(MakeTokenizer(std::move(spec), checkpoint));
  ASSIGN_OR_RETURN(checkpoint.front_digest, file->HeaderDigest());
  RemarkUnread(file->header(), checkpoint.remarks);
  checkpoint.tensors = std::make_shared<ChecksumStore>(MakeEncoderStore(std::move(file)));
  return checkpoint;
}

Result<EncoderCheckpoint> EncoderCheckpoint::FromFiles(const ModelFiles& files) {
  RETURN_IF_ERROR(files.fault);
  if (files.form == ModelFiles::Form::kFolder) return Open(files.path);
  if (files.holds != ModelFiles::Holds::kEncoder)
    return InvalidArgument("model_path", "the file holds no encoder");
  return FromGguf(files.gguf);
}

}  // namespace tutti::model
