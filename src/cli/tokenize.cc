// `tutti tokenize`: standard input to tokens.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "api/validate.h"
#include "app/loading/model_registry.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "files/source.h"
#include "model/decoder_checkpoint.h"
#include "model/model_files.h"
#include "model/tokenizer_metadata.h"
#include "tokenizer/tokenizer.h"

namespace tutti::cli {
namespace {

class TokenizeCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("tokenize", "Show the tokens of the text on standard input");
    app_->footer(
        "Works with files and folders without weights and of models that are not served, too.\n"
        "Examples:\n"
        "  echo -n \"Hello world\" | tutti tokenize smollm2-135m-instruct\n"
        "  echo -n \"Hello world\" | tutti tokenize model.gguf --ids");
    app_->add_option("MODEL", model_, "a .gguf or packed file, a model's folder or a known model")
        ->check(ModelName())
        ->required();
    app_->add_flag("--ids", ids_, "one JSON array of ids");
    app_->add_flag("--no-special", no_special_,
                   "special tokens spelled in the text are plain text");
    app_->add_flag("--no-bos", no_bos_, "no BOS or EOS, whatever the file says");
  }

  int Run() override {
    const Result<app::ModelRef> ref = app::ResolveModel(model_);
    if (!ref.ok()) return Fail(ref.status());
    auto tokenizer = Load(ref->path);
    if (!tokenizer.ok()) return Fail(std::move(tokenizer).status().WithContext(ref->path));
    const std::string text{std::istreambuf_iterator<char>(std::cin),
                           std::istreambuf_iterator<char>()};
    if (const Status status = api::CheckUtf8(text, "standard input"); !status.ok())
      return Fail(status);
    const std::vector<TokenId> tokens =
        (*tokenizer)->Encode(text, {.add_special = !no_bos_, .parse_special = !no_special_});
    if (ids_) {
      std::string line = "[";
      for (size_t i = 0; i < tokens.size(); ++i)
        line += (i == 0 ? "" : ", ") + std::to_string(tokens[i]);
      std::printf("%s]\n", line.c_str());
    } else {
      for (const TokenId id : tokens) {
        std::printf("%6d  %s\n", id, LogEscape((*tokenizer)->Piece(id)).c_str());
      }
    }
    return kExitOk;
  }

 private:
  static Result<std::shared_ptr<const tokenizer::Tokenizer>> Load(const std::string& path) {
    // Works for any architecture, supported or not, with or without weights.
    ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, Spec(path));
    return tokenizer::Tokenizer::Create(std::move(spec));
  }

  static Result<tokenizer::TokenizerSpec> Spec(const std::string& path) {
    const model::ModelFiles files = model::ModelFiles::At(path);
    if (files.form == model::ModelFiles::Form::kFolder) {
      ASSIGN_OR_RETURN(const files::Folder folder, files::Folder::Open(path));
      Result<tokenizer::TokenizerSpec> spec = model::ReadFolderTokenizer(folder);
      // A folder without any file of a model has the better words for it.
      return !spec.ok() && !files.fault.ok() ? files.fault : spec;
    }
    RETURN_IF_ERROR(files.fault);
    if (files.gguf != nullptr) return model::ReadTokenizerSpec(files.gguf->header());
    ASSIGN_OR_RETURN(model::DecoderCheckpoint packed, model::DecoderCheckpoint::FromFiles(files));
    return std::move(packed.tokenizer);
  }

  std::string model_;
  bool ids_ = false, no_special_ = false, no_bos_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeTokenizeCommand() { return std::make_unique<TokenizeCommand>(); }

}  // namespace tutti::cli
