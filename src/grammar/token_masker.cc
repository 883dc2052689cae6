#include "grammar/token_masker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tutti::grammar {
namespace {

// Places that the making of one mask may visit: about 50 ms.
constexpr uint64_t kMaxMaskWork = 3'000'000;
// Masks that are kept, in bytes; made anew where they are needed again.
constexpr size_t kMaxMaskBytes = size_t{16} << 20;

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
  return sets_->Next(set, trie_->text(token));
}

void TokenMasker::Walk(SetId set, uint32_t first, uint32_t behind, TokenMask& mask,
                       std::vector<OpenMask::Return>* returns) {
  if (first == behind) return;
  const uint32_t base = trie_->depth(first) - 1;
  path_[base] = set;
  for (uint32_t node = first; node < behind;) {
    const uint32_t depth = trie_->depth(node);
    const SetId next = sets_->Next(path_[depth - 1], trie_->byte(node));
    if (next == StateSets::kDead) {
      node = trie_->behind(node);
      continue;
    }
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
}

const TokenMasker::OpenMask* TokenMasker::MakeOpenMask(SetId cut) {
  const auto known = open_masks_.find(cut);
  if (known != open_masks_.end()) return known->second.get();
  auto open = std::make_unique<OpenMask>(OpenMask{TokenMask(trie_->vocabulary()), {}});
  Walk(cut, 1, static_cast<uint32_t>(trie_->nodes()), open->allowed, &open->returns);
  open_bytes_ += open->allowed.words().size() * 8 + open->returns.size() * 8;
  return open_masks_.emplace(cut, std::move(open)).first->second.get();
}

std::shared_ptr<const TokenMask> TokenMasker::Mask(SetId set, bool ends) {
  ends = ends && sets_->complete(set);
  const uint64_t key = uint64_t{set} * 2 + (ends ? 1 : 0);
  const auto known = masks_.find(key);
  if (known != masks_.end()) return known->second;
  const uint64_t before = sets_->work();
  std::shared_ptr<TokenMask> mask;
  const SetId cut = sets_->CutOff(set, static_cast<uint32_t>(trie_->longest()));
  if (cut != StateSets::kDead) {
    const OpenMask* open = MakeOpenMask(cut);
    mask = std::make_shared<TokenMask>(open->allowed);
    const std::vector<FrameId> frames = sets_->Frames(set);
    for (const OpenMask::Return& at : open->returns) {
      for (size_t i = 0; i < frames.size(); ++i) {
        if ((at.frames & (1U << i)) == 0) continue;
        const SetId resumed = sets_->Resume(frames[i]);
        if (resumed == StateSets::kDead) continue;
        for (const TokenId id : trie_->tokens(at.node)) mask->Allow(id);
        if (sets_->HasPlaces(resumed))
          Walk(resumed, at.node + 1, trie_->behind(at.node), *mask, nullptr);
      }
      if (sets_->work() - before > kMaxMaskWork) return nullptr;
    }
  } else {
    mask = std::make_shared<TokenMask>(trie_->vocabulary());
    Walk(set, 1, static_cast<uint32_t>(trie_->nodes()), *mask, nullptr);
  }
  if (sets_->overflowed() || sets_->work() - before > kMaxMaskWork) return nullptr;
  if (ends) {
    for (const TokenId id : trie_->ends()) mask->Allow(id);
  }
  if ((masks_.size() + 1) * mask->words().size() * 8 > kMaxMaskBytes) masks_.clear();
  masks_.emplace(key, mask);
  return mask;
}

std::string TokenMasker::Forced(SetId set, size_t most) {
  std::string forced;
  while (forced.size() < most && set != StateSets::kDead && !sets_->complete(set)) {
    std::array<bool, 256> can{};
    int others = 0, spaces = 0;
    uint8_t other = 0, space = 0;
    const auto add = [&](uint8_t byte) {
      if (can[byte]) return;
      can[byte] = true;
      if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') {
        ++spaces;
        space = byte;
      } else {
        ++others;
        other = byte;
      }
    };
    for (const StateSets::Place& place : sets_->places(set)) {
      for (const Automaton::ByteEdge& edge : automaton_->bytes(automaton_->state(place.state))) {
        for (int byte = edge.first; byte <= edge.last && others < 2; ++byte)
          add(static_cast<uint8_t>(byte));
      }
      if (others > 1) break;
    }
    if (others > 1 || (others == 0 && spaces != 1)) break;
    const uint8_t byte = others == 1 ? other : space;
    forced.push_back(static_cast<char>(byte));
    set = sets_->Next(set, byte);
  }
  return forced;
}

void TokenMasker::Trim() {
  if (memory_bytes() <= max_bytes_) return;
  auto fresh = std::make_unique<StateSets>(automaton_);
  for (Matcher* matcher : live_) matcher->state_ = sets_->CopyTo(*fresh, matcher->state_);
  sets_ = std::move(fresh);
  masks_.clear();
  open_masks_.clear();
  open_bytes_ = 0;
}

size_t TokenMasker::memory_bytes() const {
  return sets_->memory_bytes() + open_bytes_ + masks_.size() * (trie_->vocabulary() / 8 + 100);
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
