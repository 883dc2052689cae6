#include "grammar/forced_text.h"

#include <algorithm>

#include "grammar/json_text.h"

namespace tutti::grammar {
namespace {

constexpr size_t kBytesOfToken = 8;  // of a guess; keys of JSON have fewer

// The bytes that can follow a state.
struct Following {
  int bytes = 0;       // that are no whitespace, counted up to 2
  char byte = '\0';    // the last of them
  bool space = false;  // some whitespace can follow too
};

Following FollowingOf(StateSets& sets, SetId state) {
  Following following;
  const Automaton& automaton = sets.automaton();
  for (int first = 0; first < 256 && following.bytes < 2;) {
    // Bytes of one class go the same way.
    int behind = first + 1;
    while (behind < 256 && automaton.ClassOf(static_cast<uint8_t>(behind)) ==
                               automaton.ClassOf(static_cast<uint8_t>(first)))
      ++behind;
    const SetId next = sets.Next(state, static_cast<uint8_t>(first));
    if (next != StateSets::kDead && next != StateSets::kOverflow) {
      if (IsJsonSpace(static_cast<char>(first))) {
        following.space = true;
      } else {
        following.bytes += behind - first;
        following.byte = static_cast<char>(first);
      }
    }
    first = behind;
  }
  return following;
}

// The longest token that `bytes` begin with; kNoToken: none.
TokenId LongestToken(const TokenTrie& trie, std::string_view bytes) {
  TokenId longest = kNoToken;
  uint32_t node = 0;
  for (const char byte : bytes) {
    uint32_t child = node + 1;
    const uint32_t behind = node == 0 ? static_cast<uint32_t>(trie.nodes()) : trie.behind(node);
    while (child < behind && trie.byte(child) != static_cast<uint8_t>(byte))
      child = trie.behind(child);
    if (child >= behind) break;
    node = child;
    if (trie.has_tokens(node)) longest = trie.tokens(node)[0];
  }
  return longest;
}

}  // namespace

size_t ForcedText::HabitOf(char byte) {
  return byte == '{' || byte == '[' ? 0 : byte == ':' ? 1 : byte == ',' ? 2 : kHabits;
}

void ForcedText::Read(std::string_view bytes) {
  for (const char byte : bytes) {
    if (IsJsonSpace(byte)) {
      if (space_.size() < kMaxSpace) space_ += byte;
      continue;
    }
    if (const size_t habit = HabitOf(last_); habit < kHabits) habits_[habit] = space_;
    last_ = byte;
    space_.clear();
  }
}

void ForcedText::FindBytes(StateSets& sets, SetId state, size_t max_bytes) {
  bytes_.clear();
  char last = last_;
  size_t spaces = space_.size();  // whitespace that stands behind `last` already
  while (bytes_.size() < max_bytes && !sets.complete(state)) {
    const Following following = FollowingOf(sets, state);
    char byte = following.byte;
    if (following.space) {
      const size_t habit = HabitOf(last);
      if (habit < kHabits && spaces < habits_[habit].size()) {
        byte = habits_[habit][spaces++];
      } else if (following.bytes != 1) {
        return;
      }
    } else if (following.bytes != 1) {
      return;
    }
    const SetId next = sets.Next(state, static_cast<uint8_t>(byte));
    if (next == StateSets::kDead || next == StateSets::kOverflow) return;
    state = next;
    bytes_ += byte;
    if (IsJsonSpace(byte)) continue;
    last = byte;
    spaces = 0;
  }
}

void ForcedText::Guess(TokenMasker& masker, SetId state, size_t max_tokens,
                       std::vector<TokenId>& tokens) {
  tokens.clear();
  FindBytes(*masker.sets_, state, max_tokens * kBytesOfToken);
  std::string_view rest = bytes_;
  while (!rest.empty() && tokens.size() < max_tokens) {
    const TokenId token = LongestToken(masker.trie(), rest);
    if (token == kNoToken) return;
    tokens.push_back(token);
    rest.remove_prefix(masker.trie().text(token).size());
  }
}

}  // namespace tutti::grammar
