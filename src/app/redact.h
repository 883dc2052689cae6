// Redact: a text without the secrets that can be told by their looks: keys, tokens, passwords that
// are called so, private keys, numbers of cards, and whatever looks random. For logs that hold what
// people said. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tutti::app {

// Each secret is "***" in it. What a secret looks like only to people stays: it is a help, not a
// promise.
std::string Redact(std::string_view text);

}  // namespace tutti::app
