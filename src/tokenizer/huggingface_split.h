// Which known pre-tokenizer a "pre_tokenizer" block of tokenizer.json describes. Pure; any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "base/status.h"

namespace tutti::tokenizer {

// The name FindPreTokenizer() knows. Errors: tokenizer_regex, tokenizer_unsupported.
Result<std::string> PreTokenizerOfHuggingFace(const boost::json::value* block);

// Of SentencePiece's BPE, from "normalizer" and "pre_tokenizer" of the file: whether a space is put
// before each stretch of text. Errors: tokenizer_unsupported for what does more than that and write
// spaces as U+2581.
Result<bool> SpacePrefixOfHuggingFace(const boost::json::object& root);

// A value from a file, made fit for a message: printable ASCII, at most 64 bytes, in quotes.
std::string QuotedForMessage(std::string_view text);

}  // namespace tutti::tokenizer
