#include "library/collector.h"

#include <variant>

#include "api/tool_calls.h"
#include "library/convert.h"

namespace tutti::library {
namespace {

void Append(const Token& token, Choice* choice) {
  choice->text += token.text;
  choice->reasoning += token.reasoning;
  api::AddCallDeltas(token.tool_calls, &choice->tool_calls);
}

}  // namespace

std::optional<Token> Collector::Take(const api::StreamEvent& event) {
  using Kind = api::StreamEvent::Kind;
  switch (event.kind) {
    case Kind::kStarted:
      completion_.usage = FromApi(event.usage);
      return std::nullopt;
    case Kind::kPromptToken:
      completion_.prompt.push_back(event.logprobs
                                       ? FromApi(*event.logprobs)
                                       : TokenLogprobs{.chosen = {.token = event.token}});
      return std::nullopt;
    case Kind::kEnd:
      ended_ = true;
      completion_.usage = FromApi(event.usage);
      completion_.timings = FromApi(event.timings);
      return std::nullopt;
    case Kind::kToken: {
      Choice& choice = completion_.choices[static_cast<size_t>(event.choice)];
      Token token{.id = event.token,
                  .text = event.text,
                  .choice = event.choice,
                  .reasoning = event.reasoning,
                  .tool_calls = FromApi(event.tool_calls)};
      if (event.logprobs) token.logprobs = FromApi(*event.logprobs);
      choice.tokens.push_back(token.id);
      Append(token, &choice);
      if (token.logprobs) choice.logprobs.push_back(*token.logprobs);
      return token;
    }
    case Kind::kChoiceEnd: {
      Choice& choice = completion_.choices[static_cast<size_t>(event.choice)];
      ended_choices_ |= uint32_t{1} << event.choice;
      choice.finish_reason = FromApi(event.finish_reason);
      choice.stop_reason = event.stop_reason;
      Token token{.text = event.text,
                  .choice = event.choice,
                  .reasoning = event.reasoning,
                  .tool_calls = FromApi(event.tool_calls)};
      Append(token, &choice);
      if (token.text.empty() && token.reasoning.empty() && token.tool_calls.empty())
        return std::nullopt;
      return token;
    }
  }
  return std::nullopt;
}

void Collector::MarkCancelled() {
  int tokens = 0;
  for (size_t i = 0; i < completion_.choices.size(); ++i) {
    Choice& choice = completion_.choices[i];
    if ((ended_choices_ >> i & 1) == 0) choice.finish_reason = FinishReason::kCancelled;
    tokens += static_cast<int>(choice.tokens.size());
  }
  completion_.usage.completion_tokens = tokens;
}

}  // namespace tutti::library
