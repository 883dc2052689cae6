// The text that a chat template writes after an assistant's message. It shows how the model ends a
// turn, independently of the end tokens that the file states.
//
// Pure; any thread. The template is not trusted: it runs within the limits of chat_template.h.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/chat_template.h"

namespace tutti::tokenizer {

// Returns the text after the last message of a two-message dialog, without leading white space.
// Empty if the template writes nothing there or cannot be rendered.
std::string TextBehindAnswer(std::string source, SpecialTokens tokens);

}  // namespace tutti::tokenizer
