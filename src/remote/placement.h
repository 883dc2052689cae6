// Which worker a request goes to. Pure.
//
// Long prompts go where prompts of the same beginning went before, as their KV is likely there
// (rendezvous hashing: Thaler and Ravishankar 1998; a worker that comes or goes moves no prompt of
// others), unless that worker is much busier than the idlest; all else goes to the idlest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/types.h"

namespace tutti::remote {

struct Candidate {
  uint64_t name_hash = 0;
  int load = 0;   // requests that it has
  int lanes = 1;  // that it computes at once
};

// The index of the one that is chosen; none of none. `key`: of the prompt's beginning, 0 where it
// does not matter.
std::optional<size_t> ChooseWorker(std::span<const Candidate> candidates, uint64_t key);

// Of a prompt of at least `least` bytes, its tenant and its first `least`; else 0.
uint64_t AffinityKey(const std::string& tenant, const api::Prompt& prompt, size_t least);
uint64_t HashOf(std::string_view text);

}  // namespace tutti::remote
