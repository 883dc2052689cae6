#include "grammar/token_masker.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "grammar/json_text.h"

namespace tutti::grammar {
namespace {

// Nodes of the vocabulary are passed in some 5 ns; a place, edge or call of a set that is made
// takes about four times as long.
constexpr uint64_t kWorkOfStep = 4;
// Most tokens that are checked one by one, and the least length of such a token.
constexpr size_t kMaxLongTokens = 64;
constexpr size_t kMinLongBytes = 8;
// Masks that are kept, in bytes; made anew where they are needed again.
constexpr size_t kMaxMaskBytes = size_t{6} << 20;

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

std::shared_ptr<const TokenTrie> TokenTrie::Create(std::vector<std::string> texts,
                                                   std::vector<TokenId> ends) {
  constexpr size_t kMaxIdsOfNode = UINT16_MAX;
  auto trie = std::make_shared<TokenTrie>();
  trie->texts_ = std::move(texts);
  trie->ends_ = std::move(ends);
  trie->is_end_.resize(trie->texts_.size());
  for (const TokenId id : trie->ends_) trie->is_end_[static_cast<size_t>(id)] = true;
  std::vector<TokenId> order;
  for (size_t i = 0; i < trie->texts_.size(); ++i) {
    const bool usable =
        !trie->texts_[i].empty() && !trie->is_end_[i] && trie->texts_[i].size() < UINT16_MAX;
    if (usable) order.push_back(static_cast<TokenId>(i));
  }
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    const int by_text = trie->text(a).compare(trie->text(b));
    return by_text != 0 ? by_text < 0 : a < b;
  });
  trie->nodes_.emplace_back();
  std::vector<uint32_t> path = {0};  // nodes from the root to the last token
  std::string_view last;
  for (const TokenId id : order) {
    const std::string_view text = trie->text(id);
    trie->longest_ = std::max(trie->longest_, text.size());
    const auto shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    while (path.size() > shared + 1) {
      trie->nodes_[path.back()].behind = static_cast<uint32_t>(trie->nodes_.size());
      path.pop_back();
    }
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(trie->nodes_.size()));
      trie->nodes_.push_back(
          {.depth = static_cast<uint16_t>(i + 1), .byte = static_cast<uint8_t>(text[i])});
    }
    Node& node = trie->nodes_[path.back()];
    if (node.ids == 0) node.first_id = static_cast<uint32_t>(trie->ids_.size());
    if (node.ids < kMaxIdsOfNode) {
      ++node.ids;
      trie->ids_.push_back(id);
    }
    last = text;
  }
  while (!path.empty()) {
    trie->nodes_[path.back()].behind = static_cast<uint32_t>(trie->nodes_.size());
    path.pop_back();
  }
  return trie;
}

size_t TokenTrie::memory_bytes() const {
  return nodes_.size() * sizeof(Node) + ids_.size() * sizeof(TokenId) +
         std::accumulate(texts_.begin(), texts_.end(), texts_.size() * sizeof(std::string),
                         [](size_t sum, const std::string& text) { return sum + text.size(); });
}

TokenMasker::TokenMasker(std::shared_ptr<const Automaton> automaton,
                         std::shared_ptr<const TokenTrie> trie, size_t max_bytes)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      max_bytes_(max_bytes),
      sets_(std::make_unique<StateSets>(automaton_)),
      path_(trie_->longest() + 1) {
  std::vector<size_t> lengths;
  for (TokenId id = 0; id < static_cast<TokenId>(trie_->vocabulary()); ++id) {
    if (!trie_->IsEnd(id)) lengths.push_back(trie_->text(id).size());
  }
  const size_t behind = std::min(kMaxLongTokens, lengths.size());
  if (behind < lengths.size()) {
    std::nth_element(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(behind),
                     lengths.end(), std::greater<>());
    reach_ = static_cast<uint32_t>(std::max(kMinLongBytes, lengths[behind]));
  } else {
    reach_ = kMinLongBytes;
  }
  for (TokenId id = 0; id < static_cast<TokenId>(trie_->vocabulary()); ++id) {
    if (!trie_->IsEnd(id) && trie_->text(id).size() > reach_) long_tokens_.push_back(id);
  }
  std::stable_sort(long_tokens_.begin(), long_tokens_.end(), [&](TokenId a, TokenId b) {
    return trie_->text(a).size() > trie_->text(b).size();
  });
  Prepare();
}

std::shared_ptr<const TokenMask> TokenMasker::CorrectLong(SetId set,
                                                          std::shared_ptr<const TokenMask> mask) {
  const uint32_t exact = sets_->exact_bytes(set);
  std::shared_ptr<TokenMask> corrected;
  for (const TokenId id : long_tokens_) {
    if (trie_->text(id).size() <= exact) break;
    const SetId next = sets_->Next(set, trie_->text(id));
    const bool follows = next != StateSets::kDead && next != StateSets::kOverflow;
    if (mask->Allows(id) == follows) continue;
    if (corrected == nullptr) corrected = std::make_shared<TokenMask>(*mask);
    if (follows) {
      corrected->Allow(id);
    } else {
      corrected->Forbid(id);
    }
  }
  return corrected != nullptr ? corrected : mask;
}

