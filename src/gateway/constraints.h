// Constraints: what requests constrain their answers to, compiled once for all requests with the
// same text.
//
// Owned by the gateway; any thread. Compiled grammars are kept by content, least recently
// used first out; their number and bytes are bounded. The bytes of a vocabulary's tokens are sorted
// when a model is first asked for a constrained answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "api/types.h"
#include "base/mutex.h"
#include "base/status.h"
#include "gateway/served_model.h"
#include "grammar/structure.h"
#include "grammar/token_masker.h"

namespace tutti::gateway {

// Errors: invalid_value for a kind that is not known here; those of ParseStructuralTag().
Result<grammar::Structure> StructureOf(const api::Constraint& constraint);

class Constraints {
 public:
  // Compiled grammars that are kept, and the bytes of their sources and automata. What a grammar
  // learns while it is used is bounded by TokenMasker::kMaxBytes each.
  static constexpr size_t kMaxKept = 32;
  static constexpr size_t kMaxKeptBytes = size_t{64} << 20;

  // Compiles a grammar that is not known yet, within grammar::Limits. Errors: those of
  // grammar::Compile().
  Result<std::shared_ptr<grammar::TokenMasker>> Get(const ServedModel& model,
                                                    const grammar::Structure& structure,
                                                    const std::atomic<bool>* cancelled);
  // The grammar, if it was compiled before and is still kept; else null.
  std::shared_ptr<grammar::TokenMasker> Find(const ServedModel& model,
                                             const grammar::Structure& structure);

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::TokenMasker> masker;
    size_t bytes = 0;
  };

  std::shared_ptr<grammar::TokenMasker> FindLocked(const std::string& key) REQUIRES(mutex_);
  std::shared_ptr<const grammar::TokenTrie> TrieOf(const ServedModel& model);

  mutable Mutex mutex_;
  std::list<Kept> kept_ GUARDED_BY(mutex_);  // the last used first
  size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
  Mutex trie_mutex_;  // held while one is made: it is made once
  std::map<uint64_t, std::shared_ptr<const grammar::TokenTrie>> tries_ GUARDED_BY(trie_mutex_);
};

}  // namespace tutti::gateway
