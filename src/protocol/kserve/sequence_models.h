// Test models that keep state between the requests of a sequence (test_models.h describes them).
//
// A sequence lives from the request with its start flag to the one with its end flag, at most
// kMaxSequences of a model at once and kSequenceIdle long without a request. Any thread; the
// requests of one sequence are in the order in which Start() was called.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

inline constexpr size_t kMaxSequences = 1024;
inline constexpr Duration kSequenceIdle = std::chrono::seconds(60);

std::vector<std::shared_ptr<Model>> MakeSequenceModels(const Clock& clock);

}  // namespace tutti::kserve
