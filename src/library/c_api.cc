// The C interface of generating, over the public C++ one: translation of values.
#include "tutti/c_api.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "library/c_handles.h"

namespace {

using tutti::Error;
using tutti::ErrorCode;
using tutti::library::CodeOf, tutti::library::Fail, tutti::library::Guarded, tutti::library::Null;

// One list of codes behind both: CodeOf casts.
constexpr std::pair<tutti_code, ErrorCode> kCodes[] = {
    {TUTTI_OK, ErrorCode::kOk},
    {TUTTI_CANCELLED, ErrorCode::kCancelled},
    {TUTTI_UNKNOWN, ErrorCode::kUnknown},
    {TUTTI_INVALID_ARGUMENT, ErrorCode::kInvalidArgument},
    {TUTTI_DEADLINE_EXCEEDED, ErrorCode::kDeadlineExceeded},
    {TUTTI_NOT_FOUND, ErrorCode::kNotFound},
    {TUTTI_ALREADY_EXISTS, ErrorCode::kAlreadyExists},
    {TUTTI_PERMISSION_DENIED, ErrorCode::kPermissionDenied},
    {TUTTI_RESOURCE_EXHAUSTED, ErrorCode::kResourceExhausted},
    {TUTTI_FAILED_PRECONDITION, ErrorCode::kFailedPrecondition},
    {TUTTI_ABORTED, ErrorCode::kAborted},
    {TUTTI_OUT_OF_RANGE, ErrorCode::kOutOfRange},
    {TUTTI_UNIMPLEMENTED, ErrorCode::kUnimplemented},
    {TUTTI_INTERNAL, ErrorCode::kInternal},
    {TUTTI_UNAVAILABLE, ErrorCode::kUnavailable},
    {TUTTI_DATA_LOSS, ErrorCode::kDataLoss},
    {TUTTI_UNAUTHENTICATED, ErrorCode::kUnauthenticated}};
constexpr bool CodesAgree() {
  for (const auto& [c, cpp] : kCodes) {
    if (static_cast<int>(c) != static_cast<int>(cpp)) return false;
  }
  return true;
}
static_assert(CodesAgree());

tutti_token View(const tutti::Token& token) {
  return {.id = token.id,
          .choice = token.choice,
          .text = token.text.c_str(),
          .text_bytes = token.text.size(),
          .logprob = token.logprobs ? token.logprobs->chosen.logprob
                                    : std::numeric_limits<float>::quiet_NaN(),
          .reasoning = token.reasoning.c_str(),
          .reasoning_bytes = token.reasoning.size()};
}

tutti_code Deliver(tutti::Expected<tutti::Completion> result, tutti_completion** completion,
                   tutti_error** error) {
  if (!result.ok()) return Fail(result.error(), error);
  *completion = new tutti_completion{std::move(*result)};
  return TUTTI_OK;
}

// The number as an int, if it is one.
bool ToInt(double value, int* out) {
  if (!(value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max()))
    return false;
  *out = static_cast<int>(value);
  return *out == value;
}

// The conversation of a request, begun if it has another prompt.
tutti::Chat& ChatOf(tutti_request& request) {
  tutti::Prompt& prompt = request.request.prompt;
  if (!std::holds_alternative<tutti::Chat>(prompt)) prompt = tutti::Chat{};
  return std::get<tutti::Chat>(prompt);
}

// What ends a load whose progress function says so.
struct Stopped {};

// Freed by tutti_string_free.
char* Copy(const std::string& text) {
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

// Sets a parameter that is a flag. False: there is none of that name.
bool SetFlag(tutti::Request& request, std::string_view name, bool value) {
  tutti::SamplingParams& s = request.sampling;
  const std::pair<std::string_view, bool*> flags[] = {
      {"ignore_eos", &s.ignore_eos},
      {"skip_special_tokens", &s.skip_special_tokens},
      {"include_stop_in_output", &s.include_stop_in_output},
      {"use_prefix_cache", &request.use_prefix_cache}};
  for (const auto& [key, field] : flags) {
    if (name != key) continue;
    *field = value;
    return true;
  }
  auto* const chat = std::get_if<tutti::Chat>(&request.prompt);
  if (chat == nullptr) return false;
  if (name == "add_generation_prompt") {
    chat->add_generation_prompt = value;
  } else if (name == "continue_final_message") {
    chat->continue_final_message = value;
  } else {
    return false;
  }
  return true;
}

tutti_code SetByName(tutti::Request& request, std::string_view name, double value) {
  tutti::SamplingParams& s = request.sampling;
  const std::pair<std::string_view, double*> reals[] = {
      {"temperature", &s.temperature},
      {"top_p", &s.top_p},
      {"min_p", &s.min_p},
      {"repetition_penalty", &s.repetition_penalty},
      {"presence_penalty", &s.presence_penalty},
      {"frequency_penalty", &s.frequency_penalty}};
  for (const auto& [key, field] : reals) {
    if (name != key) continue;
    *field = value;
    return TUTTI_OK;
  }
  int number = 0;
  if (!ToInt(value, &number)) return TUTTI_INVALID_ARGUMENT;
  const std::pair<std::string_view, int*> integers[] = {{"top_k", &s.top_k},
                                                        {"min_tokens", &s.min_tokens},
                                                        {"logprobs", &s.logprobs},
                                                        {"prompt_logprobs", &s.prompt_logprobs},
                                                        {"n", &request.n}};
  for (const auto& [key, field] : integers) {
    if (name != key) continue;
    *field = number;
    return TUTTI_OK;
  }
  if (SetFlag(request, name, number != 0)) return TUTTI_OK;
  if (name == "seed") {
    s.seed = number;
  } else if (name == "max_tokens") {
    s.max_tokens = number;
  } else if (name == "truncate_prompt_tokens") {
    request.truncate_prompt_tokens = number;
  } else if (name == "timeout_ms") {
    request.timeout = std::chrono::milliseconds(number);
  } else if (name == "max_reasoning_tokens") {
    request.max_reasoning_tokens = number;
  } else {
    return TUTTI_INVALID_ARGUMENT;
  }
  return TUTTI_OK;
}

}  // namespace

const char* tutti_version(void) { return tutti::Version(); }

tutti_code tutti_error_code(const tutti_error* error) {
  return error == nullptr ? TUTTI_OK : CodeOf(error->error);
}
const char* tutti_error_reason(const tutti_error* error) {
  return error == nullptr ? "" : error->error.reason().c_str();
}
const char* tutti_error_message(const tutti_error* error) {
  return error == nullptr ? "" : error->error.message().c_str();
}
const char* tutti_error_param(const tutti_error* error) {
  return error == nullptr ? "" : error->error.param().c_str();
}
void tutti_error_free(tutti_error* error) { delete error; }

tutti_options* tutti_options_new(const char* model) {
  tutti_options* options = nullptr;
  Guarded([&] { options = new tutti_options{tutti::ModelOptions(model == nullptr ? "" : model)}; });
  return options;
}

tutti_code tutti_options_set(tutti_options* options, const char* name, const char* value) {
  if (options == nullptr || name == nullptr || value == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { options->options.Set(name, value); });
}
tutti_code tutti_options_progress(tutti_options* options,
                                  int (*progress)(void* user, size_t done, size_t total),
                                  void* user) {
  if (options == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] {
    if (progress == nullptr) {
      options->options.OnProgress(nullptr);
      return;
    }
    options->options.OnProgress([progress, user](size_t done, size_t total) {
      if (progress(user, done, total) != 0) throw Stopped();
    });
  });
}
void tutti_options_free(tutti_options* options) { delete options; }

