// Gateway: encode requests; gateway.cc has the rest.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/encoding.h"
#include "api/models.h"
#include "api/validate.h"
#include "base/memory_reserve.h"
#include "base/quote.h"
#include "base/status.h"
#include "base/types.h"
#include "gateway/classify.h"
#include "gateway/encode_result.h"
#include "gateway/gateway.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

namespace {

// --- Checks of a request, and its texts as an encoder's input tokens: prompt, tokenizer, special
// --- tokens, truncation. Pure.

struct EncodeTokens {
  std::vector<TokenId> tokens;   // of all inputs, one after the other
  std::vector<uint8_t> types;    // kind of each token; none: all 0
  std::vector<int32_t> lengths;  // tokens of each input
};

std::string Param(size_t index) { return fmt::format("input[{}]", index); }

bool IsEmpty(const api::EncodeInput& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->empty();
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) return ids->empty();
  return false;
}

Status CheckOutput(const ServedModel& model, const api::EncodeRequest& request) {
  const api::EncoderInfo& info = *model.info.encoder;
  const bool scores = request.output == api::EncodeOutput::kScores;
  const bool tokens = request.output == api::EncodeOutput::kTokens;
  if (scores ? info.labels.empty() : (tokens ? info.row_width() : info.width) == 0) {
    const char* what = scores                                    ? "no scores"
                       : info.width == 0 && info.token_width > 0 ? "vectors of tokens only"
                                                                 : "no vectors";
    return BadValue("model", fmt::format("model {} gives {}", model.info.id, what));
  }
  if (!request.dimensions.has_value()) return OkStatus();
  // Clients often send the model's own width, which every model supports.
  if (!scores && *request.dimensions == info.width) return OkStatus();
  if (request.output != api::EncodeOutput::kPooled || !info.cuts) {
    return BadValue(
        "dimensions",
        fmt::format("model {} was not trained for vectors of other lengths than its own, {}",
                    model.info.id, info.width));
  }
  if (*request.dimensions < 1 || *request.dimensions > info.width) {
    return BadValue("dimensions",
                    fmt::format("dimensions must be 1 to {}, the model's own", info.width));
  }
  return OkStatus();
}

Status CheckPromptName(const ServedModel& model, const api::EncodeRequest& request) {
  if (!request.prompt_name.has_value()) return OkStatus();
  const auto& prompts = model.encoder->prompts;
  if (prompts.contains(*request.prompt_name)) return OkStatus();
  std::string known;
  for (const auto& [name, text] : prompts) known += (known.empty() ? "" : ", ") + name;
  return BadValue("prompt_name",
                  fmt::format("the model has no prompt {}; it has {}", Quote(*request.prompt_name),
                              known.empty() ? "none" : known));
}

