// Encoder: the part of a tokenizer that differs between model kinds: words to ids.
//
// Immutable after construction; any thread. Refers to the Vocabulary given at construction, which
// outlives it.
#pragma once

#include <string_view>
#include <vector>

#include "base/types.h"
#include "tokenizer/pre_tokenizer.h"

namespace tutti::tokenizer {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text`, a normalized stretch between special tokens, which `splitter` cuts
  // into words. `at_start`: it begins the whole input. Any bytes; O(n log n).
  virtual void Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
                      std::vector<TokenId>& ids) const = 0;

  // Merges of the file that name a piece that is no token.
  virtual size_t unusable_merges() const { return 0; }

 protected:
  // Calls `take` with each word that `splitter` cuts from `text`.
  template <typename Take>  // void(std::string_view word)
  static void ForEachWord(std::string_view text, const PreTokenizer& splitter, bool at_start,
                          const Take& take) {
    class Words final : public WordSink {
     public:
      explicit Words(const Take& each) : each_(each) {}
      void OnWord(std::string_view word) override { each_(word); }

     private:
      const Take& each_;
    };
    Words words(take);
    splitter.Split(text, at_start, words);
  }
};

}  // namespace tutti::tokenizer