tutti_code tutti_model_load(const tutti_options* options, tutti_model** model,
                            tutti_error** error) {
  return Guarded(error, [&] {
    if (options == nullptr || model == nullptr) return Null("options and model", error);
    tutti::Expected<tutti::Model> loaded = tutti::Model::Load(options->options);
    if (!loaded.ok()) return Fail(loaded.error(), error);
    *model = new tutti_model{*loaded, loaded->info().name};
    return TUTTI_OK;
  });
}
void tutti_model_free(tutti_model* model) { delete model; }
int tutti_model_context(const tutti_model* model) {
  return model == nullptr ? 0 : model->model.info().context;
}
int tutti_model_vocabulary(const tutti_model* model) {
  return model == nullptr ? 0 : model->model.info().vocabulary;
}

const char* tutti_model_name(const tutti_model* model) {
  return model == nullptr ? "" : model->name.c_str();
}

tutti_code tutti_tokenize(const tutti_model* model, const char* text, int32_t* ids, size_t capacity,
                          size_t* count, tutti_error** error) {
  return Guarded(error, [&] {
    if (model == nullptr || text == nullptr || count == nullptr)
      return Null("model, text and count", error);
    const auto tokens = model->model.Tokenize(tutti::Text{.text = text});
    if (!tokens.ok()) return Fail(tokens.error(), error);
    *count = tokens->size();
    const size_t copied = ids == nullptr ? 0 : std::min(capacity, tokens->size());
    if (copied > 0) std::memcpy(ids, tokens->data(), copied * sizeof(int32_t));
    return TUTTI_OK;
  });
}

