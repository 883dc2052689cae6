// GenerateBatch: many prompts, some at a time, results in the order of the prompts.
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
  SamplingParams sampling =
      {};          // of every prompt; prompt i draws with seed + i, where there is a seed
  int degree = 0;  // prompts in progress at once; 0 = the processors this process may use
  // Called on this thread after each prompt with how many have ended: 1, 2, ... total. If it
  // throws, the batch is cancelled and fails with handler_failed.
  std::function<void(size_t done, size_t total)> progress = {};
};

// Blocks. Runs as Priority::kBatch: other requests of the model come first. A prompt that fails
// leaves its error in its place; the others go on. Beside the results only the prompts in progress
// take memory.
TUTTI_API Expected<std::vector<Expected<Completion>>> GenerateBatch(
    const Model& model, std::span<const Prompt> prompts, const BatchOptions& options = {});

}  // namespace tutti
