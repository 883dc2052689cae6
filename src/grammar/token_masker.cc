#include "grammar/token_masker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::grammar {
namespace {

// Nodes of the vocabulary are passed in some 5 ns; a place, edge or call of a set that is made
// takes about four times as long.
constexpr uint64_t kWorkOfStep = 4;
// Masks that are kept, in bytes; made anew where they are needed again.
constexpr size_t kMaxMaskBytes = size_t{6} << 20;

}  // namespace

TokenMasker::TokenMasker(std::shared_ptr<const Automaton> automaton,
                         std::shared_ptr<const TokenTrie> trie, size_t max_bytes)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      max_bytes_(max_bytes),
      sets_(std::make_unique<StateSets>(automaton_)),
      path_(trie_->longest() + 1) {}

SetId TokenMasker::Next(SetId set, TokenId token) {
  if (token < 0 || static_cast<size_t>(token) >= trie_->vocabulary()) return StateSets::kDead;
  if (trie_->IsEnd(token)) return sets_->complete(set) ? set : StateSets::kDead;
  if (trie_->text(token).empty()) return StateSets::kDead;
  const SetId next = sets_->Next(set, trie_->text(token));
  return next == StateSets::kOverflow ? StateSets::kDead : next;
}

bool TokenMasker::Walk(SetId set, uint32_t first, uint32_t behind, TokenMask& mask,
                       std::vector<OpenMask::Return>* returns, uint64_t& work) {
  if (first == behind) return true;
  const uint32_t base = trie_->depth(first) - 1;
  path_[base] = set;
  for (uint32_t node = first; node < behind;) {
    const uint32_t depth = trie_->depth(node);
    const SetId from = path_[depth - 1];
    const SetId next = sets_->Next(from, trie_->byte(node));
    // Sets count whether they are known already or not, so that no request fails because of what
    // others did.
    ++work;
    if (FirstTime(from, trie_->byte(node)))
      work += kWorkOfStep * sets_->steps(from, trie_->byte(node));
    if (next == StateSets::kDead) {
      node = trie_->behind(node);
      continue;
    }
    if (next == StateSets::kOverflow || work > MaxWork()) return false;
    if (returns != nullptr && sets_->returns(next) != 0) {
      returns->push_back({node, sets_->returns(next)});
    }
    if (!sets_->HasPlaces(next) && !sets_->complete(next)) {
      node = trie_->behind(node);
      continue;
    }
    for (const TokenId id : trie_->tokens(node)) mask.Allow(id);
    if (!sets_->HasPlaces(next)) {
      node = trie_->behind(node);
      continue;
    }
    path_[depth] = next;
    ++node;
  }
  return true;
}

bool TokenMasker::FirstTime(SetId set, uint8_t byte) {
  const size_t at = size_t{set} * sets_->classes() + automaton_->ClassOf(byte);
  if (at >= passed_.size()) passed_.resize(sets_->size() * sets_->classes());
  if (passed_[at] == mask_) return false;
  passed_[at] = mask_;
  return true;
}

const TokenMasker::OpenMask* TokenMasker::MakeOpenMask(SetId cut) {
  const auto known = open_masks_.find(cut);
  if (known != open_masks_.end()) return known->second.get();
  ++mask_;
  auto open = std::make_unique<OpenMask>(OpenMask{.allowed = TokenMask(trie_->vocabulary())});
  open->whole = Walk(cut, 1, static_cast<uint32_t>(trie_->nodes()), open->allowed, &open->returns,
                     open->work);
  open_bytes_ += open->allowed.words().size() * 8 + open->returns.size() * 8;
  return open_masks_.emplace(cut, std::move(open)).first->second.get();
}

std::shared_ptr<const TokenMask> TokenMasker::Mask(SetId set, bool ends) {
  ends = ends && sets_->complete(set);
  const uint64_t key = uint64_t{set} * 2 + (ends ? 1 : 0);
  const auto known = masks_.find(key);
  if (known != masks_.end()) return known->second;
  uint64_t work = 0;
  ++mask_;
  std::shared_ptr<TokenMask> mask;
  const SetId cut = sets_->CutOff(set, static_cast<uint32_t>(trie_->longest()));
  if (cut != StateSets::kDead) {
    const OpenMask* open = MakeOpenMask(cut);
    if (!open->whole) return nullptr;
    ++mask_;  // the work of the walk above counts, whoever made it
    work = open->work;
    mask = std::make_shared<TokenMask>(open->allowed);
    const std::vector<FrameId> frames = sets_->Frames(set);
    for (const OpenMask::Return& at : open->returns) {
      for (size_t i = 0; i < frames.size(); ++i) {
        if ((at.frames & (1U << i)) == 0) continue;
        const SetId resumed = sets_->Resume(frames[i]);
        if (resumed == StateSets::kDead) continue;
        if (resumed == StateSets::kOverflow) return nullptr;
        for (const TokenId id : trie_->tokens(at.node)) mask->Allow(id);
        if (sets_->HasPlaces(resumed) &&
            !Walk(resumed, at.node + 1, trie_->behind(at.node), *mask, nullptr, work))
          return nullptr;
      }
    }
  } else {
    mask = std::make_shared<TokenMask>(trie_->vocabulary());
    if (!Walk(set, 1, static_cast<uint32_t>(trie_->nodes()), *mask, nullptr, work)) return nullptr;
  }
  if (ends) {
    for (const TokenId id : trie_->ends()) mask->Allow(id);
  }
  if ((masks_.size() + 1) * mask->words().size() * 8 > kMaxMaskBytes) masks_.clear();
  masks_.emplace(key, mask);
  return mask;
}

void TokenMasker::Trim() {
  if (memory_bytes() <= max_bytes_) return;
  auto fresh = std::make_unique<StateSets>(automaton_);
  for (Matcher* matcher : live_) matcher->state_ = sets_->CopyTo(*fresh, matcher->state_);
  sets_ = std::move(fresh);
  masks_.clear();
  open_masks_.clear();
  open_bytes_ = 0;
  passed_.clear();
}

size_t TokenMasker::memory_bytes() const {
  return sets_->memory_bytes() + passed_.size() * sizeof(uint32_t) + open_bytes_ +
         masks_.size() * (trie_->vocabulary() / 8 + 100);
}

Matcher::Matcher(Matcher&& other) noexcept : masker_(std::move(other.masker_)) {
  CHECK(!other.started_);
}

Matcher& Matcher::operator=(Matcher&& other) noexcept {
  CHECK(!started_ && !other.started_);
  masker_ = std::move(other.masker_);
  return *this;
}

bool Matcher::Take(TokenId token) {
  const SetId next = masker_->Next(state(), token);
  if (next == StateSets::kDead) return false;
  if (!started_) masker_->live_.push_back(this);
  started_ = true;
  state_ = next;
  return true;
}

void Matcher::Leave() {
  if (started_) std::erase(masker_->live_, this);
  started_ = false;
}

}  // namespace tutti::grammar
