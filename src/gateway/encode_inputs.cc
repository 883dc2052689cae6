#include "gateway/encode_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
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
  // Clients name the model's own length by habit: every vector has it.
  if (!scores && *request.dimensions == info.width) return OkStatus();
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
  return InvalidArgument("invalid_value",
                         fmt::format("the model has no prompt {}; it has {}",
                                     Quote(*request.prompt_name), known.empty() ? "none" : known))
      .WithParam("prompt_name");
}

// LangChain's OpenAIEmbeddings sends the ids of OpenAI's tokenizer by default: few of them are in
// another vocabulary, and those that are mean other texts.
Status CheckIds(const ServedModel& model, const std::vector<TokenId>& ids, size_t index) {
  Status status = api::CheckTokens(ids, model.info.vocab_size, Param(index));
  if (status.ok()) return status;
  return InvalidArgument(
             status.reason(),
             status.message() + "; send texts (LangChain: check_embedding_ctx_length=False)")
      .WithParam(status.param());
}

Status CheckInput(const ServedModel& model, const api::EncodeRequest& request, size_t index) {
  const api::EncodeInput& input = request.inputs[index];
  if (IsEmpty(input)) {
    return InvalidArgument("empty_prompt", fmt::format("input {} must not be empty", index))
        .WithParam(Param(index));
  }
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input))
    return CheckIds(model, *ids, index);
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

// Reads the inputs of one request, one after the other.
class InputReader {
 public:
  InputReader(const ServedModel& model, const api::EncodeRequest& request)
      : model_(model),
        tokenizer_(*model.tokenizer),
        limit_(std::min(model.encoder->max_tokens,
                        request.truncate_tokens.value_or(model.encoder->max_tokens))),
        // truncate_tokens implies truncation: longer inputs are cut, not refused.
        cuts_(request.truncation != api::Truncation::kRefuse ||
              request.truncate_tokens.has_value()),
        total_(
            static_cast<size_t>(request.total_tokens.value_or(std::numeric_limits<int>::max()))) {
    if (cuts_) options_.max_tokens = limit_;
    if (request.truncation == api::Truncation::kLeft) options_.cut = tokenizer::CutSide::kLeft;
    const auto& prompts = model.encoder->prompts;
    const auto& name =
        request.prompt_name.has_value() ? request.prompt_name : model.encoder->default_prompt;
    if (!name.has_value()) return;
    if (const auto found = prompts.find(*name); found != prompts.end()) prompt_ = found->second;
  }

  Status Read(const api::EncodeInput& input, size_t index) {
    ASSIGN_OR_RETURN(const tokenizer::EncoderInput read,
                     std::visit([&](const auto& kind) { return Tokens(kind, index); }, input));
    RETURN_IF_ERROR(model_.CheckRows(read.ids, Param(index)));
    if (!cuts_ && read.ids.size() > static_cast<size_t>(limit_)) {
      return InvalidArgument("context_length_exceeded",
                             fmt::format("input {} has {} tokens, and the model reads at most {}",
                                         index, read.ids.size(), limit_))
          .WithParam(Param(index))
          .WithExcess(static_cast<int64_t>(read.ids.size()), limit_);
    }
    if (out_.tokens.size() + read.ids.size() > total_) {
      return InvalidArgument("invalid_value",
                             fmt::format("the inputs have more than {} tokens together", total_))
          .WithParam("input");
    }
    if (!read.types.empty() || !out_.types.empty()) {
      out_.types.resize(out_.tokens.size(), 0);
      out_.types.insert(out_.types.end(), read.types.begin(), read.types.end());
      out_.types.resize(out_.tokens.size() + read.ids.size(), 0);
    }
    out_.tokens.insert(out_.tokens.end(), read.ids.begin(), read.ids.end());
    out_.lengths.push_back(static_cast<int32_t>(read.ids.size()));
    return OkStatus();
  }

  EncodeTokens Take() && { return std::move(out_); }

 private:
  Result<tokenizer::EncoderInput> Tokens(const std::string& text, size_t index) const {
    RETURN_IF_ERROR(api::CheckUtf8(text, Param(index)));
    return tokenizer_.EncodeInput(prompt_.empty() ? text : prompt_ + text, options_);
  }

  Result<tokenizer::EncoderInput> Tokens(const api::TextPair& pair, size_t index) const {
    RETURN_IF_ERROR(api::CheckUtf8(pair.first, Param(index)));
    RETURN_IF_ERROR(api::CheckUtf8(pair.second, Param(index)));
    return tokenizer_.EncodePair(pair.first, pair.second, options_);
  }

  Result<tokenizer::EncoderInput> Tokens(const std::vector<TokenId>& ids, size_t /*index*/) const {
    const auto kept = std::min(ids.size(), static_cast<size_t>(options_.max_tokens));
    const std::span<const TokenId> all(ids);
    const auto cut = options_.cut == tokenizer::CutSide::kLeft ? all.last(kept) : all.first(kept);
    return tokenizer::EncoderInput{{cut.begin(), cut.end()}, {}, ids.size()};
  }

  const ServedModel& model_;
  const tokenizer::Tokenizer& tokenizer_;
  const int limit_;
  const bool cuts_;
  const size_t total_;  // of all inputs
  tokenizer::InputOptions options_;
  std::string prompt_;
  EncodeTokens out_;
};

}  // namespace

Status CheckEncodeRequest(const ServedModel& model, const api::EncodeRequest& request) {
  if (!model.info.encoder.has_value() || model.encoder == nullptr) {
    return InvalidArgument("invalid_value",
                           fmt::format("model {} generates text and gives no vectors or scores; "
                                       "--encode-decoders on lets it give vectors",
                                       model.info.id))
        .WithParam("model");
  }
  RETURN_IF_ERROR(api::CheckTenantWeight(request.tenant_weight));
  if (request.inputs.empty() || request.inputs.size() > api::kMaxEncodeInputs) {
    return InvalidArgument("invalid_value",
                           fmt::format("a request holds 1 to {} inputs, not {}",
                                       api::kMaxEncodeInputs, request.inputs.size()))
        .WithParam("input");
  }
  if (request.truncate_tokens.has_value() && *request.truncate_tokens < 1) {
    return InvalidArgument("invalid_value", "at least one token must be left of a text")
        .WithParam("truncate_prompt_tokens");
  }
  RETURN_IF_ERROR(CheckOutput(model, request));
  RETURN_IF_ERROR(CheckPromptName(model, request));
  for (size_t i = 0; i < request.inputs.size(); ++i) RETURN_IF_ERROR(CheckInput(model, request, i));
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

void KeepOnly(const std::vector<size_t>& kept, EncodeTokens* inputs) {
  if (kept.size() == inputs->lengths.size()) return;
  EncodeTokens out;
  size_t next = 0, begin = 0;
  for (size_t i = 0; i < inputs->lengths.size() && next < kept.size(); ++i) {
    const auto size = static_cast<size_t>(inputs->lengths[i]);
    if (kept[next] == i) {
      ++next;
      out.lengths.push_back(inputs->lengths[i]);
      const auto copy = [&](const auto& from, auto* to) {
        const auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
        to->insert(to->end(), first, first + static_cast<std::ptrdiff_t>(size));
      };
      copy(inputs->tokens, &out.tokens);
      if (!inputs->types.empty()) copy(inputs->types, &out.types);
    }
    begin += size;
  }
  *inputs = std::move(out);
}

}  // namespace tutti::gateway
