// TokenCounter: counts the tokens of a dialog's items incrementally, with the model's tokenizer:
// each text once, and the tokens that the chat template adds around a message once per model. The
// sum is the length of the prompt, except for a token or so if a template trims white space.
//
// Used on the strand only. Tokenizes on the calling thread; the caller bounds the texts. If another
// process has the tokenizer, each call of Inference::Tokenize blocks for at most half a second.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/inference.h"
#include "base/status.h"

namespace tutti::sessions {

class TokenCounter {
 public:
  struct Template {
    int prompt = 0;                    // of any prompt: its beginning, and that of the answer
    int message = 0;                   // around one message of the dialog
    int system = 0;                    // around what the system says
    int max_model_len = 0;             // prompt and answer together
    bool takes_users_in_a_row = true;  // two messages of the user with no answer in between
  };

  explicit TokenCounter(api::Inference& inference) : inference_(inference) {}

  // Errors: those of Inference::Tokenize.
  Result<int> Count(const std::string& model, std::string_view text);
  Result<Template> TemplateOf(const std::string& model);

 private:
  Result<int> CountPrompt(const std::string& model, api::ChatPrompt prompt, int* max_model_len);

  api::Inference& inference_;
  std::map<std::string, Template> templates_;
};

}  // namespace tutti::sessions
