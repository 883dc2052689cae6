#include "cluster/inference_codec.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

#include "api/models.h"
#include "api/request_trace.h"

namespace tutti::cluster {
namespace {

template <typename T>
T EnumOf(int value, T last) {
  return value < 0 || value > static_cast<int>(last) ? T{} : static_cast<T>(value);
}

template <typename T>
std::vector<T> Values(const google::protobuf::RepeatedField<T>& wire) {
  return {wire.begin(), wire.end()};
}
template <typename Range, typename Field>
void Fill(const Range& values, Field* wire) {
  wire->Reserve(static_cast<int>(values.size()));
  for (const auto& value : values) wire->Add(value);
}

void ToWire(const api::ToolCall& call, v1::WireToolCall* wire) {
  wire->set_id(call.id);
  wire->set_name(call.name);
  wire->set_arguments(call.arguments);
}

void ToWire(const api::ChatMessage& message, v1::WireMessage* wire) {
  wire->set_role(static_cast<int>(message.role));
  wire->set_content(message.content);
  wire->set_name(message.name);
  Fill(message.part_ends, wire->mutable_part_ends());
  for (const api::ToolCall& call : message.tool_calls) ToWire(call, wire->add_tool_calls());
  wire->set_tool_call_id(message.tool_call_id);
  wire->set_reasoning(message.reasoning);
}

api::ChatMessage FromWire(const v1::WireMessage& wire) {
  api::ChatMessage message{.role = EnumOf(wire.role(), api::Role::kTool),
                           .content = wire.content(),
                           .name = wire.name(),
                           .part_ends = {wire.part_ends().begin(), wire.part_ends().end()},
                           .tool_call_id = wire.tool_call_id(),
                           .reasoning = wire.reasoning()};
  for (const v1::WireToolCall& call : wire.tool_calls())
    message.tool_calls.push_back({call.id(), call.name(), call.arguments()});
  return message;
}

void ToWire(const api::Prompt& prompt, v1::WirePrompt* wire) {
  if (const auto* chat = std::get_if<api::ChatPrompt>(&prompt)) {
    v1::WireChat* out = wire->mutable_chat();
    for (const api::ChatMessage& message : chat->messages) ToWire(message, out->add_messages());
    out->set_add_generation_prompt(chat->add_generation_prompt);
    out->set_continue_final_message(chat->continue_final_message);
    out->set_template_arguments(chat->template_arguments);
    for (const api::Tool& tool : chat->tools) {
      v1::WireTool* one = out->add_tools();
      one->set_name(tool.name);
      one->set_description(tool.description);
      one->set_parameters(tool.parameters);
      one->set_strict(tool.strict);
      one->set_param(tool.param);
      one->set_schema_field(tool.schema_field);
    }
    out->set_tool_choice(static_cast<int>(chat->tool_choice.kind));
    out->set_tool_choice_name(chat->tool_choice.name);
    out->set_parallel_tool_calls(chat->parallel_tool_calls);
  } else if (const auto* text = std::get_if<api::TextPrompt>(&prompt)) {
    v1::WireText* out = wire->mutable_text();
    out->set_text(text->text);
    out->set_add_special(text->add_special);
    out->set_parse_special(text->parse_special);
    if (text->suffix) out->set_suffix(*text->suffix);
    for (const api::ContextFile& file : text->files) {
      v1::WireContextFile* one = out->add_files();
      one->set_name(file.name);
      one->set_text(file.text);
    }
  } else {
    Fill(std::get<api::TokenPrompt>(prompt).tokens, wire->mutable_tokens()->mutable_tokens());
  }
}

api::Prompt FromWire(const v1::WirePrompt& wire) {
  if (wire.has_text()) {
    api::TextPrompt text{.text = wire.text().text(),
                         .add_special = wire.text().add_special(),
                         .parse_special = wire.text().parse_special()};
    if (wire.text().has_suffix()) text.suffix = wire.text().suffix();
    for (const v1::WireContextFile& file : wire.text().files())
      text.files.push_back({file.name(), file.text()});
    return text;
  }
  if (wire.has_tokens()) return api::TokenPrompt{Values(wire.tokens().tokens())};
  api::ChatPrompt chat;
  for (const v1::WireMessage& message : wire.chat().messages())
    chat.messages.push_back(FromWire(message));
  chat.add_generation_prompt = wire.chat().add_generation_prompt();
  chat.continue_final_message = wire.chat().continue_final_message();
  chat.template_arguments = wire.chat().template_arguments();
  for (const v1::WireTool& tool : wire.chat().tools()) {
    chat.tools.push_back({tool.name(), tool.description(), tool.parameters(), tool.strict(),
                          tool.param(),
                          tool.schema_field().empty() ? "parameters" : tool.schema_field()});
  }
  chat.tool_choice = {EnumOf(wire.chat().tool_choice(), api::ToolChoice::Kind::kNamed),
                      wire.chat().tool_choice_name()};
  chat.parallel_tool_calls = wire.chat().parallel_tool_calls();
  return chat;
}

void ToWire(const api::SamplingParams& in, v1::WireSampling* wire) {
  wire->set_temperature(in.temperature);
  wire->set_top_p(in.top_p);
  wire->set_top_k(in.top_k);
  wire->set_min_p(in.min_p);
  wire->set_repetition_penalty(in.repetition_penalty);
  // Only the worker has the model's defaults, so it must know which parameters the request leaves
  // out.
  wire->set_silent(api::SilentParameters(in));
  wire->set_presence_penalty(in.presence_penalty);
  wire->set_frequency_penalty(in.frequency_penalty);
  for (const auto& [token, bias] : in.logit_bias) {
    wire->add_bias_tokens(token);
    wire->add_bias_values(bias);
  }
  Fill(in.allowed_token_ids, wire->mutable_allowed_token_ids());
  Fill(in.banned_token_ids, wire->mutable_banned_token_ids());
  if (in.seed) wire->set_seed(*in.seed);
  if (in.max_tokens) wire->set_max_tokens(*in.max_tokens);
  wire->set_min_tokens(in.min_tokens);
  for (const std::string& stop : in.stop) wire->add_stop(stop);
  Fill(in.stop_token_ids, wire->mutable_stop_token_ids());
  wire->set_ignore_eos(in.ignore_eos);
  wire->set_include_stop_in_output(in.include_stop_in_output);
  wire->set_skip_special_tokens(in.skip_special_tokens);
  wire->set_logprobs(in.logprobs);
  wire->set_prompt_logprobs(in.prompt_logprobs);
}

api::SamplingParams FromWire(const v1::WireSampling& wire) {
  api::SamplingParams out;
  out.temperature = wire.temperature();
  out.top_p = wire.top_p();
  out.top_k = wire.top_k();
  out.min_p = wire.min_p();
  out.repetition_penalty = wire.repetition_penalty();
  api::MarkSilent(wire.silent(), &out);
  out.presence_penalty = wire.presence_penalty();
  out.frequency_penalty = wire.frequency_penalty();
  for (int i = 0; i < std::min(wire.bias_tokens_size(), wire.bias_values_size()); ++i)
    out.logit_bias.emplace_back(wire.bias_tokens(i), wire.bias_values(i));
  out.allowed_token_ids = Values(wire.allowed_token_ids());
  out.banned_token_ids = Values(wire.banned_token_ids());
  if (wire.has_seed()) out.seed = wire.seed();
  if (wire.has_max_tokens()) out.max_tokens = wire.max_tokens();
  out.min_tokens = wire.min_tokens();
  out.stop = {wire.stop().begin(), wire.stop().end()};
  out.stop_token_ids = Values(wire.stop_token_ids());
  out.ignore_eos = wire.ignore_eos();
  out.include_stop_in_output = wire.include_stop_in_output();
  out.skip_special_tokens = wire.skip_special_tokens();
  out.logprobs = wire.logprobs();
  out.prompt_logprobs = wire.prompt_logprobs();
  return out;
}

// Both kinds of requests have these fields.
template <typename Request>
void PlaceToWire(const Request& request, TimePoint now, v1::WirePlace* wire) {
  wire->set_request_id(request.request_id);
  wire->set_model(request.model);
  wire->set_priority(static_cast<int>(request.priority));
  if (request.deadline != TimePoint::max())
    wire->set_deadline(std::max(request.deadline - now, Duration::zero()).count());
  wire->set_tenant(request.tenant);
  wire->set_tenant_weight(request.tenant_weight);
  wire->set_cache_scope(request.cache_scope);
  wire->mutable_cache()->set_no_store(request.cache.no_store);
  wire->mutable_cache()->set_no_cache(request.cache.no_cache);
  if (request.cache.max_age) wire->mutable_cache()->set_max_age(request.cache.max_age->count());
  wire->set_wants_cache_report(request.cache_report != nullptr);
  if (request.keep_alive) wire->set_keep_alive(request.keep_alive->count());
  const TraceContext context =
      request.trace == nullptr ? request.trace_context : request.trace->HopContext();
  if (context.valid()) {
    wire->set_traceparent(TraceParent(context));
    wire->set_tracestate(context.state);
  }
}

template <typename Request>
void PlaceFromWire(const v1::WirePlace& wire, TimePoint now, Request* request) {
  request->request_id = wire.request_id();
  request->model = wire.model();
  request->priority = EnumOf(wire.priority(), api::Priority::kBatch);
  if (wire.has_deadline()) request->deadline = now + Duration(wire.deadline());
  request->tenant = wire.tenant();
  request->tenant_weight = wire.tenant_weight();
  request->cache_scope = wire.cache_scope();
  request->cache.no_store = wire.cache().no_store();
  request->cache.no_cache = wire.cache().no_cache();
  if (wire.cache().has_max_age()) request->cache.max_age = Duration(wire.cache().max_age());
  if (wire.wants_cache_report()) request->cache_report = std::make_shared<api::CacheReport>();
  if (wire.has_keep_alive()) request->keep_alive = Duration(wire.keep_alive());
  request->trace_context = ReadTraceContext(wire.traceparent(), wire.tracestate());
}

void ToWire(const api::Logprob& in, v1::WireLogprob* wire) {
  wire->set_token(in.token);
  wire->set_logprob(in.logprob);
  wire->set_bytes(in.bytes);
  wire->set_special(in.special);
}

api::Logprob FromWire(const v1::WireLogprob& wire) {
  return {wire.token(), wire.logprob(), wire.bytes(), wire.special()};
}

}  // namespace

void ToWire(const Status& status, v1::WireStatus* wire) {
  wire->set_code(static_cast<int>(status.code()));
  wire->set_reason(status.reason());
  wire->set_message(status.message());
  wire->set_param(status.param());
  if (status.retry_after()) wire->set_retry_after_ms(status.retry_after()->count());
  if (status.excess()) {
    wire->set_excess_asked(status.excess()->asked);
    wire->set_excess_most(status.excess()->most);
  }
}

Status FromWire(const v1::WireStatus& wire) {
  const StatusCode code = EnumOf(wire.code(), StatusCode::kUnauthenticated);
  if (code == StatusCode::kOk) return OkStatus();
  Status status(code, wire.reason(), wire.message());
  // Each changes it where it is.
  if (!wire.param().empty()) (void)std::move(status).WithParam(wire.param());
  if (wire.has_retry_after_ms())
    (void)std::move(status).WithRetryAfter(std::chrono::milliseconds(wire.retry_after_ms()));
  if (wire.has_excess_asked())
    (void)std::move(status).WithExcess(wire.excess_asked(), wire.excess_most());
  return status;
}

void ToWire(const api::GenerateRequest& request, TimePoint now, v1::WireGenerate* wire) {
  PlaceToWire(request, now, wire->mutable_place());
  ToWire(request.prompt, wire->mutable_prompt());
  ToWire(request.sampling, wire->mutable_sampling());
  wire->set_n(request.n);
  wire->set_detached(request.detached);
  wire->set_cache_salt(request.cache_salt);
  wire->set_use_prefix_cache(request.use_prefix_cache);
  wire->set_explain_prefix(request.explain_prefix);
  if (request.truncate_prompt_tokens)
    wire->set_truncate_prompt_tokens(*request.truncate_prompt_tokens);
  wire->set_call_bytes(request.call_bytes);
  wire->set_score_only(request.score_only);
  wire->set_prediction(request.prediction);
  if (request.continuation) {
    v1::WireContinuation* continuation = wire->mutable_continuation();
    continuation->set_text(request.continuation->text);
    for (const std::string& other : request.continuation->others) continuation->add_others(other);
    continuation->set_covered(request.continuation->covered);
    const api::Continuation::Classes& classes = request.continuation->classes;
    continuation->set_text_bytes(classes.text_bytes);
    continuation->set_yes_or_no(classes.yes_or_no);
    for (const std::string& name : classes.names) continuation->add_class_names(name);
  }
  if (request.max_reasoning_tokens) wire->set_max_reasoning_tokens(*request.max_reasoning_tokens);
  if (request.constraint) {
    v1::WireConstraint* constraint = wire->mutable_constraint();
    constraint->set_kind(static_cast<int>(request.constraint->kind));
    constraint->set_text(request.constraint->text);
    for (const std::string& choice : request.constraint->choices) constraint->add_choices(choice);
    constraint->set_param(request.constraint->param);
  }
}

api::GenerateRequest FromWire(const v1::WireGenerate& wire, TimePoint now) {
  api::GenerateRequest request;
  PlaceFromWire(wire.place(), now, &request);
  request.prompt = FromWire(wire.prompt());
  request.sampling = FromWire(wire.sampling());
  request.n = wire.n();
  request.detached = wire.detached();
  request.cache_salt = wire.cache_salt();
  request.use_prefix_cache = wire.use_prefix_cache();
  request.explain_prefix = wire.explain_prefix();
  if (wire.has_truncate_prompt_tokens())
    request.truncate_prompt_tokens = wire.truncate_prompt_tokens();
  request.call_bytes = wire.call_bytes();
  request.score_only = wire.score_only();
  request.prediction = wire.prediction();
  if (wire.has_continuation()) {
    const v1::WireContinuation& from = wire.continuation();
    request.continuation = api::Continuation{
        .text = from.text(),
        .others = {from.others().begin(), from.others().end()},
        .covered = from.covered(),
        .classes = {.text_bytes = from.text_bytes(),
                    .yes_or_no = from.yes_or_no(),
                    .names = {from.class_names().begin(), from.class_names().end()}}};
  }
  if (wire.has_max_reasoning_tokens()) request.max_reasoning_tokens = wire.max_reasoning_tokens();
  if (wire.has_constraint()) {
    const v1::WireConstraint& from = wire.constraint();
    request.constraint = api::Constraint{.kind = static_cast<api::Constraint::Kind>(from.kind()),
                                         .text = from.text(),
                                         .choices = {from.choices().begin(), from.choices().end()},
                                         .param = from.param()};
  }
  return request;
}

void ToWire(const api::EncodeRequest& request, TimePoint now, v1::WireEncode* wire) {
  PlaceToWire(request, now, wire->mutable_place());
  for (const api::EncodeInput& input : request.inputs) {
    v1::WireEncodeInput* one = wire->add_inputs();
    if (const auto* text = std::get_if<std::string>(&input)) {
      one->set_text(*text);
    } else if (const auto* tokens = std::get_if<std::vector<TokenId>>(&input)) {
      Fill(*tokens, one->mutable_tokens()->mutable_tokens());
    } else {
      const auto& pair = std::get<api::TextPair>(input);
      one->mutable_pair()->set_first(pair.first);
      one->mutable_pair()->set_second(pair.second);
    }
  }
  wire->set_output(static_cast<int>(request.output));
  if (request.normalize) wire->set_normalize(*request.normalize);
  if (request.dimensions) wire->set_dimensions(*request.dimensions);
  if (request.prompt_name) wire->set_prompt_name(*request.prompt_name);
  wire->set_raw_scores(request.raw_scores);
  wire->set_truncation(static_cast<int>(request.truncation));
  if (request.truncate_tokens) wire->set_truncate_tokens(*request.truncate_tokens);
  if (request.total_tokens) wire->set_total_tokens(*request.total_tokens);
}

api::EncodeRequest FromWire(const v1::WireEncode& wire, TimePoint now) {
  api::EncodeRequest request;
  PlaceFromWire(wire.place(), now, &request);
  for (const v1::WireEncodeInput& input : wire.inputs()) {
    if (input.has_pair()) {
      request.inputs.emplace_back(api::TextPair{input.pair().first(), input.pair().second()});
    } else if (input.has_tokens()) {
      request.inputs.emplace_back(Values(input.tokens().tokens()));
    } else {
      request.inputs.emplace_back(input.text());
    }
  }
  request.output = EnumOf(wire.output(), api::EncodeOutput::kScores);
  if (wire.has_normalize()) request.normalize = wire.normalize();
  if (wire.has_dimensions()) request.dimensions = wire.dimensions();
  if (wire.has_prompt_name()) request.prompt_name = wire.prompt_name();
  request.raw_scores = wire.raw_scores();
  request.truncation = EnumOf(wire.truncation(), api::Truncation::kLeft);
  if (wire.has_truncate_tokens()) request.truncate_tokens = wire.truncate_tokens();
  if (wire.has_total_tokens()) request.total_tokens = wire.total_tokens();
  return request;
}

void ToWire(const api::TokenizeRequest& request, v1::WireTokenize* wire) {
  wire->set_model(request.model);
  ToWire(request.prompt, wire->mutable_prompt());
  wire->set_pieces(request.pieces);
}

api::TokenizeRequest FromWire(const v1::WireTokenize& wire) {
  return {.model = wire.model(), .prompt = FromWire(wire.prompt()), .pieces = wire.pieces()};
}

void ToWire(const api::DetokenizeRequest& request, v1::WireDetokenize* wire) {
  wire->set_model(request.model);
  Fill(request.tokens, wire->mutable_tokens());
  wire->set_skip_special(request.skip_special);
}

api::DetokenizeRequest FromWire(const v1::WireDetokenize& wire) {
  return {
      .model = wire.model(), .tokens = Values(wire.tokens()), .skip_special = wire.skip_special()};
}

void ToWire(const api::StreamEvent& event, v1::WireEvent* wire) {
  wire->set_kind(static_cast<int>(event.kind));
  wire->set_choice(event.choice);
  wire->set_token(event.token);
  wire->set_text(event.text);
  wire->set_reasoning(event.reasoning);
  for (const api::ToolCallDelta& delta : event.tool_calls) {
    v1::WireToolCall* one = wire->add_tool_calls();
    one->set_index(delta.index);
    one->set_id(delta.id);
    one->set_name(delta.name);
    one->set_arguments(delta.arguments);
  }
  if (event.logprobs) {
    ToWire(event.logprobs->chosen, wire->mutable_logprobs()->mutable_chosen());
    for (const api::Logprob& top : event.logprobs->top)
      ToWire(top, wire->mutable_logprobs()->add_top());
  }
  wire->set_finish_reason(static_cast<int>(event.finish_reason));
  if (const auto* token = std::get_if<TokenId>(&event.stop_reason)) wire->set_stop_token(*token);
  if (const auto* text = std::get_if<std::string>(&event.stop_reason)) wire->set_stop_string(*text);
  if (event.kind != api::StreamEvent::Kind::kStarted && event.kind != api::StreamEvent::Kind::kEnd)
    return;
  v1::WireUsage* usage = wire->mutable_usage();
  usage->set_prompt_tokens(event.usage.prompt_tokens);
  usage->set_cached_tokens(event.usage.cached_tokens);
  usage->set_completion_tokens(event.usage.completion_tokens);
  usage->set_reasoning_tokens(event.usage.reasoning_tokens);
  usage->set_cached_response(event.usage.cached_response);
  usage->set_accepted_prediction_tokens(event.usage.accepted_prediction_tokens);
  usage->set_rejected_prediction_tokens(event.usage.rejected_prediction_tokens);
  if (const api::PrefixReport* report = event.usage.prefix.get()) {
    v1::WirePrefixReport* out = usage->mutable_prefix();
    out->set_memory_tokens(report->memory_tokens);
    out->set_disk_tokens(report->disk_tokens);
    out->set_cause(static_cast<int>(report->cause));
    out->set_first_difference(report->first_difference);
    out->set_text(report->text);
  }
  v1::WireTimings* timings = wire->mutable_timings();
  timings->set_prepare(event.timings.prepare.count());
  timings->set_queue(event.timings.queue.count());
  timings->set_prefill(event.timings.prefill.count());
  timings->set_decode(event.timings.decode.count());
}

api::StreamEvent FromWire(const v1::WireEvent& wire) {
  api::StreamEvent event;
  event.kind = EnumOf(wire.kind(), api::StreamEvent::Kind::kEnd);
  event.choice = wire.choice();
  event.token = wire.token();
  event.text = wire.text();
  event.reasoning = wire.reasoning();
  for (const v1::WireToolCall& delta : wire.tool_calls())
    event.tool_calls.push_back({delta.index(), delta.id(), delta.name(), delta.arguments()});
  if (wire.has_logprobs()) {
    event.logprobs.emplace();
    event.logprobs->chosen = FromWire(wire.logprobs().chosen());
    for (const v1::WireLogprob& top : wire.logprobs().top())
      event.logprobs->top.push_back(FromWire(top));
  }
  event.finish_reason = EnumOf(wire.finish_reason(), api::FinishReason::kToolCalls);
  if (wire.has_stop_token()) event.stop_reason = wire.stop_token();
  if (wire.has_stop_string()) event.stop_reason = wire.stop_string();
  event.usage = {wire.usage().prompt_tokens(),
                 wire.usage().cached_tokens(),
                 wire.usage().completion_tokens(),
                 wire.usage().cached_response(),
                 wire.usage().accepted_prediction_tokens(),
                 wire.usage().rejected_prediction_tokens(),
                 wire.usage().reasoning_tokens()};
  if (wire.usage().has_prefix()) {
    const v1::WirePrefixReport& from = wire.usage().prefix();
    event.usage.prefix = std::make_shared<api::PrefixReport>(
        api::PrefixReport{.memory_tokens = from.memory_tokens(),
                          .disk_tokens = from.disk_tokens(),
                          .cause = EnumOf(from.cause(), api::PrefixReport::Cause::kNeverSeen),
                          .first_difference = from.first_difference(),
                          .text = from.text()});
  }
  event.timings = {Duration(wire.timings().prepare()), Duration(wire.timings().queue()),
                   Duration(wire.timings().prefill()), Duration(wire.timings().decode())};
  return event;
}

void ToWire(const api::EncodeResult& result, v1::WireEncodeResult* wire) {
  wire->set_width(result.width);
  Fill(result.values, wire->mutable_values());
  Fill(result.rows, wire->mutable_rows());
  Fill(result.tokens, wire->mutable_tokens());
  wire->mutable_timings()->set_prepare(result.timings.prepare.count());
  wire->mutable_timings()->set_queue(result.timings.queue.count());
  wire->mutable_timings()->set_prefill(result.timings.inference.count());
}

api::EncodeResult FromWire(const v1::WireEncodeResult& wire) {
  api::EncodeResult result;
  result.width = wire.width();
  result.values = Values(wire.values());
  result.rows = Values(wire.rows());
  result.tokens = Values(wire.tokens());
  result.timings = {Duration(wire.timings().prepare()), Duration(wire.timings().queue()),
                    Duration(wire.timings().prefill())};
  return result;
}

void ToWire(const api::TokenizeResult& result, v1::TokenizeReply* wire) {
  Fill(result.tokens, wire->mutable_tokens());
  for (const std::string& piece : result.pieces) wire->add_pieces(piece);
  for (const bool special : result.special) wire->add_special(special);
  wire->set_text(result.text);
  wire->set_max_model_len(result.max_model_len);
}

api::TokenizeResult FromWire(const v1::TokenizeReply& wire) {
  api::TokenizeResult result;
  result.tokens = Values(wire.tokens());
  result.pieces = {wire.pieces().begin(), wire.pieces().end()};
  result.special = {wire.special().begin(), wire.special().end()};
  result.text = wire.text();
  result.max_model_len = wire.max_model_len();
  return result;
}

void ToWire(const api::ModelInfo& model, v1::WireModel* wire) {
  wire->set_id(model.id);
  for (const std::string& alias : model.aliases) wire->add_aliases(alias);
  wire->set_created_unix_s(model.created_unix_s);
  wire->set_max_model_len(model.max_model_len);
  wire->set_vocab_size(model.vocab_size);
  wire->set_architecture(model.architecture);
  wire->set_quantisation(model.quantisation);
  wire->set_digest(model.digest);
  wire->set_generates(model.generates);
  wire->set_tool_format(model.tool_format);
  wire->set_fills_middle(model.fills_middle);
  wire->set_parent(model.parent);
  ToWire(model.status, wire->mutable_status());
  v1::WireModelFiles* const files = wire->mutable_files();
  files->set_format(model.files.format);
  files->set_type(model.files.type);
  files->set_bytes(model.files.bytes);
  files->set_parameters(model.files.parameters);
  files->set_modified_unix_s(model.files.modified_unix_s);
  wire->set_decision_temperature(model.decision_temperature);
  if (model.tokenizer != nullptr) {
    v1::WireTokenizerInfo* const tokenizer = wire->mutable_tokenizer();
    tokenizer->set_bos(model.tokenizer->bos);
    tokenizer->set_eos(model.tokenizer->eos);
    tokenizer->set_unk(model.tokenizer->unk);
    tokenizer->set_pad(model.tokenizer->pad);
    tokenizer->set_add_bos(model.tokenizer->add_bos);
    tokenizer->set_add_eos(model.tokenizer->add_eos);
    tokenizer->set_chat_template(model.tokenizer->chat_template);
  }
  const api::SamplingDefaults& sampling = model.sampling;
  if (sampling.temperature) wire->mutable_sampling()->set_temperature(*sampling.temperature);
  if (sampling.top_p) wire->mutable_sampling()->set_top_p(*sampling.top_p);
  if (sampling.top_k) wire->mutable_sampling()->set_top_k(*sampling.top_k);
  if (sampling.min_p) wire->mutable_sampling()->set_min_p(*sampling.min_p);
  if (sampling.repetition_penalty)
    wire->mutable_sampling()->set_repetition_penalty(*sampling.repetition_penalty);
  if (!sampling.source.empty()) wire->mutable_sampling()->set_source(sampling.source);
  if (!model.encoder) return;
  v1::WireEncoderInfo* encoder = wire->mutable_encoder();
  encoder->set_width(model.encoder->width);
  encoder->set_token_width(model.encoder->token_width);
  encoder->set_sparse(model.encoder->sparse);
  encoder->set_cuts(model.encoder->cuts);
  encoder->set_pairs(model.encoder->pairs);
  encoder->set_pooling(model.encoder->pooling);
  for (const std::string& label : model.encoder->labels) encoder->add_labels(label);
  for (const std::string& prompt : model.encoder->prompts) encoder->add_prompts(prompt);
  encoder->set_batch_items(model.encoder->batch_items);
  encoder->set_batch_tokens(model.encoder->batch_tokens);
  encoder->set_batch_window(model.encoder->batch_window.count());
}

api::ModelInfo FromWire(const v1::WireModel& wire) {
  api::ModelInfo model;
  model.id = wire.id();
  model.aliases = {wire.aliases().begin(), wire.aliases().end()};
  model.created_unix_s = wire.created_unix_s();
  model.max_model_len = wire.max_model_len();
  model.vocab_size = wire.vocab_size();
  model.architecture = wire.architecture();
  model.quantisation = wire.quantisation();
  model.digest = wire.digest();
  model.generates = wire.generates();
  model.tool_format = wire.tool_format();
  model.fills_middle = wire.fills_middle();
  model.parent = wire.parent();
  if (wire.has_status()) model.status = FromWire(wire.status());
  model.files = {.format = wire.files().format(),
                 .type = wire.files().type(),
                 .bytes = wire.files().bytes(),
                 .parameters = wire.files().parameters(),
                 .modified_unix_s = wire.files().modified_unix_s()};
  const double temperature = wire.decision_temperature();
  model.decision_temperature = std::isfinite(temperature) ? std::max(temperature, 0.0) : 0;
  if (wire.has_tokenizer()) {
    const v1::WireTokenizerInfo& tokenizer = wire.tokenizer();
    api::TokenizerInfo info;
    info.bos = tokenizer.bos();
    info.eos = tokenizer.eos();
    info.unk = tokenizer.unk();
    info.pad = tokenizer.pad();
    info.add_bos = tokenizer.add_bos();
    info.add_eos = tokenizer.add_eos();
    info.chat_template = tokenizer.chat_template();
    model.tokenizer = std::make_shared<const api::TokenizerInfo>(std::move(info));
  }
  const v1::WireSamplingDefaults& sampling = wire.sampling();
  if (sampling.has_temperature()) model.sampling.temperature = sampling.temperature();
  if (sampling.has_top_p()) model.sampling.top_p = sampling.top_p();
  if (sampling.has_top_k()) model.sampling.top_k = sampling.top_k();
  if (sampling.has_min_p()) model.sampling.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty())
    model.sampling.repetition_penalty = sampling.repetition_penalty();
  model.sampling.source = sampling.source();
  if (!wire.has_encoder()) return model;
  const v1::WireEncoderInfo& in = wire.encoder();
  model.encoder = api::EncoderInfo{.width = in.width(),
                                   .token_width = in.token_width(),
                                   .sparse = in.sparse(),
                                   .cuts = in.cuts(),
                                   .pairs = in.pairs(),
                                   .pooling = in.pooling(),
                                   .labels = {in.labels().begin(), in.labels().end()},
                                   .prompts = {in.prompts().begin(), in.prompts().end()},
                                   .batch_items = in.batch_items(),
                                   .batch_tokens = in.batch_tokens(),
                                   .batch_window = Duration(in.batch_window())};
  return model;
}

