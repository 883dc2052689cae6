// Small models that compute next to nothing, to try clients and to measure servers: the ones that
// the published examples of Triton's clients call.
//
//   simple, simple_int8   INPUT0, INPUT1 [16] -> OUTPUT0 sum, OUTPUT1 difference (wrapping)
//   simple_string         the same over decimal numbers as BYTES
//   simple_identity       INPUT0 BYTES [-1] -> OUTPUT0
//   simple_sequence       INPUT INT32 [1] -> OUTPUT, plus 1 on the first request of a sequence
//   simple_dyna_sequence  as simple_sequence, plus the correlation id on the last
//   simple_string_dyna_sequence  the running sum of a sequence, plus its correlation id, a decimal
//                         number as text, on the last
//   repeat_int32          decoupled: IN INT32 [-1], DELAY UINT32 [-1] ms, WAIT UINT32 [1] ms -> for
//                         each element, DELAY later, OUT INT32 [1] and IDX UINT32 [1]; the end WAIT
//                         after the last
//
// The outputs of the sequence models follow the examples simple_grpc_sequence_stream_infer_client
// and simple_grpc_sequence_sync_infer_client: the first two do not sum up, the third does.
//
// A sequence lives from the request with its start flag to the one with its end flag, at most
// kMaxSequences of a model at once and kSequenceIdle long without a request. Any thread; the
// requests of one sequence are in the order in which Start() was called.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

inline constexpr size_t kMaxSequences = 1024;
inline constexpr Duration kSequenceIdle = std::chrono::seconds(60);

// Whether a test model has that name.
bool IsTestModel(std::string_view name);

// `clock` outlives the models.
std::vector<std::shared_ptr<Model>> MakeTestModels(const Clock& clock);

}  // namespace tutti::kserve
