#include "tutti/batch.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/threads.h"
#include "library/state.h"

namespace tutti {
namespace {

struct Running {
  size_t index = 0;
  std::shared_ptr<Job::State> job;
};

Request RequestFor(const Prompt& prompt, const SamplingParams& sampling, size_t index) {
  Request request{.prompt = prompt, .sampling = sampling, .priority = Priority::kBatch};
  if (sampling.seed.has_value()) {  // wraps around rather than overflows
    request.sampling.seed = static_cast<int64_t>(static_cast<uint64_t>(*sampling.seed) + index);
  }
  return request;
}

// Calls the progress callback; an exception of it becomes the batch's error.
Error Report(const BatchOptions& options, size_t done, size_t total) {
  if (options.progress == nullptr) return {};
  try {
    options.progress(done, total);
    return {};
  } catch (...) {
    return Error(ErrorCode::kAborted, "handler_failed", "the progress callback threw")
        .WithCause(std::current_exception());
  }
}

}  // namespace

Expected<std::vector<Expected<Completion>>> GenerateBatch(const Model& model,
                                                          std::span<const Prompt> prompts,
                                                          const BatchOptions& options) {
  const size_t degree = static_cast<size_t>(options.degree > 0 ? options.degree : UsableCores());
  const size_t total = prompts.size();
  std::vector<Expected<Completion>> results(total, Error());  // each is set before the end
  const auto wakes = std::make_shared<WakeCount>();           // of all jobs: one place to wait
  std::vector<Running> running;                               // never more than `degree`
  size_t next = 0, done = 0;
  while (done < total) {
    const uint64_t seen = wakes->count();
    size_t ended_now = 0;
    for (size_t i = 0; i < running.size();) {
      Job::State& job = *running[i].job;
      while (job.Poll().has_value()) {
      }
      if (!job.ended()) {
        ++i;
        continue;
      }
      results[running[i].index] = job.Finish();
      std::swap(running[i], running.back());
      running.pop_back();
      ++ended_now;
    }
    bool crowded =
        false;  // other users fill the model's queue; room comes when a job of this batch ends
    while (running.size() < degree && next < total && !crowded) {
      Expected<std::shared_ptr<Job::State>> job = Job::State::Submit(
          model.state(), RequestFor(prompts[next], options.sampling, next), wakes);
      if (job.ok()) {
        running.push_back({next++, *std::move(job)});
      } else if (job.error().reason() == "queue_full" && !running.empty()) {
        crowded = true;
      } else {
        results[next++] = job.error();
        ++ended_now;
      }
    }
    for (; ended_now > 0; --ended_now) {
      if (Error error = Report(options, ++done, total); !error.ok())
        return error;  // running jobs are cancelled
    }
    if (!running.empty()) wakes->Wait(seen);
  }
  return results;
}

}  // namespace tutti
