// Vectors and scores of texts in the C interface.
#include <algorithm>
#include <iterator>

#include "library/c_handles.h"

namespace {

using tutti::Error;
using tutti::ErrorCode;
using tutti::library::Fail, tutti::library::Guarded, tutti::library::IsText, tutti::library::Null;
using tutti::library::TextOf;

tutti::EncodeOptions FromC(const tutti_encode_options* options) {
  if (options == nullptr) return {};
  tutti::EncodeOptions out{.truncate = options->truncate != 0,
                           .raw_scores = options->raw_scores != 0};
  if (options->normalize != 0) out.normalize = options->normalize > 0;
  if (options->dimensions != 0) out.dimensions = options->dimensions;
  if (options->prompt_name != nullptr) out.prompt_name = options->prompt_name;
  return out;
}

// Runs `encode` with the texts, which may be none; `out` is where its result is written.
template <typename Encode>
tutti_code WithTexts(const tutti_encoder* encoder, const tutti_text* texts, size_t count,
                     const void* out, tutti_error** error, const Encode& encode) {
  return Guarded(error, [&]() -> tutti_code {
    if (encoder == nullptr) return Null("encoder", error);
    if (count == 0) return TUTTI_OK;
    if (out == nullptr || texts == nullptr || !std::all_of(texts, texts + count, IsText))
      return Null("texts, each of them, and the results", error);
    std::vector<std::string> copies;
    copies.reserve(count);
    std::transform(texts, texts + count, std::back_inserter(copies), TextOf);
    const Error failure = encode(copies);
    return failure.ok() ? TUTTI_OK : Fail(failure, error);
  });
}

const char* NameAt(const std::vector<std::string>* names, int index) {
  if (names == nullptr || index < 0 || static_cast<size_t>(index) >= names->size()) return nullptr;
  return (*names)[static_cast<size_t>(index)].c_str();
}

}  // namespace

tutti_code tutti_encoder_load(const tutti_options* options, tutti_encoder** encoder,
                              tutti_error** error) {
  return Guarded(error, [&] {
    if (options == nullptr || encoder == nullptr) return Null("options and encoder", error);
    tutti::Expected<tutti::Encoder> loaded = tutti::Encoder::Load(options->options);
    if (!loaded.ok()) return Fail(loaded.error(), error);
    *encoder = new tutti_encoder{*loaded, loaded->info(), loaded->encoder_info()};
    return TUTTI_OK;
  });
}
void tutti_encoder_free(tutti_encoder* encoder) { delete encoder; }

const char* tutti_encoder_name(const tutti_encoder* encoder) {
  return encoder == nullptr ? "" : encoder->model.name.c_str();
}
int tutti_encoder_context(const tutti_encoder* encoder) {
  return encoder == nullptr ? 0 : encoder->model.context;
}
int tutti_encoder_dimensions(const tutti_encoder* encoder) {
  return encoder == nullptr ? 0 : encoder->info.dimensions;
}
int tutti_encoder_pairs(const tutti_encoder* encoder) {
  return encoder != nullptr && encoder->info.pairs ? 1 : 0;
}
int tutti_encoder_labels(const tutti_encoder* encoder) {
  return encoder == nullptr ? 0 : static_cast<int>(encoder->info.labels.size());
}
const char* tutti_encoder_label(const tutti_encoder* encoder, int index) {
  return NameAt(encoder == nullptr ? nullptr : &encoder->info.labels, index);
}
const char* tutti_encoder_prompt(const tutti_encoder* encoder, int index) {
  return NameAt(encoder == nullptr ? nullptr : &encoder->info.prompts, index);
}

tutti_code tutti_embed(const tutti_encoder* encoder, const tutti_text* texts, size_t count,
                       const tutti_encode_options* options, float* vectors, int32_t* tokens,
                       tutti_error** error) {
  return WithTexts(encoder, texts, count, vectors, error, [&](const auto& copies) {
    const auto result = encoder->encoder.Embed(copies, FromC(options));
    if (!result.ok()) return result.error();
    std::copy(result->values.begin(), result->values.end(), vectors);
    if (tokens != nullptr) std::copy(result->tokens.begin(), result->tokens.end(), tokens);
    return Error();
  });
}

tutti_code tutti_rank(const tutti_encoder* encoder, tutti_text query, const tutti_text* documents,
                      size_t count, const tutti_encode_options* options, float* scores,
                      tutti_error** error) {
  return WithTexts(encoder, documents, count, scores, error, [&](const auto& copies) {
    if (!IsText(query))
      return Error(ErrorCode::kInvalidArgument, "invalid_value", "query must not be NULL");
    const auto result = encoder->encoder.Rank(TextOf(query), copies, FromC(options));
    if (!result.ok()) return result.error();
    std::copy(result->begin(), result->end(), scores);
    return Error();
  });
}

tutti_code tutti_classify(const tutti_encoder* encoder, const tutti_text* texts, size_t count,
                          const tutti_encode_options* options, float* scores, tutti_error** error) {
  return WithTexts(encoder, texts, count, scores, error, [&](const auto& copies) {
    const auto result = encoder->encoder.Classify(copies, FromC(options));
    if (!result.ok()) return result.error();
    std::copy(result->values.begin(), result->values.end(), scores);
    return Error();
  });
}
