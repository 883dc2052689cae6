// Decisions by classifiers: an encoder with labels scores a text once, and each label of a question
// gets the probability of the class that it names. The question itself is not read.
//
// Classifies(), ClassifiedText() and ClassesFor() are pure. The questions of one call about a text
// share its ClassScores, which RunningScores finds while they are computed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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

// The writer of a question's stream, which has no other writer until the answer is written.
// `classes`: as of ClassesFor().
struct ClassAnswer {
  std::shared_ptr<api::TokenStream> stream;
  std::vector<size_t> classes;
};

// The scores of one text, and the answers that are made of them. Owned by the encoding's state,
// whose waker it is, until the encoding ends. Any thread.
class ClassScores final : public Waker, public std::enable_shared_from_this<ClassScores> {
 public:
  explicit ClassScores(ScoreScale scale) : scale_(scale) {}

  // Adds an answer. Returns what cancels it; null if the encoding has ended.
  std::shared_ptr<api::Cancellable> Join(std::shared_ptr<const ClassAnswer> answer);
  // Sets the encoding of raw scores, which may have ended already. To be called once.
  void Attach(api::Encoding encoding);
  // Ends all answers but `kept`, whose stream has not ended: there is no encoding.
  void Fail(const Status& why, const ClassAnswer& kept);
  // Writes the answers if the encoding has ended.
  void Wake() noexcept override;

 private:
  class Part;
  using Answers = std::vector<std::shared_ptr<const ClassAnswer>>;
  void Cancel(const ClassAnswer& answer);
  // Closes, and returns the answers.
  Answers Close() REQUIRES(mutex_);

  const ScoreScale scale_;
  Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;     // no answer joins any more
  Answers answers_ GUARDED_BY(mutex_);         // that of the first question computed the text
  api::Encoding encoding_ GUARDED_BY(mutex_);  // empty before Attach() and after the end
};

// The scores that are being computed, by what decides them. Any thread.
class RunningScores {
 public:
  struct Joined {
    std::shared_ptr<ClassScores> scores;
    std::shared_ptr<api::Cancellable> control;
    bool is_first = false;  // the caller attaches an encoding, or calls Fail()
  };
  // Adds the answer to the scores of that key, or to new ones. An empty key is never shared.
  Joined Join(std::string key, ScoreScale scale, std::shared_ptr<const ClassAnswer> answer);

 private:
  Mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<ClassScores>> running_ GUARDED_BY(mutex_);
  size_t sweep_at_ GUARDED_BY(mutex_) = 64;  // size at which those that have ended are removed
};

}  // namespace tutti::gateway
