// The reports of `tutti inspect`: the lines about a model's text, encoders, decoders that are no
// GGUF, and what serving a decoder will take (`--memory`). One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/config/settings.h"
#include "app/loading/model_registry.h"
#include "base/status.h"
#include "model/decoder_checkpoint.h"
#include "model/encoder_weights.h"
#include "model/generation_defaults.h"
#include "model/model_files.h"
#include "tokenizer/tokenizer.h"

namespace tutti::cli {

// Name and value of each line, in order: "tokenizer", "chat_template", "ends",
// "fill_in_the_middle", "sampling". The names are keys of the JSON form. A template that does not
// compile is a value, not an error.
std::vector<std::pair<std::string, std::string>> TextFacts(
    const tokenizer::Tokenizer& tokenizer, const model::GenerationDefaults& generation);

// The same of a decoder that gives vectors or scores alone: "tokenizer", "gives", its prompts.
// `chat_template`: that of its checkpoint. Errors: model_hparam, if it could not be served.
Result<std::vector<std::pair<std::string, std::string>>> VectorFacts(
    const model::DecoderCheckpoint& checkpoint, const tokenizer::Tokenizer& tokenizer,
    const std::string& chat_template);

// Prints "name: value" lines to standard output, with spaces for underscores in names.
void PrintTextFacts(const std::vector<std::pair<std::string, std::string>>& facts);

// Prints a folder with a decoder, or a packed one, and its verdict; the exit status.
int InspectDecoder(const model::ModelFiles& files, bool json);

// "Q4_K_M (Q5_0 61 %, Q6_K 22 %, Q4_K 17 %)", or "Q4_1" where that is all.
std::string TypeText(const model::DecoderCheckpoint& checkpoint);

// Prints an encoder, a folder or a GGUF, with its verdict and how it would be served; the exit
// status. `dtype`: as asked for, or the default.
int InspectEncoder(const model::ModelFiles& files, std::optional<model::EncoderDType> dtype,
                   bool json);

// Prints what serving a decoder will take with these settings, in the arithmetic that `ref` says if
// it does; the exit status. `ref`: a GGUF, a packed file or a folder. Reads no weights.
int InspectMemory(const app::ModelRef& ref, const app::Settings& settings, bool json);

// "4096 x 128".
std::string ShapeText(const std::vector<int64_t>& dims);

// Prints remarks of a model's files as warnings.
void PrintRemarks(const std::vector<std::string>& remarks);

}  // namespace tutti::cli
