// GenerateBatch: generates completions for many prompts, several at a time; the results are in the
// order of the prompts.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/model.h"
#include "tutti/types.h"

namespace tutti {

struct BatchOptions {
  SamplingParams sampling = {};  // for every prompt; prompt i uses seed + i if a seed is set
  int degree = 0;  // prompts in progress at once; 0 = the processors this process may use
  // Called on the calling thread after each prompt with the number of ended prompts: 1, 2, ...,
  // total. If it throws, the batch is cancelled and fails with handler_failed.
  std::function<void(size_t done, size_t total)> progress = {};
};

// Generates a completion for each prompt and blocks until all have ended. The requests run with
// Priority::kBatch, so other requests to the model are served first. result[i] is the completion of
// prompts[i] or its error; one failed prompt does not end the others. Memory is used for the
// results and for at most `degree` prompts in progress.
TUTTI_API Expected<std::vector<Expected<Completion>>> GenerateBatch(
    const Model& model, std::span<const Prompt> prompts, const BatchOptions& options = {});

}  // namespace tutti
