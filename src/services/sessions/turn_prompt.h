// The prompt of a turn: system prompt, as much of the history as fits, and the new message; and the
// tokens of these. Pure, except for TokenCounter.
//
// If a dialog is too long, whole turns are omitted, oldest first; the system prompt and the new
// message always stay. Omitting one more turn each time would change the beginning of every prompt
// and so defeat the prefix cache. Therefore a cut removes a quarter of the window at once and holds
// until the window is full again; between cuts prompts only grow at their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/inference.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/sessions/history.h"

namespace tutti::sessions {

struct ContextWindow {
  int limit = 3000;      // tokens of a prompt, at most
  bool truncate = true;  // false: a dialog that does not fit is refused
};

struct ContextCut {
  size_t first = 0;    // first turn in the prompt
  size_t dropped = 0;  // turns that this cut omits in addition to the last one
};

// `turn_tokens`: tokens of each committed turn, question and answer together, oldest first.
// `first`: first turn after the last cut. `fixed_tokens`: tokens that cannot be omitted. Errors:
// context_length_exceeded, with the numbers.
Result<ContextCut> FitContext(const ContextWindow& window, std::span<const int> turn_tokens,
                              size_t first, int fixed_tokens);

struct TurnPrompt {
  api::ChatPrompt prompt;
  int64_t first_place = 1;  // of the dialog's turns that went in, from here on
  // Left out now that were not before.
  int64_t dropped_turns = 0, dropped_items = 0;
};

// `items` are in order of place; earlier cuts have omitted those before `first_place`.
// `fixed_tokens`: tokens of everything except the items. Errors: context_length_exceeded.
Result<TurnPrompt> BuildPrompt(const ContextWindow& window, const std::string& system,
                               std::span<const Item> items, int64_t first_place,
                               const std::vector<api::ChatMessage>& input, int fixed_tokens);

// TokenCounter: counts the tokens of a dialog's items incrementally, with the model's tokenizer:
// each text once, and the tokens that the chat template adds around a message once per model. The
// sum is the length of the prompt, except for a token or so if a template trims white space.
//
// Used on the strand only. Tokenizes on the calling thread; the caller bounds the texts. If another
// process has the tokenizer, or the model is not loaded, each call of Inference::Tokenize blocks
// for at most half a second. All dialogs and stored responses wait with the strand, so that a turn
// first calls Ready(), which does not block.
class TokenCounter {
 public:
  struct Template {
    int prompt = 0;                    // of any prompt: its beginning, and that of the answer
    int message = 0;                   // around one message of the dialog
    int system = 0;                    // around what the system says
    int max_model_len = 0;             // prompt and answer together
    bool takes_users_in_a_row = true;  // two messages of the user with no answer in between
  };

  TokenCounter(api::Inference& inference, const Clock& clock)
      : inference_(inference), clock_(clock) {}

  // Whether the model's tokens can be counted now. Asks for a model that is not loaded, once until
  // there is an answer. Errors: model_loading until then; that of the load.
  Status Ready(const std::string& model);

  // Errors: those of Inference::Tokenize.
  Result<int> Count(const std::string& model, std::string_view text);
  Result<Template> TemplateOf(const std::string& model);

 private:
  Result<int> CountPrompt(const std::string& model, api::ChatPrompt prompt, int* max_model_len);

  // What is known of a model's load.
  struct Presence {
    TimePoint look_at = {};  // while nothing is asked: it counts as loaded until then
    // The answer to the question that waits for the load; null: none was asked.
    std::shared_ptr<Synchronized<std::optional<Status>>> answer = nullptr;
  };
  Presence* PresenceOf(const std::string& model);  // null: too many models are waited for

  api::Inference& inference_;
  const Clock& clock_;
  std::map<std::string, Template> templates_;
  std::map<std::string, Presence> presences_;
};

}  // namespace tutti::sessions
