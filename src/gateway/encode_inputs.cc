#include "gateway/encode_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/validate.h"
#include "base/quote.h"

namespace tutti::gateway {
namespace {

std::string Param(size_t index) { return fmt::format("input[{}]", index); }

bool IsEmpty(const api::EncodeInput& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->empty();
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) return ids->empty();
  return false;
}

Status CheckOutput(const ServedModel& model, const api::EncodeRequest& request) {
  const api::EncoderInfo& info = *model.info.encoder;
  const bool scores = request.output == api::EncodeOutput::kScores;
  if (scores ? info.labels.empty() : info.width == 0) {
    return InvalidArgument("invalid_value", fmt::format("model {} gives no {}", model.info.id,
                                                        scores ? "scores" : "vectors"))
        .WithParam("model");
  }
  if (!request.dimensions.has_value()) return OkStatus();
  if (request.output != api::EncodeOutput::kPooled || !info.cuts) {
    return InvalidArgument(
               "invalid_value",
               fmt::format("model {} was not trained for vectors of other lengths than its own, {}",
                           model.info.id, info.width))
        .WithParam("dimensions");
  }
  if (*request.dimensions < 1 || *request.dimensions > info.width) {
    return InvalidArgument("invalid_value",
                           fmt::format("dimensions must be 1 to {}, the model's own", info.width))
        .WithParam("dimensions");
  }
  return OkStatus();
}

Status CheckPromptName(const ServedModel& model, const api::EncodeRequest& request) {
  if (!request.prompt_name.has_value()) return OkStatus();
  const auto& prompts = model.encoder->prompts;
  if (prompts.contains(*request.prompt_name)) return OkStatus();
  std::string known;
  for (const auto& [name, text] : prompts) known += (known.empty() ? "" : ", ") + name;
  return InvalidArgument(
             "invalid_value",
             fmt::format("the model has no prompt {}; it has {}", Quote(*request.prompt_name),
                         known.empty() ? "none" : known))
      .WithParam("prompt_name");
}

Status CheckInput(const ServedModel& model, const api::EncodeRequest& request, size_t index) {
  const api::EncodeInput& input = request.inputs[index];
  if (IsEmpty(input)) {
    return InvalidArgument("empty_prompt", "an input must not be empty").WithParam(Param(index));
  }
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input))
    return api::CheckTokens(*ids, model.info.vocab_size, Param(index));
  if (!std::holds_alternative<api::TextPair>(input)) return OkStatus();
  if (!model.info.encoder->pairs) {
    return InvalidArgument("invalid_value",
                           fmt::format("model {} reads no pairs of texts", model.info.id))
        .WithParam(Param(index));
  }
  if (request.prompt_name.has_value()) {
    return InvalidArgument("invalid_value", "prompts are not put before pairs of texts")
        .WithParam("prompt_name");
  }
  return OkStatus();
}

// How many tokens of two texts stay where `room` is all there is: the longer one loses first, and
// of two that both exceed half the second keeps the odd token. The rule of Hugging Face's
// `tokenizers`, strategy longest_first.
std::pair<size_t, size_t> LongestFirst(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  const size_t shorter = std::min(first, second);
  if (2 * shorter > room) {
    // Both are cut; which of them was the longer one decides who has the odd token.
    const size_t low = room / 2, high = room - low;
    return first > second ? std::pair(high, low) : std::pair(low, high);
  }
  return first > second ? std::pair(room - second, second) : std::pair(first, room - first);
}

// Reads the inputs of one request, one after the other.
class InputReader {
 public:
  InputReader(const ServedModel& model, const api::EncodeRequest& request)
      : model_(model),
        tokenizer_(*model.tokenizer),
        frame_(model.encoder->frame),
        truncation_(request.truncate_tokens.has_value() &&
                            request.truncation == api::Truncation::kRefuse
                        ? api::Truncation::kRight
                        : request.truncation),
        limit_(static_cast<size_t>(
            std::min(model.info.max_model_len,
                     request.truncate_tokens.value_or(model.info.max_model_len)))) {
    const auto& prompts = model.encoder->prompts;
    const auto& name = request.prompt_name.has_value() ? request.prompt_name
                                                       : model.encoder->default_prompt;
    if (!name.has_value()) return;
    if (const auto found = prompts.find(*name); found != prompts.end()) prompt_ = found->second;
  }

  Status Read(const api::EncodeInput& input, size_t index) {
    index_ = index;
    const size_t before = out_.tokens.size();
    RETURN_IF_ERROR(std::visit([this](const auto& kind) { return Append(kind); }, input));
    out_.lengths.push_back(static_cast<int32_t>(out_.tokens.size() - before));
    return OkStatus();
  }

  EncodeTokens Take() && { return std::move(out_); }

 private:
  Result<std::vector<TokenId>> Tokens(std::string_view text) const {
    RETURN_IF_ERROR(api::CheckUtf8(text, Param(index_)));
    return tokenizer_.Encode(text, {.add_special = false});
  }

