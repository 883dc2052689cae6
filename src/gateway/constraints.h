// Constraints: LRU cache of compiled grammars, keyed by their source, so that requests with equal
// constraints compile once.
//
// Owned by the gateway; any thread. The number and the bytes of cached grammars are bounded. The
// token trie of a model's vocabulary is built by the first constrained request to the model.
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
#include "grammar/limits.h"
#include "grammar/structure.h"
#include "grammar/token_masker.h"

namespace tutti::gateway {

// Errors: invalid_value for an unknown kind; those of ParseStructuralTag().
Result<grammar::Structure> StructureOf(const api::Constraint& constraint);

class Constraints {
 public:
  // Maximum number of cached grammars, and of the bytes of their sources and automata. The masks
  // that a grammar caches during use are bounded by TokenMasker::kMaxBytes each.
  static constexpr size_t kMaxKept = 32;
  static constexpr size_t kMaxKeptBytes = size_t{64} << 20;

  // Returns the compiled grammar; compiles it within `limits` if it is not cached. Errors: those of
  // grammar::Compile().
  Result<std::shared_ptr<grammar::TokenMasker>> Get(const ServedModel& model,
                                                    const grammar::Structure& structure,
                                                    const grammar::Limits& limits,
                                                    const std::atomic<bool>* cancelled);
  // Returns the cached grammar; null if it is not cached. `variant` separates entries of UseFor()
  // from the structure's own grammar, which has an empty variant.
  std::shared_ptr<grammar::TokenMasker> Find(const ServedModel& model,
                                             const grammar::Structure& structure,
                                             const std::string& variant = "");
  // Caches `masker`, which Get() has returned for a similar structure, for this one.
  void UseFor(const ServedModel& model, const grammar::Structure& structure,
              const std::string& variant, std::shared_ptr<grammar::TokenMasker> masker);
  // Releases the grammars of a model or adapter that is being unloaded, and the token trie of a
  // model. Waits for no compilation.
  void Forget(const ServedModel& model);

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::TokenMasker> masker;
    size_t bytes = 0;
  };

  std::shared_ptr<grammar::TokenMasker> FindLocked(const std::string& key) REQUIRES(mutex_);
  void KeepLocked(std::string key, std::shared_ptr<grammar::TokenMasker> masker, size_t bytes)
      REQUIRES(mutex_);
  struct VocabularyTrie {
    Mutex mutex;  // held while the trie is built, so that it is built once
    std::shared_ptr<const grammar::TokenTrie> trie GUARDED_BY(mutex);
  };
  std::shared_ptr<VocabularyTrie> TriePlaceOf(const ServedModel& model);
  std::shared_ptr<const grammar::TokenTrie> TrieOf(const ServedModel& model);

  mutable Mutex mutex_;
  std::list<Kept> kept_ GUARDED_BY(mutex_);  // most recently used first
  size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
  Mutex trie_mutex_;
  // By tokenizer. A request that outlives its model may add an entry again; it is removed with the
  // next search after the tokenizer's end.
  std::map<std::weak_ptr<const tokenizer::Tokenizer>, std::shared_ptr<VocabularyTrie>,
           std::owner_less<>>
      tries_ GUARDED_BY(trie_mutex_);
};

}  // namespace tutti::gateway
