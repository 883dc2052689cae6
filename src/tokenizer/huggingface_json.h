// Reads tokenizer.json: its values, and its blocks "normalizer", "pre_tokenizer" and "decoder" as
// steps of a TokenizerSpec. Pure; any thread. For the reader of that file alone.
//
// Format: Hugging Face tokenizers 0.13 to 0.23. A block that is null or absent has no steps.
// Errors: tokenizer_invalid (not of the format), tokenizer_unsupported (a type that is not known,
// by name).
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer::huggingface {

// Errors: tokenizer_invalid for a file that violates the format, tokenizer_unsupported for a
// feature that is not implemented.
Status Invalid(std::string_view message);
Status Unsupported(std::string_view what, std::string_view value);

// Values, without exceptions: an absent value, null and a value of another type all give nothing.
const boost::json::value* Member(const boost::json::object& object, std::string_view key);
const boost::json::object* ObjectAt(const boost::json::object& object, std::string_view key);
const boost::json::array* ArrayAt(const boost::json::object& object, std::string_view key);
std::optional<std::string_view> TextOf(const boost::json::value* value);
std::string_view TextAt(const boost::json::object& object, std::string_view key);  // or empty
std::optional<bool> BoolAt(const boost::json::object& object, std::string_view key);
// A token id; nothing for what cannot be one.
std::optional<size_t> IdOf(const boost::json::value* value);
std::optional<double> NumberOf(const boost::json::value& value);

Result<std::vector<NormalizerStep>> NormalizerSteps(const boost::json::object& root);
Result<std::vector<SplitStep>> SplitSteps(const boost::json::object& root);

// The parts of the block `key`: the block itself, or the parts of a Sequence, which are listed
// under `list`, and of Sequences in it, 32 at most. Empty if the block is absent.
Result<std::vector<const boost::json::object*>> PartsAt(const boost::json::object& root,
                                                        std::string_view key,
                                                        std::string_view list);

// Whether normalizer and pre-tokenizer are BERT's whole ones, which WordPiece runs in one pass.
bool HasBertSteps(const boost::json::object& root);

// Whether the decoder drops one space at the beginning of a text.
bool DecoderStripsSpace(const boost::json::object& root);

}  // namespace tutti::tokenizer::huggingface
