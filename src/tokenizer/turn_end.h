// The text that a chat template writes behind an assistant's message: where the model's makers end
// a turn, whatever the file says of end tokens.
//
// Pure; any thread. The template is not trusted: it runs within the limits of chat_template.h.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/chat_template.h"

namespace tutti::tokenizer {

// What follows the last message of a two-message dialog, without leading white space. Empty where
// the template writes nothing there or cannot be rendered.
std::string TextBehindAnswer(std::string source, SpecialTokens tokens);

}  // namespace tutti::tokenizer
