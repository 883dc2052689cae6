#include "services/sessions/turn_prompt.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "api/models.h"
#include "base/check.h"

namespace tutti::sessions {
namespace {

constexpr int kCutPart = 4;  // of the window, at once

Status TooLong(int64_t tokens, int limit) {
  return InvalidArgument("context_length_exceeded", "the prompt has " + std::to_string(tokens) +
                                                        " tokens, the window of this dialog " +
                                                        std::to_string(limit))
      .WithExcess(tokens, limit);
}

constexpr size_t kMaxModels = 64;
constexpr const char* kProbe = "a";
// All dialogs wait with the strand where the tokenizer is another process's.
constexpr Duration kPatience = std::chrono::milliseconds(500);
// Many turns may wait for one model, and each copy of the list of models takes time.
constexpr Duration kLookAgain = std::chrono::milliseconds(100);

}  // namespace

Result<ContextCut> FitContext(const ContextWindow& window, std::span<const int> turn_tokens,
                              size_t first, int fixed_tokens) {
  CHECK(first <= turn_tokens.size());
  int64_t tokens = std::accumulate(turn_tokens.begin() + static_cast<ptrdiff_t>(first),
                                   turn_tokens.end(), int64_t{fixed_tokens});
  ContextCut cut{.first = first};
  if (tokens <= window.limit) return cut;
  if (!window.truncate) return TooLong(tokens, window.limit);
  if (fixed_tokens > window.limit) return TooLong(fixed_tokens, window.limit);
  const int64_t aim = window.limit - window.limit / kCutPart;
  while (cut.first < turn_tokens.size() && tokens > aim) {
    tokens -= turn_tokens[cut.first++];
    ++cut.dropped;
  }
  return cut;
}

Result<TurnPrompt> BuildPrompt(const ContextWindow& window, const std::string& system,
                               std::span<const Item> items, int64_t first_place,
                               const std::vector<api::ChatMessage>& input, int fixed_tokens) {
  std::vector<int64_t> places;  // of each turn, oldest first
  std::vector<int> tokens;      // of each turn, oldest first
  for (const Item& item : items) {
    if (item.place < first_place) continue;
    if (places.empty() || places.back() != item.place) {
      places.push_back(item.place);
      tokens.push_back(0);
    }
    tokens.back() += item.tokens;
  }
  ASSIGN_OR_RETURN(const ContextCut cut, FitContext(window, tokens, 0, fixed_tokens));
  TurnPrompt built;
  built.dropped_turns = static_cast<int64_t>(cut.dropped);
  built.first_place = first_place;
  if (cut.first > 0)
    built.first_place = cut.first < places.size() ? places[cut.first] : places.back() + 1;
  std::vector<api::ChatMessage>& messages = built.prompt.messages;
  if (!system.empty()) messages.push_back({api::Role::kSystem, system, {}});
  for (const Item& item : items) {
    if (item.place >= built.first_place) {
      // Arguments that were cut short are no JSON, which templates cannot show.
      if (!item.call.has_value() || !item.incomplete) messages.push_back(MessageOf(item));
    } else if (item.place >= first_place) {
      ++built.dropped_items;
    }
  }
  messages.insert(messages.end(), input.begin(), input.end());
  return built;
}

TokenCounter::Presence* TokenCounter::PresenceOf(const std::string& model) {
  if (const auto known = presences_.find(model); known != presences_.end()) return &known->second;
  if (presences_.size() >= kMaxModels) {
    // The names are the clients'. A question is kept, because each takes a place among the requests
    // that wait for a model.
    std::erase_if(presences_, [](const auto& one) { return one.second.answer == nullptr; });
  }
  return presences_.size() < kMaxModels ? &presences_[model] : nullptr;
}

Status TokenCounter::Ready(const std::string& model) {
  const TimePoint now = clock_.Now();
  Presence* const presence = PresenceOf(model);
  const Status loading = Unavailable("model_loading", "model " + model + " is still being loaded");
  if (presence == nullptr) return loading;
  if (presence->answer == nullptr) {
    if (now < presence->look_at) return OkStatus();
    const api::ModelList models = inference_.Models();
    const api::ModelInfo* const info =
        model.empty() ? api::DefaultGenerator(models) : api::FindGenerator(models, model);
    // Tokenize() returns the error of an unknown name at once.
    if (info == nullptr || info->status.state == api::ModelState::kLoaded) {
      presence->look_at = now + kLookAgain;
      return OkStatus();
    }
    // Inference::TokenizeLater() waits for the load as long as requests that generate.
    api::TokenizeRequest request;
    request.model = model;
    request.caller = api::Ourselves();
    request.prompt = api::TextPrompt{.text = kProbe, .add_special = false, .parse_special = false};
    presence->answer = std::make_shared<Synchronized<std::optional<Status>>>();
    inference_.TokenizeLater(
        std::move(request), [answer = presence->answer](const Result<api::TokenizeResult>& result) {
          answer->Update([&](std::optional<Status>& held) { held = result.status(); });
        });
  }
  const std::optional<Status> answer = presence->answer->Copy();
  if (!answer.has_value()) return loading;
  // A failed load is asked for again by the next turn.
  *presence = {.look_at = answer->ok() ? now + kLookAgain : now};
  return *answer;
}

Result<int> TokenCounter::Count(const std::string& model, std::string_view text) {
  api::TokenizeRequest request;
  request.model = model;
  request.caller = api::Ourselves();
  request.patience = kPatience;
  request.prompt =
      api::TextPrompt{.text = std::string(text), .add_special = false, .parse_special = false};
  ASSIGN_OR_RETURN(const api::TokenizeResult result, inference_.Tokenize(request));
  return static_cast<int>(result.tokens.size());
}

Result<int> TokenCounter::CountPrompt(const std::string& model, api::ChatPrompt prompt,
                                      int* max_model_len) {
  api::TokenizeRequest request;
  request.model = model;
  request.caller = api::Ourselves();
  request.patience = kPatience;
  request.prompt = std::move(prompt);
  ASSIGN_OR_RETURN(const api::TokenizeResult result, inference_.Tokenize(request));
  *max_model_len = result.max_model_len;
  return static_cast<int>(result.tokens.size());
}

Result<TokenCounter::Template> TokenCounter::TemplateOf(const std::string& model) {
  if (const auto known = templates_.find(model); known != templates_.end()) return known->second;
  const api::ChatMessage system{api::Role::kSystem, kProbe, {}};
  const api::ChatMessage user{api::Role::kUser, kProbe, {}};
  const api::ChatMessage answer{api::Role::kAssistant, kProbe, {}};
  Template found;
  ASSIGN_OR_RETURN(const int probe, Count(model, kProbe));
  ASSIGN_OR_RETURN(const int one, CountPrompt(model, {.messages = {user}}, &found.max_model_len));
  ASSIGN_OR_RETURN(const int three,
                   CountPrompt(model, {.messages = {user, answer, user}}, &found.max_model_len));
  found.prompt = std::max(one - probe, 0);
  found.message = std::max((three - one - 2 * probe + 1) / 2, 0);
  // A template may have words of its own for want of a system message, or know none.
  const Result<int> with_system =
      CountPrompt(model, {.messages = {system, user}}, &found.max_model_len);
  found.system = with_system.ok() ? std::max(*with_system - one - probe, 0) : found.message;
  int unused = 0;
  found.takes_users_in_a_row = CountPrompt(model, {.messages = {user, user}}, &unused).ok();
  if (templates_.size() >= kMaxModels) templates_.clear();
  templates_[model] = found;
  return found;
}

}  // namespace tutti::sessions
