#include "gateway/constraints.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "grammar/structure.h"

namespace tutti::gateway {
namespace {

// No two constraints of two models have the same.
std::string PrefixOf(const ServedModel& model) { return std::to_string(model.instance) + ":"; }

std::string KeyOf(const ServedModel& model, const grammar::Structure& structure) {
  return PrefixOf(model) + structure.Key();
}

}  // namespace

Result<grammar::Structure> StructureOf(const api::Constraint& constraint) {
  using Kind = grammar::Structure::Kind;
  grammar::Structure structure{
      .text = constraint.text, .texts = constraint.choices, .param = constraint.param};
  switch (constraint.kind) {
    case api::Constraint::Kind::kJsonObject:
      structure.kind = Kind::kJsonObject;
      return structure;
    case api::Constraint::Kind::kJsonSchema:
      structure.kind = Kind::kJsonSchema;
      return structure;
    case api::Constraint::Kind::kRegex:
      structure.kind = Kind::kRegex;
      return structure;
    case api::Constraint::Kind::kChoice:
      structure.kind = Kind::kChoice;
      return structure;
    case api::Constraint::Kind::kGrammar:
      structure.kind = Kind::kGbnf;
      return structure;
    case api::Constraint::Kind::kStructuralTag:
      return grammar::ParseStructuralTag(constraint.text, constraint.param);
  }
  // Another process may be newer.
  return InvalidArgument("invalid_value", "unknown kind of constraint").WithParam(constraint.param);
}

std::shared_ptr<Constraints::VocabularyTrie> Constraints::TriePlaceOf(const ServedModel& model) {
  const MutexLock lock(trie_mutex_);
  std::erase_if(tries_, [](const auto& entry) { return entry.first.expired(); });
  std::shared_ptr<VocabularyTrie>& place = tries_[model.tokenizer];
  if (place == nullptr) place = std::make_shared<VocabularyTrie>();
  return place;
}

std::shared_ptr<const grammar::TokenTrie> Constraints::TrieOf(const ServedModel& model) {
  const std::shared_ptr<VocabularyTrie> place = TriePlaceOf(model);
  const MutexLock lock(place->mutex);
  std::shared_ptr<const grammar::TokenTrie>& trie = place->trie;
  if (trie != nullptr) return trie;
  const tokenizer::Vocabulary& vocabulary = model.tokenizer->vocabulary();
  std::vector<std::string> texts(static_cast<size_t>(model.info.vocab_size));
  for (TokenId id = 0; id < model.info.vocab_size; ++id) {
    if (!vocabulary.Contains(id)) continue;
    std::string& text = texts[static_cast<size_t>(id)];
    if (vocabulary.IsSpecial(id)) {
      text = grammar::SpecialTokenBytes(id);
      continue;
    }
    const std::string_view piece = vocabulary.Piece(id);
    // kSpecialTokenByte never occurs in UTF-8; the automata mark special tokens with it.
    if (piece.find(static_cast<char>(grammar::kSpecialTokenByte)) == std::string_view::npos)
      text = piece;
  }
  std::vector<TokenId> ends = vocabulary.eog_tokens();
  std::erase_if(ends, [&](TokenId id) { return id >= model.info.vocab_size; });
  trie = grammar::TokenTrie::Create(std::move(texts), std::move(ends));
  return trie;
}

std::shared_ptr<grammar::TokenMasker> Constraints::FindLocked(const std::string& key) {
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
  if (known == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, known);
  return known->masker;
}

std::shared_ptr<grammar::TokenMasker> Constraints::Find(const ServedModel& model,
                                                        const grammar::Structure& structure,
                                                        const std::string& variant) {
  const std::string key = KeyOf(model, structure) + variant;
  const MutexLock lock(mutex_);
  return FindLocked(key);
}

void Constraints::UseFor(const ServedModel& model, const grammar::Structure& structure,
                         const std::string& variant, std::shared_ptr<grammar::TokenMasker> masker) {
  std::string key = KeyOf(model, structure) + variant;
  const MutexLock lock(mutex_);
  if (FindLocked(key) != nullptr) return;
  // The automaton counts for both entries, because either may outlive the other.
  const auto same = std::find_if(kept_.begin(), kept_.end(),
                                 [&](const Kept& kept) { return kept.masker == masker; });
  const size_t bytes = key.size() + (same == kept_.end() ? 0 : same->bytes);
  KeepLocked(std::move(key), std::move(masker), bytes);
}

void Constraints::KeepLocked(std::string key, std::shared_ptr<grammar::TokenMasker> masker,
                             size_t bytes) {
  kept_.push_front({std::move(key), std::move(masker), bytes});
  kept_bytes_ += bytes;
  while (kept_.size() > kMaxKept || (kept_bytes_ > kMaxKeptBytes && kept_.size() > 1)) {
    kept_bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
}

void Constraints::Forget(const ServedModel& model) {
  if (model.adapter == nullptr) {  // an adapter has the tokenizer of its base
    const MutexLock lock(trie_mutex_);
    tries_.erase(model.tokenizer);
  }
  const std::string prefix = PrefixOf(model);
  const MutexLock lock(mutex_);
  std::erase_if(kept_, [&](const Kept& kept) {
    if (!kept.key.starts_with(prefix)) return false;
    kept_bytes_ -= kept.bytes;
    return true;
  });
}

Result<std::shared_ptr<grammar::TokenMasker>> Constraints::Get(const ServedModel& model,
                                                               const grammar::Structure& structure,
                                                               const grammar::Limits& limits,
                                                               const std::atomic<bool>* cancelled) {
  std::string key = KeyOf(model, structure);
  {
    const MutexLock lock(mutex_);
    if (std::shared_ptr<grammar::TokenMasker> known = FindLocked(key); known != nullptr)
      return known;
  }
  Result<std::shared_ptr<const grammar::Automaton>> automaton =
      grammar::Compile(structure, limits, cancelled);
  if (!automaton.ok()) {
    Status status = std::move(automaton).status();
    // Limits are those of the whole text.
    if (!status.param().empty() || structure.param.empty()) return status;
    return std::move(status).WithParam(structure.param);
  }
  const size_t bytes = key.size() + (*automaton)->memory_bytes();
  auto masker = std::make_shared<grammar::TokenMasker>(*std::move(automaton), TrieOf(model));
  const MutexLock lock(mutex_);
  // Another request may have compiled the same meanwhile.
  if (std::shared_ptr<grammar::TokenMasker> known = FindLocked(key); known != nullptr) return known;
  KeepLocked(std::move(key), masker, bytes);
  return masker;
}

}  // namespace tutti::gateway