tutti_code tutti_detokenize(const tutti_model* model, const int32_t* ids, size_t count, char** text,
                            tutti_error** error) {
  return Guarded(error, [&] {
    if (model == nullptr || (ids == nullptr && count > 0) || text == nullptr) {
      return Null("model, ids and text", error);
    }
    const auto decoded = model->model.Detokenize(std::vector<int32_t>(ids, ids + count));
    if (!decoded.ok()) return Fail(decoded.error(), error);
    *text = Copy(*decoded);
    return TUTTI_OK;
  });
}

tutti_code tutti_render(const tutti_model* model, const tutti_request* request, char** text,
                        tutti_error** error) {
  return Guarded(error, [&] {
    if (model == nullptr || request == nullptr || text == nullptr)
      return Null("model, request and text", error);
    const auto* chat = std::get_if<tutti::Chat>(&request->request.prompt);
    if (chat == nullptr) {
      return Fail(Error(ErrorCode::kInvalidArgument, "invalid_value", "the request has no chat"),
                  error);
    }
    const auto rendered = model->model.Render(*chat);
    if (!rendered.ok()) return Fail(rendered.error(), error);
    *text = Copy(*rendered);
    return TUTTI_OK;
  });
}
void tutti_string_free(char* text) { delete[] text; }

tutti_request* tutti_request_new(void) { return new (std::nothrow) tutti_request{}; }
void tutti_request_free(tutti_request* request) { delete request; }

tutti_code tutti_request_text(tutti_request* request, const char* text) {
  if (request == nullptr || text == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { request->request.prompt = tutti::Text{.text = text}; });
}

tutti_code tutti_request_sized_text(tutti_request* request, tutti_text text) {
  if (request == nullptr || !tutti::library::IsText(text)) return TUTTI_INVALID_ARGUMENT;
  return Guarded(
      [&] { request->request.prompt = tutti::Text{.text = tutti::library::TextOf(text)}; });
}

tutti_code tutti_request_tokens(tutti_request* request, const int32_t* ids, size_t count) {
  if (request == nullptr || (ids == nullptr && count > 0)) return TUTTI_INVALID_ARGUMENT;
  return Guarded(
      [&] { request->request.prompt = tutti::Tokens{std::vector<int32_t>(ids, ids + count)}; });
}

tutti_code tutti_request_message(tutti_request* request, tutti_role role, const char* content) {
  if (content == nullptr) return TUTTI_INVALID_ARGUMENT;
  return tutti_request_sized_message(request, role, {content, std::strlen(content)});
}

tutti_code tutti_request_sized_message(tutti_request* request, tutti_role role,
                                       tutti_text content) {
  if (request == nullptr || !tutti::library::IsText(content) || role < TUTTI_SYSTEM ||
      role > TUTTI_ASSISTANT) {
    return TUTTI_INVALID_ARGUMENT;
  }
  return Guarded([&] {
    constexpr tutti::Role kRoles[] = {tutti::Role::kSystem, tutti::Role::kUser,
                                      tutti::Role::kAssistant};
    ChatOf(*request).messages.push_back({kRoles[role], tutti::library::TextOf(content)});
  });
}

tutti_code tutti_request_tool(tutti_request* request, const char* name, const char* description,
                              const char* parameters, int strict) {
  if (request == nullptr || name == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] {
    ChatOf(*request).tools.push_back({.name = name,
                                      .description = description == nullptr ? "" : description,
                                      .parameters = parameters == nullptr ? "" : parameters,
                                      .strict = strict != 0});
  });
}

tutti_code tutti_request_tool_choice(tutti_request* request, tutti_tool_choice choice,
                                     const char* name, int parallel) {
  if (request == nullptr || choice < TUTTI_TOOLS_AUTO || choice > TUTTI_TOOLS_NAMED ||
      (choice == TUTTI_TOOLS_NAMED && name == nullptr)) {
    return TUTTI_INVALID_ARGUMENT;
  }
  return Guarded([&] {
    using Kind = tutti::ToolChoice::Kind;
    constexpr Kind kKinds[] = {Kind::kAuto, Kind::kNone, Kind::kRequired, Kind::kNamed};
    tutti::Chat& chat = ChatOf(*request);
    chat.tool_choice = {kKinds[choice], name == nullptr ? "" : name};
    chat.parallel_tool_calls = parallel != 0;
  });
}

