// The questions of a call to /v1/decisions or /v1/systemone, as its answer needs them. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::protocol {

struct DecisionLabel {
  std::string scored;      // what the model would answer
  std::string shown = {};  // in the answer: the value of a choice, or the text of a level
  bool boolean = false;    // the value of a choice is true or false, not a text
  std::string param = {};  // its field, for errors
};

struct DecisionQuestion {
  enum class Kind : uint8_t { kPredicate, kChoice, kScore };
  Kind kind = Kind::kPredicate;
  std::string name = {};
  bool named = false;
  // Each is scored by a request of the call. A predicate has two: yes, then no.
  std::vector<DecisionLabel> labels = {};
  size_t first = 0;  // number of the first label's request
};

}  // namespace tutti::protocol
