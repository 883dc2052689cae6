// Placement: chooses the worker of a request. Pure.
//
// A long prompt goes to the worker that had prompts of the same beginning, because that worker
// likely has their KV blocks (rendezvous hashing: Thaler and Ravishankar 1998; a worker that joins
// or leaves moves no prompt between the others), unless that worker is much busier than the least
// busy one. Every other request goes to the least busy worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/types.h"

namespace tutti::cluster {

struct Candidate {
  uint64_t name_hash = 0;
  int load = 0;          // requests assigned to it
  int max_num_seqs = 1;  // requests that it computes concurrently
};

// Index of the chosen worker; nothing if there are no candidates. `key`: AffinityKey() of the
// prompt, 0 if any worker will do.
std::optional<size_t> ChooseWorker(std::span<const Candidate> candidates, uint64_t key);

// Hash of the tenant and the first `least` bytes of the prompt; 0 for a prompt of fewer bytes.
uint64_t AffinityKey(const std::string& tenant, const api::Prompt& prompt, size_t least);
uint64_t HashOf(std::string_view text);

}  // namespace tutti::cluster
