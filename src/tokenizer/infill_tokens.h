// InfillTokens: the tokens that mark the prefix, the suffix and the middle of a text whose middle a
// model fills in (fill-in-the-middle, FIM). Found once, when a vocabulary is created. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/types.h"

namespace tutti::tokenizer {

class Vocabulary;

struct InfillTokens {
  TokenId prefix = kNoToken;      // comes before the text in front of the hole
  TokenId suffix = kNoToken;      // comes before the text behind the hole
  TokenId middle = kNoToken;      // comes before the model's answer; kNoToken: no such token
  TokenId repository = kNoToken;  // comes before the name of a project; kNoToken: no such token
  TokenId file = kNoToken;        // comes before the name of a file; kNoToken: no such token
  TokenId pad = kNoToken;         // kNoToken: no such token
  bool suffix_first = false;  // the order is suffix, prefix, middle; else prefix, suffix, middle

  // All of them, without kNoToken. A model that writes one has filled the hole.
  std::vector<TokenId> All() const;
};

// Finds them by the model file's keys, and otherwise by the spellings that published families
// share. No value: the vocabulary has no prefix, suffix and middle token of one family. A
// vocabulary with such tokens does not imply that the model was trained with them.
std::optional<InfillTokens> FindInfillTokens(const Vocabulary& vocabulary);

}  // namespace tutti::tokenizer