tutti_code tutti_request_tool_call(tutti_request* request, const char* id, const char* name,
                                   const char* arguments) {
  if (request == nullptr || id == nullptr || name == nullptr || arguments == nullptr)
    return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] {
    std::vector<tutti::Message>& messages = ChatOf(*request).messages;
    if (messages.empty() || messages.back().role != tutti::Role::kAssistant)
      messages.push_back({tutti::Role::kAssistant, ""});
    messages.back().tool_calls.push_back({id, name, arguments});
  });
}

tutti_code tutti_request_reasoning(tutti_request* request, const char* text) {
  if (request == nullptr || text == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded(nullptr, [&] {
    std::vector<tutti::Message>& messages = ChatOf(*request).messages;
    if (messages.empty() || messages.back().role != tutti::Role::kAssistant)
      return TUTTI_INVALID_ARGUMENT;
    messages.back().reasoning = text;
    return TUTTI_OK;
  });
}

tutti_code tutti_request_template_arguments(tutti_request* request, const char* json) {
  if (request == nullptr || json == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { ChatOf(*request).template_arguments = json; });
}

tutti_code tutti_request_tool_result(tutti_request* request, const char* id, const char* content) {
  if (request == nullptr || id == nullptr || content == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] {
    ChatOf(*request).messages.push_back(
        {.role = tutti::Role::kTool, .content = content, .tool_call_id = id});
  });
}

tutti_code tutti_request_constrain(tutti_request* request, tutti_constraint kind,
                                   const char* text) {
  if (request == nullptr || kind < TUTTI_JSON_OBJECT || kind > TUTTI_STRUCTURAL_TAG ||
      (text == nullptr && kind != TUTTI_JSON_OBJECT)) {
    return TUTTI_INVALID_ARGUMENT;
  }
  return Guarded([&] {
    using Kind = tutti::Constraint::Kind;
    constexpr Kind kKinds[] = {Kind::kJsonObject, Kind::kJsonSchema, Kind::kRegex,
                               Kind::kChoice,     Kind::kGrammar,    Kind::kStructuralTag};
    std::optional<tutti::Constraint>& constraint = request->request.constraint;
    if (kind != TUTTI_CHOICE) {
      constraint = tutti::Constraint{kKinds[kind], text == nullptr ? "" : text};
      return;
    }
    if (!constraint.has_value() || constraint->kind != Kind::kChoice)
      constraint = tutti::Constraint{Kind::kChoice};
    constraint->choices.emplace_back(text);
  });
}

