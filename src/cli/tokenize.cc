// `tutti tokenize`: standard input to tokens.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "api/validate.h"
#include "app/model_registry.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "model/decoder_checkpoint.h"
#include "model/encoder_checkpoint.h"
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
        "Works with vocabulary-only files too. Examples:\n"
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
    const model::ModelFiles files = model::ModelFiles::At(path);
    RETURN_IF_ERROR(files.fault);
    if (files.gguf != nullptr) {  // of any architecture, known or not
      ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec,
                       model::ReadTokenizerSpec(files.gguf->header()));
      return tokenizer::Tokenizer::Create(std::move(spec));
    }
    if (files.holds == model::ModelFiles::Holds::kEncoder) {
      ASSIGN_OR_RETURN(const auto encoder, model::EncoderCheckpoint::FromFiles(files));
      return encoder.tokenizer;
    }
    ASSIGN_OR_RETURN(model::DecoderCheckpoint decoder, model::DecoderCheckpoint::FromFiles(files));
    return tokenizer::Tokenizer::Create(std::move(decoder.tokenizer));
  }

  std::string model_;
  bool ids_ = false, no_special_ = false, no_bos_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeTokenizeCommand() { return std::make_unique<TokenizeCommand>(); }

}  // namespace tutti::cli
