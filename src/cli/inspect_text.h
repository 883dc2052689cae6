// The lines of `tutti inspect` about a model's text: tokenizer, chat template, end tokens, tokens
// that mark a hole, sampling defaults. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/generation_defaults.h"
#include "tokenizer/tokenizer.h"

namespace tutti::cli {

// Name and value of each line, in order: "tokenizer", "chat_template", "ends",
// "fill_in_the_middle", "sampling". The names are keys of the JSON form. A template that does not
// compile is a value, not an error.
std::vector<std::pair<std::string, std::string>> TextFacts(
    const tokenizer::Tokenizer& tokenizer, const model::GenerationDefaults& generation);

// Prints "name: value" lines to standard output, with spaces for underscores in names.
void PrintTextFacts(const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace tutti::cli
