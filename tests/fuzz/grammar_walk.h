// Properties of every compiled grammar: every state has a continuation or may end, masks allow
// exactly what the bytes allow, and random walks find texts that end.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "grammar/structure.h"
#include "grammar/token_masker.h"

namespace tutti::fuzz {

// Small, so that a sanitized run compiles within milliseconds.
inline grammar::Limits SmallLimits() {
  return {.work = 400'000, .bytes = 8 << 20, .states = 1 << 14, .text_bytes = 1 << 14};
}

// Compiles; null where it is refused, which must be by one of the codes of
// docs/structured-output.md.
inline std::shared_ptr<const grammar::Automaton> CompileOrRefuse(
    grammar::Structure::Kind kind, std::string_view text,
    std::initializer_list<std::string_view> codes) {
  auto automaton = grammar::Compile({.kind = kind, .text = std::string(text)}, SmallLimits());
  if (automaton.ok()) return *std::move(automaton);
  const Status status = automaton.status();
  const std::string& reason = status.reason();
  const bool known = reason == "grammar_too_complex" || reason == "grammar_empty" ||
                     std::find(codes.begin(), codes.end(), reason) != codes.end();
  CHECK(known && !status.message().empty()) << status;
  return nullptr;
}

// A vocabulary of all bytes and some texts of several.
inline std::shared_ptr<const grammar::TokenTrie> ByteTrie() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"{\"", "\":", "\",\"", "\"}", "}}", "],", "true", "null", "12", "\\u00",
                           "\xC3\xA9", "\xE2\x82", "aa", "ab\"", "(("})
    texts.emplace_back(text);
  texts.emplace_back("end");
  const auto end = static_cast<TokenId>(texts.size() - 1);
  return grammar::TokenTrie::Create(std::move(texts), {end});
}

class GrammarWalk {
 public:
  GrammarWalk(std::shared_ptr<const grammar::Automaton> automaton, uint64_t seed)
      : sets_(automaton), masker_(std::move(automaton), ByteTrie()), seed_(seed) {}

  // A random text that the grammar accepts; nothing where none ended within the steps.
  std::optional<std::string> Text() {
    std::string text;
    grammar::SetId bytes = sets_.start(), tokens = masker_.start();
    for (int step = 0; step < kMaxSteps; ++step) {
      if (sets_.complete(bytes) && (!sets_.HasPlaces(bytes) || Random() % 8 == 0)) return text;
      CHECK(sets_.HasPlaces(bytes)) << "a state that neither goes on nor may end";
      std::array<uint8_t, 256> allowed{};
      size_t count = 0;
      bool overflow = false;
      for (int byte = 0; byte < 256; ++byte) {
        const grammar::SetId next = sets_.Next(bytes, static_cast<uint8_t>(byte));
        overflow = overflow || next == grammar::StateSets::kOverflow;
        if (next != grammar::StateSets::kDead) allowed[count++] = static_cast<uint8_t>(byte);
      }
      if (overflow) return std::nullopt;
      CHECK(count > 0) << "no byte follows, though a state has places";
      if (step % 8 == 0) CompareMask(bytes, tokens);
      const uint8_t chosen = Choose(allowed, count, step);
      text.push_back(static_cast<char>(chosen));
      bytes = sets_.Next(bytes, chosen);
      tokens = masker_.Next(tokens, chosen);
      CHECK(tokens != grammar::StateSets::kDead) << "a token of an allowed byte is not allowed";
    }
    return std::nullopt;
  }

 private:
  static constexpr int kMaxSteps = 400;
  static constexpr int kClosing = 120;  // from this step on texts are brought to their end

  uint64_t Random() {
    seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return seed_ >> 33;
  }

  uint8_t Choose(const std::array<uint8_t, 256>& allowed, size_t count, int step) {
    if (step >= kClosing) {
      for (const char closing : {'"', '}', ']', ')'}) {
        const auto end = allowed.begin() + static_cast<std::ptrdiff_t>(count);
        if (std::find(allowed.begin(), end, static_cast<uint8_t>(closing)) != end)
          return static_cast<uint8_t>(closing);
      }
    }
    return allowed[Random() % count];
  }

  // Both automata have read the same text.
  void CompareMask(grammar::SetId bytes, grammar::SetId tokens) {
    const auto mask = masker_.Mask(tokens);
    if (mask == nullptr) return;  // too ambiguous
    const grammar::TokenTrie& trie = masker_.trie();
    for (TokenId id = 0; id < static_cast<TokenId>(trie.vocabulary()); ++id) {
      const grammar::SetId next = sets_.Next(bytes, trie.text(id));
      if (next == grammar::StateSets::kOverflow) continue;
      const bool follows =
          trie.IsEnd(id) ? sets_.complete(bytes) : next != grammar::StateSets::kDead;
      CHECK(mask->Allows(id) == follows) << "the mask differs from the bytes at token " << id;
    }
  }

  grammar::StateSets sets_;
  grammar::TokenMasker masker_;
  uint64_t seed_;
};

}  // namespace tutti::fuzz
