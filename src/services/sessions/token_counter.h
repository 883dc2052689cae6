// TokenCounter: how many tokens a dialog's items are, by the model's own tokenizer, such that only
// what is new is tokenised: a text once, and what a model's template puts around messages once for
// each model. Sums of these are the prompt's length, give or take a token where a template trims.
//
// Belongs to the strand. Tokenises on the calling thread: texts are bounded by the caller. Where
// the tokenizer is another process's it waits for that, half a second at most for each call of
// Inference::Tokenize.
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
