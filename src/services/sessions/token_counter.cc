#include "services/sessions/token_counter.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tutti::sessions {
namespace {

constexpr size_t kMaxModels = 64;
constexpr const char* kProbe = "a";
// All dialogs wait with the strand where the tokenizer is another process's.
constexpr Duration kPatience = std::chrono::milliseconds(500);

}  // namespace

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
