// QuestionSeries: runs `count` asynchronous calls one after the other and collects their answers.
// The next call begins when the one before has been answered; the first error ends the series.
//
// A series owns itself until it has ended. The thread that answers a call begins the next one; only
// one thread is inside a series at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tutti::api {

template <typename Answer>
class QuestionSeries : public std::enable_shared_from_this<QuestionSeries<Answer>> {
 public:
  // Begins the call number `index`. `answered` must be called exactly once, on any thread.
  using Ask = std::function<void(size_t index, std::function<void(Result<Answer>)> answered)>;
  // Gets all answers in order, or the first error. Runs on the thread that gave the last answer;
  // with count == 0 it runs inside Begin().
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
      // This thread, after `ask_` returned, and the thread that answered both set the flag. The
      // later of the two begins the next call, so that immediate answers do not nest calls.
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