void TokenMasker::Prepare() {
  constexpr uint32_t kManyBytes = 64;  // that lead on from a state of free text
  constexpr int kMaxPrepared = 8;
  int prepared = 0;
  for (uint32_t s = 0; s < automaton_->states() && prepared < kMaxPrepared; ++s) {
    uint32_t bytes = 0;
    const Automaton::Rule& rule = automaton_->rule(automaton_->state(s).rule);
    bool loops = rule.counted || rule.limited;
    for (const Automaton::ByteEdge& edge : automaton_->bytes(automaton_->state(s))) {
      bytes += uint32_t{edge.last} - edge.first + 1;
      loops = loops || edge.to == s;
    }
    if (!loops || bytes < kManyBytes) continue;
    MakeOpenMask(sets_->OpenAt(s));
    ++prepared;
  }
}

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
    // Cached sets count as much as new ones, so that a request's success does not depend on other
    // requests.
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

std::shared_ptr<const TokenMask> TokenMasker::MaskOfCut(SetId cut,
                                                        const std::vector<FrameId>& frames) {
  std::vector<uint32_t> key = {cut};
  key.insert(key.end(), frames.begin(), frames.end());
  const auto known = cut_masks_.find(key);
  if (known != cut_masks_.end()) return known->second;
  const OpenMask* open = MakeOpenMask(cut);
  if (!open->whole) return nullptr;
  ++mask_;  // the work of the open mask counts for each of its users
  uint64_t work = open->work;
  auto mask = std::make_shared<TokenMask>(open->allowed);
  for (size_t i = 0; i < frames.size(); ++i) {
    const SetId resumed = sets_->Resume(frames[i]);
    if (resumed == StateSets::kDead) continue;
    if (resumed == StateSets::kOverflow) return nullptr;
    // There may be as many returns as nodes, most of which cannot go on.
    std::array<bool, 256> follows{};
    for (size_t byte = 0; byte < 256; ++byte)
      follows[byte] = sets_->Next(resumed, static_cast<uint8_t>(byte)) != StateSets::kDead;
    for (const OpenMask::Return& at : open->returns) {
      if ((at.frames & (1U << i)) == 0) continue;
      for (const TokenId id : trie_->tokens(at.node)) mask->Allow(id);
      const uint32_t behind = trie_->behind(at.node);
      for (uint32_t child = at.node + 1; child < behind; child = trie_->behind(child)) {
        if (follows[trie_->byte(child)] &&
            !Walk(resumed, child, trie_->behind(child), *mask, nullptr, work))
          return nullptr;
      }
    }
  }
  return cut_masks_.emplace(std::move(key), std::move(mask)).first->second;
}

std::shared_ptr<const TokenMask> TokenMasker::Mask(SetId set, bool ends) {
  ends = ends && sets_->complete(set);
  const uint64_t key = uint64_t{set} * 2 + (ends ? 1 : 0);
  const auto known = masks_.find(key);
  if (known != masks_.end()) return known->second;
  if ((masks_.size() + cut_masks_.size() + 2) * trie_->vocabulary() / 8 > kMaxMaskBytes) {
    masks_.clear();
    cut_masks_.clear();
  }
  std::shared_ptr<const TokenMask> mask;
  const SetId cut = sets_->CutOff(set, reach_);
  if (cut != StateSets::kDead) {
    mask = MaskOfCut(cut, sets_->Frames(set));
    if (mask != nullptr) mask = CorrectLong(set, std::move(mask));
  } else {
    ++mask_;
    uint64_t work = 0;
    auto whole = std::make_shared<TokenMask>(trie_->vocabulary());
    if (Walk(set, 1, static_cast<uint32_t>(trie_->nodes()), *whole, nullptr, work)) mask = whole;
  }
  if (mask == nullptr) return nullptr;
  if (ends && !trie_->ends().empty()) {
    auto with_ends = std::make_shared<TokenMask>(*mask);
    for (const TokenId id : trie_->ends()) with_ends->Allow(id);
    mask = std::move(with_ends);
  }
  masks_.emplace(key, mask);
  return mask;
}

void TokenMasker::Trim() {
  if (memory_bytes() <= max_bytes_) return;
  auto fresh = std::make_unique<StateSets>(automaton_);
  for (Matcher* matcher : live_) matcher->state_ = sets_->CopyTo(*fresh, matcher->state_);
  sets_ = std::move(fresh);
  masks_.clear();
  cut_masks_.clear();
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