// LangChain's OpenAIEmbeddings sends token ids of OpenAI's tokenizer by default. Most are outside
// another vocabulary, and the others stand for other texts.
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
  const bool chats = model.encoder->pair_template.has_value();
  if (!std::holds_alternative<api::TextPair>(input)) {
    return chats ? BadValue(Param(index),
                            fmt::format("model {} reads pairs of texts alone", model.info.id))
                 : OkStatus();
  }
  if (!model.info.encoder->pairs) {
    return BadValue(Param(index), fmt::format("model {} reads no pairs of texts", model.info.id));
  }
  if (request.prompt_name.has_value() && !chats) {
    return BadValue("prompt_name", "prompts are not put before pairs of texts");
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
      return BadValue("input", fmt::format("the inputs have more than {} tokens together", total_));
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
    if (model_.encoder->pair_template.has_value()) return Rendered(pair, index);
    return tokenizer_.EncodePair(pair.first, pair.second, options_);
  }

  // A pair that is too long loses the end of its document; what the template writes behind it
  // stays, because the answer is read there. Refused if no token of the document is left: all
  // documents would score the same.
  Result<tokenizer::EncoderInput> Rendered(const api::TextPair& pair, size_t index) const {
    tokenizer::ChatInput chat;
    const auto add = [&](const char* role, const std::string& text) {
      chat.messages.push_back({.role = role, .content = tokenizer::jinja::Value::String(text)});
    };
    if (!prompt_.empty()) add("system", prompt_);
    add("query", pair.first);
    add("document", pair.second);
    ASSIGN_OR_RETURN(const tokenizer::RenderedPrompt rendered,
                     model_.encoder->pair_template->Render(chat, {}));
    std::vector<tokenizer::TextSegment> segments;
    for (const tokenizer::PromptSegment& segment : rendered.segments)
      segments.push_back({segment.text, segment.trusted});
    std::vector<TokenId> ids = tokenizer_.Encode(segments);
    const size_t all = ids.size(), most = static_cast<size_t>(options_.max_tokens);
    if (all <= most) return tokenizer::EncoderInput{std::move(ids), {}, all};
    std::vector<TokenId> tail;
    if (segments.back().parse_special) tail = tokenizer_.Encode(std::span(&segments.back(), 1));
    if (tail.size() > all || !std::equal(tail.rbegin(), tail.rend(), ids.rbegin())) tail.clear();
    const auto trusted = [](const tokenizer::TextSegment& segment) {
      return segment.parse_special;
    };
    const auto document = std::find_if_not(segments.rbegin(), segments.rend(), trusted);
    const auto before =
        static_cast<size_t>(std::max<std::ptrdiff_t>(segments.rend() - document - 1, 0));
    const size_t kept = tokenizer_.Encode(std::span(segments).first(before)).size() + tail.size();
    if (kept >= most) {
      return InvalidArgument(
                 "context_length_exceeded",
                 fmt::format("the query and the template of input {} have {} tokens and "
                             "leave none of {} to the document",
                             index, kept, most))
          .WithParam(Param(index));
    }
    ids.resize(most - tail.size());
    ids.insert(ids.end(), tail.begin(), tail.end());
    return tokenizer::EncoderInput{std::move(ids), {}, all};
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

// Checks of a request that do not tokenize its texts: whether `model` supports the output, the
// dimensions and the kinds of inputs. `param` names the OpenAI field. Errors: invalid_value,
// empty_prompt, token_out_of_range.
Status CheckEncodeRequest(const ServedModel& model, const api::EncodeRequest& request) {
  if (!model.info.encoder.has_value() || model.encoder == nullptr) {
    return BadValue("model", fmt::format("model {} generates text and gives no vectors or scores; "
                                         "--encode-decoders on lets it give vectors",
                                         model.info.id));
  }
  RETURN_IF_ERROR(api::CheckTenantWeight(request.tenant_weight));
  if (request.inputs.empty() || request.inputs.size() > api::kMaxEncodeInputs) {
    return BadValue("input", fmt::format("a request holds 1 to {} inputs, not {}",
                                         api::kMaxEncodeInputs, request.inputs.size()));
  }
  if (request.truncate_tokens.has_value() && *request.truncate_tokens < 1) {
    return BadValue("truncate_prompt_tokens", "at least one token must be left of a text");
  }
  RETURN_IF_ERROR(CheckOutput(model, request));
  RETURN_IF_ERROR(CheckPromptName(model, request));
  for (size_t i = 0; i < request.inputs.size(); ++i) RETURN_IF_ERROR(CheckInput(model, request, i));
  return OkStatus();
}

// Tokenizes the inputs of a checked request. Truncation of a pair removes tokens of the longer text
// first. Errors: context_length_exceeded (with the excess tokens) and invalid_utf8, which name the
// input; invalid_value beyond total_tokens.
Result<EncodeTokens> ReadEncodeInputs(const ServedModel& model, const api::EncodeRequest& request) {
  InputReader reader(model, request);
  for (size_t i = 0; i < request.inputs.size(); ++i)
    RETURN_IF_ERROR(reader.Read(request.inputs[i], i));
  return std::move(reader).Take();
}

// Bytes a request holds while it waits: texts and ids.
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

// Removes all inputs except those with the indices `kept`, ascending.
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

// --- the gateway ---

Status Rejected(const ServedModel& model, Status status) {
  if (model.encoder != nullptr && model.encoder->metrics != nullptr)
    model.encoder->metrics->RequestRejected(status.reason());
  return status;
}

}  // namespace

struct Gateway::PendingEncoding {
  std::shared_ptr<const ServedModel> model;
  api::EncodeRequest request;
  engine::AdmissionPermit permit;
  std::shared_ptr<api::EncodingState> state;
  // Embedding-cache lookup of the request. Set before the request is submitted, read by the thread
  // that takes the result. Null inside: every input is computed.
  std::shared_ptr<std::shared_ptr<api::KnownRows>> known =
      std::make_shared<std::shared_ptr<api::KnownRows>>();
};

Gateway::Lookup Gateway::LookEncoder(const api::EncodeRequest& request) const {
  if (!request.model.empty()) return Look(request.model);
  const api::ModelList models = Models();
  if (const api::ModelInfo* model = api::EncoderFor(models, request)) return Look(model->id);
  if (models.empty()) return Look("");  // returns the error
  if (AwaitsModels())
    return {.why =
                Unavailable("model_loading", "models that may give this are still being loaded")};
  if (request.output == api::EncodeOutput::kScores) {
    return {.why = BadValue("model", "none of the models here gives such scores")};
  }
  const bool decoders = std::any_of(models.begin(), models.end(),
                                    [](const api::ModelInfo& model) { return model.generates; });
  return {.why = InvalidArgument(
                     "invalid_value",
                     std::string("none of the models here gives such vectors") +
                         (decoders ? "; --encode-decoders on lets one that generates text" : ""))
                     .WithParam("model")};
}

