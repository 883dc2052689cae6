// QuestionSeries: questions that are asked one after the other of who may answer later, each when
// the one before has been answered; the first that fails ends it.
//
// It keeps itself until it has ended. Whoever answers asks the next one, on its own thread; only
// one thread is in it at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tutti::api {

template <typename Answer>
class QuestionSeries : public std::enable_shared_from_this<QuestionSeries<Answer>> {
 public:
  // Of the question of that index; what it is given is called once, on any thread.
  using Ask = std::function<void(size_t index, std::function<void(Result<Answer>)> answered)>;
  // All answers, in order. On the thread that gave the last one; of no question, at once.
  using Ended = std::function<void(Result<std::vector<Answer>>)>;

  static void Begin(size_t count, Ask ask, Ended ended) {
    std::make_shared<QuestionSeries>(Private(), count, std::move(ask), std::move(ended))->GoOn();
  }

 private:
  struct Private {};

 public:
  QuestionSeries(Private, size_t count, Ask ask, Ended ended)
      : count_(count), ask_(std::move(ask)), ended_(std::move(ended)) {}

 private:
  void GoOn() {
    do {
      if (!failed_.ok()) return ended_(std::move(failed_));
      if (answers_.size() == count_) return ended_(std::move(answers_));
      one_is_through_.store(false);
      ask_(answers_.size(), [self = this->shared_from_this()](Result<Answer> answer) {
        if (answer.ok()) {
          self->answers_.push_back(*std::move(answer));
        } else {
          self->failed_ = answer.status();
        }
        if (self->one_is_through_.exchange(true)) self->GoOn();
      });
      // Who asked and who answered: the second goes on, so that answers that come at once are no
      // deeper calls.
    } while (one_is_through_.exchange(true));
  }

  const size_t count_;
  const Ask ask_;
  const Ended ended_;
  std::vector<Answer> answers_;
  Status failed_;
  std::atomic<bool> one_is_through_{false};
};

}  // namespace tutti::api