  Status Append(const std::string& text) {
    ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                     prompt_.empty() ? Tokens(text) : Tokens(prompt_ + text));
    const size_t added = frame_.before.size() + frame_.after.size();
    ASSIGN_OR_RETURN(const size_t room, Room(tokens.size(), added));
    Add(frame_.before, 0);
    Add(Kept(tokens, room), 0);
    Add(frame_.after, 0);
    return OkStatus();
  }

  Status Append(const std::vector<TokenId>& ids) {
    ASSIGN_OR_RETURN(const size_t room, Room(ids.size(), 0));
    Add(Kept(ids, room), 0);
    return OkStatus();
  }

  Status Append(const api::TextPair& pair) {
    ASSIGN_OR_RETURN(const std::vector<TokenId> first, Tokens(pair.first));
    ASSIGN_OR_RETURN(const std::vector<TokenId> second, Tokens(pair.second));
    const size_t added = frame_.before.size() + frame_.between.size() + frame_.after.size();
    ASSIGN_OR_RETURN(const size_t room, Room(first.size() + second.size(), added));
    const auto [keep_first, keep_second] = LongestFirst(first.size(), second.size(), room);
    Add(frame_.before, 0);
    Add(Kept(first, keep_first), 0);
    Add(frame_.between, 0);
    Add(Kept(second, keep_second), frame_.second_type);
    Add(frame_.after, frame_.second_type);
    return OkStatus();
  }

  // Tokens of the text that fit beside `added` special ones.
  Result<size_t> Room(size_t tokens, size_t added) const {
    if (tokens + added <= limit_) return tokens;
    if (truncation_ != api::Truncation::kRefuse) return limit_ > added ? limit_ - added : 0;
    return InvalidArgument("context_length_exceeded",
                           fmt::format("input {} has {} tokens, and the model reads at most {}",
                                       index_, tokens + added, limit_))
        .WithParam(Param(index_));
  }

  std::span<const TokenId> Kept(std::span<const TokenId> tokens, size_t count) const {
    if (count >= tokens.size()) return tokens;
    return truncation_ == api::Truncation::kLeft ? tokens.last(count) : tokens.first(count);
  }

  void Add(std::span<const TokenId> tokens, uint8_t type) {
    if (type != 0 || !out_.types.empty()) {
      out_.types.resize(out_.tokens.size(), 0);
      out_.types.insert(out_.types.end(), tokens.size(), type);
    }
    out_.tokens.insert(out_.tokens.end(), tokens.begin(), tokens.end());
  }

  const ServedModel& model_;
  const tokenizer::Tokenizer& tokenizer_;
  const SpecialFrame& frame_;
  const api::Truncation truncation_;
  const size_t limit_;
  std::string prompt_;
  size_t index_ = 0;
  EncodeTokens out_;
};

}  // namespace

Status CheckEncodeRequest(const ServedModel& model, const api::EncodeRequest& request) {
  if (!model.info.encoder.has_value() || model.encoder == nullptr) {
    return InvalidArgument("invalid_value",
                           fmt::format("model {} generates text and gives no vectors or scores",
                                       model.info.id))
        .WithParam("model");
  }
  if (request.inputs.empty() || request.inputs.size() > api::kMaxEncodeInputs) {
    return InvalidArgument("invalid_value", fmt::format("a request holds 1 to {} inputs, not {}",
                                                        api::kMaxEncodeInputs,
                                                        request.inputs.size()))
        .WithParam("input");
  }
  if (request.truncate_tokens.has_value() && *request.truncate_tokens < 1) {
    return InvalidArgument("invalid_value", "at least one token must be left of a text")
        .WithParam("truncate_prompt_tokens");
  }
  RETURN_IF_ERROR(CheckOutput(model, request));
  RETURN_IF_ERROR(CheckPromptName(model, request));
  for (size_t i = 0; i < request.inputs.size(); ++i)
    RETURN_IF_ERROR(CheckInput(model, request, i));
  return OkStatus();
}

Result<EncodeTokens> ReadEncodeInputs(const ServedModel& model, const api::EncodeRequest& request) {
  InputReader reader(model, request);
  for (size_t i = 0; i < request.inputs.size(); ++i)
    RETURN_IF_ERROR(reader.Read(request.inputs[i], i));
  return std::move(reader).Take();
}

size_t EncodeBytes(const api::EncodeRequest& request) {
  size_t bytes = 0;
  for (const api::EncodeInput& input : request.inputs) {
    if (const auto* text = std::get_if<std::string>(&input)) {
      bytes += text->size();
    } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
      bytes += ids->size() * sizeof(TokenId);
    } else {
      const auto& pair = std::get<api::TextPair>(input);
      bytes += pair.first.size() + pair.second.size();
    }
    bytes += sizeof(api::EncodeInput);
  }
  return bytes;
}

}  // namespace tutti::gateway
