// What `tutti inspect` says of a model's texts: tokenizer, chat template, ends, sampling.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/generation_defaults.h"
#include "tokenizer/tokenizer.h"

namespace tutti::cli {

// Name and value of each line, in order: "tokenizer", "chat_template", "ends", "sampling".
std::vector<std::pair<std::string, std::string>> TextFacts(
    const tokenizer::Tokenizer& tokenizer, const model::GenerationDefaults& generation);

// One line each, the name before the value.
void PrintTextFacts(const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace tutti::cli