// The stream's twin (gateway.cc): the result exists while the request waits. How it is finished is
// known once there is a model.
Result<api::Encoding> Gateway::Defer(std::string model, api::EncodeRequest request,
                                     std::shared_ptr<Waker> waker) {
  const auto control = std::make_shared<WaitControl>();
  const auto finish = std::make_shared<api::EncodingState::Finisher>();
  const auto state = std::make_shared<api::EncodingState>(
      std::move(waker),
      [finish](api::EncodeResult& result) {
        if (*finish) (*finish)(result);
      },
      std::exchange(request.observer, nullptr));
  const TimePoint deadline = request.deadline;
  const size_t bytes = EncodeBytes(request);
  auto held = std::make_shared<api::EncodeRequest>(std::move(request));
  const auto resume = [this, held, state, control, finish](WaitingRequests::Found found) {
    Status status = found.ok() && control->cancelled() ? Cancelled() : found.status();
    if (status.ok()) {
      const std::shared_ptr<const ServedModel> served = *std::move(found);
      NoteUse(*served, held->keep_alive);
      Result<std::shared_ptr<PendingEncoding>> queued = Queue(served, std::move(*held));
      if (queued.ok()) {
        (*queued)->state = state;
        *finish = FinisherOf(**queued);
        control->Attach((*queued)->permit.control());
        Post(*std::move(queued));
        return;
      }
      status = Rejected(*served, std::move(queued).status());
    }
    state->Finish(std::move(status));
    if (state->waker() != nullptr) state->waker()->Wake();
  };
  RETURN_IF_ERROR(WaitFor({.model = std::move(model),
                           .request_id = held->request_id,
                           .deadline = deadline,
                           .bytes = bytes,
                           .control = control,
                           .resume = resume}));
  return api::Encoding(state, control);
}

// Uses the result of the cache look-up, which comes later.
api::EncodingState::Finisher Gateway::FinisherOf(const PendingEncoding& pending) {
  return [known = pending.known,
          finish = FinishFor(*pending.model->encoder, pending.request)](api::EncodeResult& result) {
    if (*known != nullptr) (*known)->Complete(&result);
    finish(result);
  };
}

Result<api::Encoding> Gateway::Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) {
  BeginTrace(&request);
  Lookup found = LookEncoder(request);
  if (!found.listed.empty())
    return Defer(std::move(found.listed), std::move(request), std::move(waker));
  if (found.model == nullptr) return std::move(found.why);
  return EncodeWith(std::move(found.model), std::move(request), std::move(waker));
}

Result<api::Encoding> Gateway::EncodeWith(std::shared_ptr<const ServedModel> model,
                                          api::EncodeRequest request,
                                          std::shared_ptr<Waker> waker) {
  NoteUse(*model, request.keep_alive);
  const size_t work = EncodeBytes(request);
  Result<std::shared_ptr<PendingEncoding>> queued = Queue(model, std::move(request));
  if (!queued.ok()) return Rejected(*model, queued.status());
  const std::shared_ptr<PendingEncoding> pending = *std::move(queued);
  pending->state = std::make_shared<api::EncodingState>(
      std::move(waker), FinisherOf(*pending), std::exchange(pending->request.observer, nullptr));
  api::Encoding encoding(pending->state, pending->permit.control());
  if (work <= options_.inline_prompt_bytes) {
    if (const PrepPool::Place place(pool_); place) {
      Status status = Prepare(*pending);
      if (!status.ok()) return Rejected(*model, std::move(status));
      return encoding;
    }
  }
  Post(pending);
  return encoding;
}