void ToWire(const api::ModelStatus& status, v1::WireModelStatus* wire) {
  wire->set_state(static_cast<int>(status.state));
  wire->set_pinned(status.pinned);
  wire->set_memory_bytes(status.memory_bytes);
  wire->set_expires_unix_s(status.expires_unix_s);
  wire->set_failure(status.failure);
}

api::ModelStatus FromWire(const v1::WireModelStatus& wire) {
  return {.state = EnumOf(wire.state(), api::ModelState::kFailed),
          .pinned = wire.pinned(),
          .memory_bytes = std::max<int64_t>(wire.memory_bytes(), 0),
          .expires_unix_s = wire.expires_unix_s(),
          .failure = wire.failure()};
}

void ToWire(const api::LoadSnapshot& load, v1::Beat* wire) {
  wire->set_running(load.running);
  wire->set_waiting(load.waiting);
  wire->set_max_num_seqs(load.max_num_seqs);
  wire->set_kv_blocks_used(load.kv_blocks_used);
  wire->set_kv_blocks_total(load.kv_blocks_total);
  wire->set_level(static_cast<int>(load.level));
}

api::LoadSnapshot FromWire(const v1::Beat& wire) {
  return {.running = wire.running(),
          .waiting = wire.waiting(),
          .max_num_seqs = wire.max_num_seqs(),
          .kv_blocks_used = wire.kv_blocks_used(),
          .kv_blocks_total = wire.kv_blocks_total(),
          .level = EnumOf(wire.level(), api::LoadLevel::kRed)};
}

}  // namespace tutti::cluster
