// Redact: masks secrets that can be recognized by their form: keys, tokens, values after the word
// "password", private keys, card numbers, and random-looking words. For logs of conversations.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace tutti::app {

// Replaces each recognized secret with "***". Best effort: secrets without a recognizable form
// stay.
std::string Redact(std::string_view text);

}  // namespace tutti::app