tutti_code tutti_request_set(tutti_request* request, const char* name, double value) {
  if (request == nullptr || name == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded(nullptr, [&] { return SetByName(request->request, name, value); });
}

tutti_code tutti_request_seed(tutti_request* request, int64_t seed) {
  if (request == nullptr) return TUTTI_INVALID_ARGUMENT;
  request->request.sampling.seed = seed;
  return TUTTI_OK;
}

tutti_code tutti_request_stop(tutti_request* request, const char* text) {
  if (request == nullptr || text == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { request->request.sampling.stop.emplace_back(text); });
}

tutti_code tutti_request_stop_token(tutti_request* request, int32_t id) {
  if (request == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { request->request.sampling.stop_token_ids.push_back(id); });
}

tutti_code tutti_request_logit_bias(tutti_request* request, int32_t id, float bias) {
  if (request == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { request->request.sampling.logit_bias.emplace_back(id, bias); });
}

tutti_code tutti_request_allow_token(tutti_request* request, int32_t id) {
  if (request == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { request->request.sampling.allowed_token_ids.push_back(id); });
}

tutti_code tutti_request_ban_token(tutti_request* request, int32_t id) {
  if (request == nullptr) return TUTTI_INVALID_ARGUMENT;
  return Guarded([&] { request->request.sampling.banned_token_ids.push_back(id); });
}

tutti_code tutti_generate(const tutti_model* model, const tutti_request* request,
                          tutti_handler handler, void* user, tutti_completion** completion,
                          tutti_error** error) {
  return Guarded(error, [&] {
    if (model == nullptr || request == nullptr || completion == nullptr) {
      return Null("model, request and completion", error);
    }
    if (handler == nullptr)
      return Deliver(model->model.Generate(request->request), completion, error);
    const tutti::TokenHandler call([&](const tutti::Token& token) -> tutti::TokenHandler::Verdict {
      const tutti_token view = View(token);
      const tutti_code code = handler(user, &view);
      if (code == TUTTI_OK || code == TUTTI_CANCELLED) return {.go_on = code == TUTTI_OK};
      return {
          .go_on = false,
          .error = Error(static_cast<ErrorCode>(code), "handler_failed",
                         "the token handler returned " + std::to_string(static_cast<int>(code)))};
    });
    return Deliver(model->model.Generate(request->request, call), completion, error);
  });
}

tutti_code tutti_submit(const tutti_model* model, const tutti_request* request, tutti_job** job,
                        tutti_error** error) {
  return Guarded(error, [&] {
    if (model == nullptr || request == nullptr || job == nullptr)
      return Null("model, request and job", error);
    tutti::Expected<tutti::Job> started = model->model.Submit(request->request);
    if (!started.ok()) return Fail(started.error(), error);
    *job = new tutti_job{std::move(*started), {}};
    return TUTTI_OK;
  });
}

int tutti_job_next(tutti_job* job, tutti_token* token) {
  if (job == nullptr || token == nullptr) return 0;
  int got = 0;
  Guarded([&] {
    std::optional<tutti::Token> next = job->job.Next();
    if (!next.has_value()) return;
    job->token = *std::move(next);
    *token = View(job->token);
    got = 1;
  });
  return got;
}

int tutti_job_next_for(tutti_job* job, int milliseconds, tutti_token* token) {
  if (job == nullptr || token == nullptr) return 0;
  int got = 0;
  Guarded([&] {
    const tutti::NextResult result =
        job->job.NextFor(std::chrono::milliseconds(milliseconds), &job->token);
    if (result == tutti::NextResult::kToken) *token = View(job->token);
    got = result == tutti::NextResult::kToken ? 1 : result == tutti::NextResult::kTimeout ? -1 : 0;
  });
  return got;
}

int tutti_job_wait(const tutti_job* job, int milliseconds) {
  bool ended = true;
  if (job != nullptr)
    Guarded([&] { ended = job->job.WaitFor(std::chrono::milliseconds(milliseconds)); });
  return ended ? 1 : 0;
}

void tutti_job_cancel(tutti_job* job) {
  if (job != nullptr) job->job.Cancel();
}

tutti_code tutti_job_join(tutti_job* job, tutti_completion** completion, tutti_error** error) {
  return Guarded(error, [&] {
    if (job == nullptr || completion == nullptr) return Null("job and completion", error);
    return Deliver(job->job.Join(), completion, error);
  });
}
void tutti_job_free(tutti_job* job) { delete job; }

tutti_code tutti_state_new(const tutti_model* model, const tutti_request* request,
                           tutti_state** state, tutti_error** error) {
  return Guarded(error, [&] {
    if (model == nullptr || request == nullptr || state == nullptr)
      return Null("model, request and state", error);
    tutti::Expected<tutti::StepState> made = model->model.CreateState(request->request);
    if (!made.ok()) return Fail(made.error(), error);
    *state = new tutti_state{model->model, std::move(*made), {}};
    return TUTTI_OK;
  });
}

tutti_code tutti_state_step(tutti_state* state, tutti_token* token, int* done,
                            tutti_error** error) {
  return Guarded(error, [&] {
    if (state == nullptr || token == nullptr || done == nullptr)
      return Null("state, token and done", error);
    tutti::Expected<tutti::StepResult> result = state->model.Step(state->state);
    if (!result.ok()) return Fail(result.error(), error);
    state->token = {.id = result->id,
                    .text = std::move(result->text),
                    .logprobs = std::move(result->logprobs),
                    .reasoning = std::move(result->reasoning)};
    *token = View(state->token);
    *done = result->done ? 1 : 0;
    return TUTTI_OK;
  });
}
tutti_code tutti_state_completion(const tutti_state* state, tutti_completion** completion,
                                  tutti_error** error) {
  return Guarded(error, [&] {
    if (state == nullptr || completion == nullptr) return Null("state and completion", error);
    *completion = new tutti_completion{state->state.completion()};
    return TUTTI_OK;
  });
}
void tutti_state_free(tutti_state* state) { delete state; }
