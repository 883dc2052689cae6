// Decisions by classifiers: an encoder with labels scores a text once, and each label of a question
// gets the probability of the class that it names. The question itself is not read.
//
// Classifies(), ClassifiedText() and ClassesFor() are pure. A ClassAnswer is the writer of a
// request's stream; it is owned by the encoding's state, whose waker it is, until the encoding
// ends.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/encoding.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/mutex.h"
#include "base/status.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

// Whether the request scores a label and the model is a classifier that generates no text.
bool Classifies(const ServedModel& model, const api::GenerateRequest& request);

// The text that the classifier reads: the messages of the prompt without the question, with an
// empty line between two of them. Errors: invalid_value for a prompt that is no chat, empty_prompt.
Result<std::string> ClassifiedText(const api::Prompt& prompt,
                                   const api::Continuation& continuation);

// Numbers of the classes that the continuation and its others mean, in this order. A choice and a
// level name a class. Yes and no need two classes: yes is the one named yes or true, or the one
// that is not named no or false, or else the second, which is the positive one by convention.
// Errors: invalid_value with the label, as Gateway::Generate().
Result<std::vector<size_t>> ClassesFor(const api::ModelInfo& model,
                                       const api::Continuation& continuation);

// Logarithms of the classes' probabilities, of the scores of all classes as the model leaves them:
// of a softmax, or of each sigmoid. Not of probabilities, which are 0 for a class that is far
// behind.
std::vector<double> LogProbabilities(std::span<const float> scores, ScoreScale scale);

// An error of the encoding as one of the generation: its input is the prompt.
Status PromptError(Status status);

class ClassAnswer final : public Waker {
 public:
  // `classes`: as of ClassesFor(). The stream has no other writer until the encoding ends.
  ClassAnswer(std::shared_ptr<api::TokenStream> stream, std::vector<size_t> classes,
              ScoreScale scale)
      : stream_(std::move(stream)), classes_(std::move(classes)), scale_(scale) {}

  // Sets the encoding of raw scores that the answer is made of, which may have ended already. To be
  // called once.
  void Attach(api::Encoding encoding);
  // Writes the answer if the encoding has ended. Any thread.
  void Wake() noexcept override;

 private:
  void Write(Result<api::EncodeResult> result) const;

  const std::shared_ptr<api::TokenStream> stream_;
  const std::vector<size_t> classes_;
  const ScoreScale scale_;
  Mutex mutex_;
  api::Encoding encoding_ GUARDED_BY(mutex_);  // empty before Attach() and after the end
};

}  // namespace tutti::gateway