Result<std::shared_ptr<api::Cancellable>> Gateway::Classify(
    const std::shared_ptr<const ServedModel>& model, api::GenerateRequest request,
    std::shared_ptr<api::TokenStream> stream) {
  RETURN_IF_ERROR(api::ValidateRequest(request));
  const api::Continuation& continuation = *request.continuation;
  ASSIGN_OR_RETURN(std::vector<size_t> classes, ClassesFor(model->info, continuation));
  ASSIGN_OR_RETURN(std::string text, ClassifiedText(request.prompt, continuation));
  std::string key;
  // The questions of one call have its id. Other calls are apart: what they cost is their callers'.
  if (!request.request_id.empty() && request.use_prefix_cache && !request.cache.no_store) {
    key = std::to_string(model->instance);
    for (const std::string& part : {request.tenant, request.cache_scope, request.request_id, text})
      key.append(1, '\0').append(part);
  }
  api::EncodeRequest encode;
  encode.request_id = std::move(request.request_id);
  encode.model = model->info.id;
  encode.inputs.emplace_back(std::move(text));
  encode.output = api::EncodeOutput::kScores;
  encode.raw_scores = true;
  encode.priority = request.priority;
  encode.deadline = request.deadline;
  encode.cache = request.cache;
  encode.cache.no_store |= !request.use_prefix_cache;
  encode.tenant = std::move(request.tenant);
  encode.tenant_weight = request.tenant_weight;
  encode.cache_scope = std::move(request.cache_scope);
  encode.trace = std::move(request.trace);
  stream->DivideLogprobs(model->info.decision_temperature);
  const auto answer = std::make_shared<const ClassAnswer>(ClassAnswer{stream, std::move(classes)});
  RunningScores::Joined joined =
      running_scores_.Join(std::move(key), model->encoder->scale, answer);
  if (!joined.is_first) return std::move(joined.control);
  // The same load of the model, whose classes have these numbers.
  Result<api::Encoding> encoding = EncodeWith(model, std::move(encode), joined.scores);
  if (!encoding.ok()) {
    joined.scores->Fail(encoding.status(), *answer);
    return PromptError(std::move(encoding).status());
  }
  joined.scores->Attach(*std::move(encoding));
  return std::move(joined.control);
}

void Gateway::Post(std::shared_ptr<PendingEncoding> pending) {
  pool_.Post([this, pending = std::move(pending)] {
    KeepMemoryReserve();
    Status status = StillWanted(pending->permit, pending->request.deadline);
    if (status.ok()) status = Prepare(*pending);
    if (!status.ok()) {
      pending->request = {};  // frees memory, which the refusal may need
      UntilMemory([&] { pending->state->Finish(Rejected(*pending->model, status)); });
    }
    // Also wakes a server that holds something until the request is prepared.
    if (pending->state->waker() != nullptr) pending->state->waker()->Wake();
  });
}

Result<std::shared_ptr<Gateway::PendingEncoding>> Gateway::Queue(
    std::shared_ptr<const ServedModel> model, api::EncodeRequest request) {
  RETURN_IF_ERROR(CheckEncodeRequest(*model, request));
  auto pending = std::make_shared<PendingEncoding>();
  ASSIGN_OR_RETURN(pending->permit,
                   model->encoder->engine->Admit({.items = static_cast<int>(request.inputs.size()),
                                                  .bytes = EncodeBytes(request),
                                                  .priority = request.priority,
                                                  .deadline = request.deadline}));
  pending->model = std::move(model);
  pending->request = std::move(request);
  return pending;
}

Status Gateway::Prepare(PendingEncoding& pending) try {
  const TimePoint begin = clock_.Now();
  api::EncodeRequest& in = pending.request;
  ASSIGN_OR_RETURN(EncodeTokens inputs, ReadEncodeInputs(*pending.model, in));
  if (rows_ != nullptr) {
    *pending.known = rows_->Look({.request = in,
                                  .tokens = inputs.tokens,
                                  .types = inputs.types,
                                  .lengths = inputs.lengths,
                                  .model = pending.model->info,
                                  .model_instance = pending.model->instance});
    if (*pending.known != nullptr) KeepOnly((*pending.known)->missing(), &inputs);
    if (inputs.lengths.empty()) {
      pending.permit = {};  // nothing is waited for
      pending.state->Prepared();
      pending.state->Finish(api::EncodeResult());
      if (pending.state->waker() != nullptr) pending.state->waker()->Wake();
      return OkStatus();
    }
  }
  engine::TokenizedRequest out;
  out.id = std::move(in.request_id);
  out.tokens = std::move(inputs.tokens);
  out.types = std::move(inputs.types);
  out.lengths = std::move(inputs.lengths);
  out.output = in.output;
  out.priority = in.priority;
  out.deadline = in.deadline;
  out.tenant = std::move(in.tenant);
  out.tenant_weight = in.tenant_weight;
  out.prepare = clock_.Now() - begin;
  out.trace = std::move(in.trace);
  if (out.trace != nullptr) {
    out.trace->SetModel(pending.model->info.id);
    out.trace->SetCancellable(pending.permit.control());
  }
  const auto items = static_cast<int64_t>(out.lengths.size());
  const auto tokens = static_cast<int64_t>(out.tokens.size());
  const ServedEncoder& encoder = *pending.model->encoder;
  pending.state->Prepared();
  RETURN_IF_ERROR(encoder.engine->Submit(std::move(pending.permit), std::move(out), pending.state));
  if (encoder.metrics != nullptr) encoder.metrics->RequestAccepted(items, tokens);
  return OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace tutti::gateway
