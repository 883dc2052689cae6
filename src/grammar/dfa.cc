#include "grammar/dfa.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace tutti::grammar {
namespace {

using StateSet = std::vector<uint32_t>;  // ascending

struct StateSetHash {
  size_t operator()(const StateSet& set) const {
    uint64_t hash = 0x9E3779B97F4A7C15ULL + set.size();
    for (const uint32_t value : set) hash = (hash ^ value) * 0xFF51AFD7ED558CCDULL + (hash >> 29);
    return static_cast<size_t>(hash ^ (hash >> 32));
  }
};

// Position of an attempt to match: an NFA state, whether a byte was read, and whether the end of
// the text was asserted, after which no byte may be read.
constexpr uint32_t kRead = 1, kEnded = 2;
// A pair of states in a vector, and in a hash table.
constexpr size_t kPairBytes = 64;
constexpr uint32_t Place(uint32_t state, uint32_t phase) { return state * 4 + phase; }

}  // namespace

class DfaBuilder {
 public:
  explicit DfaBuilder(Budget& budget) : budget_(budget) {}

  std::shared_ptr<const Dfa> Determinise(const Nfa& nfa) {
    FindClasses([&](auto cut) {
      for (const auto& edges : nfa.states) {
        for (const NfaEdge& edge : edges) {
          if (edge.kind == NfaEdge::Kind::kBytes) cut(edge.first, edge.last);
        }
      }
    });
    std::unordered_map<StateSet, uint32_t, StateSetHash> known;
    std::vector<StateSet> sets;
    size_t set_bytes = 0;
    const auto id_of = [&](StateSet set) -> uint32_t {
      if (set.empty()) return Dfa::kDead;
      const auto [at, fresh] =
          known.try_emplace(std::move(set), static_cast<uint32_t>(sets.size()));
      if (fresh) {
        sets.push_back(at->first);
        const size_t bytes = 2 * at->first.size() * sizeof(uint32_t) + 150;
        set_bytes += bytes;
        budget_.TakeBytes(bytes);
        AddState(std::any_of(at->first.begin(), at->first.end(),
                             [&](uint32_t place) { return place / 4 == nfa.accept; }));
      }
      return at->second;
    };
    const size_t split_bytes = nfa.states.size() * (4 * sizeof(uint32_t) + sizeof(empty_[0]) + 32);
    if (!budget_.TakeBytes(split_bytes)) return nullptr;
    seen_.assign(nfa.states.size() * 4, 0);
    SplitEdges(nfa);
    id_of(Close(nfa, {Place(nfa.start, 0)}));
    std::vector<StateSet> moved(dfa_->classes_);
    size_t moved_bytes = 0;
    for (uint32_t s = 0; s < sets.size(); ++s) {
      if (budget_.exhausted()) break;
      for (StateSet& set : moved) set.clear();
      for (const uint32_t place : StateSet(sets[s])) {
        if ((place & kEnded) != 0) continue;
        for (const NfaEdge& edge : nfa.states[place / 4]) {
          if (edge.kind != NfaEdge::Kind::kBytes) continue;
          const uint32_t last = dfa_->class_of_[edge.last];
          for (uint32_t c = dfa_->class_of_[edge.first]; c <= last; ++c)
            moved[c].push_back(Place(edge.to, nfa.has_anchors ? kRead : 0));
          budget_.Take(1 + last - dfa_->class_of_[edge.first]);
        }
      }
      size_t room = 0;
      for (const StateSet& set : moved) room += set.capacity() * sizeof(uint32_t);
      budget_.TakeBytes(room - moved_bytes);  // a vector that was cleared keeps its room
      moved_bytes = room;
      for (uint32_t c = 0; c < dfa_->classes_ && !budget_.exhausted(); ++c) {
        if (moved[c].empty()) continue;
        const uint32_t target = id_of(Close(nfa, moved[c]));
        dfa_->next_[size_t{s} * dfa_->classes_ + c] = target;
      }
    }
    budget_.ReturnBytes(set_bytes + moved_bytes + split_bytes);
    known.clear();
    sets.clear();
    return Finish();
  }

  // State 0 reads the first quote, s + 1 is s of `a`, and the last state stands behind the end.
  std::shared_ptr<const Dfa> Quote(const Dfa& a) {
    if (a.empty()) return Finish();
    FindClasses([&](auto cut) {
      CutAs(a, cut);
      cut('"', '"');
    });
    const std::array<uint8_t, 256> member = Members();
    const uint32_t classes = dfa_->classes_, quote = dfa_->class_of_['"'], end = a.states() + 1;
    for (uint32_t s = 0; s <= end && !budget_.exhausted(); ++s) AddState(s == end);
    if (budget_.exhausted()) return nullptr;
    dfa_->next_[quote] = a.start() + 1;
    for (uint32_t s = 0; s < a.states(); ++s) {
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t next = a.Next(s, member[c]);
        if (next != Dfa::kDead) dfa_->next_[size_t{s + 1} * classes + c] = next + 1;
      }
      if (!a.accepts(s)) continue;
      uint32_t& closing = dfa_->next_[size_t{s + 1} * classes + quote];
      CHECK(closing == Dfa::kDead);
      closing = end;
    }
    budget_.ReturnBytes(taken_);
    return budget_.TakeBytes(dfa_->bytes()) ? std::move(dfa_) : nullptr;
  }

  // The reachable pairs of states. A dead `b` is kept if `subtract`.
  std::shared_ptr<const Dfa> Product(const Dfa& a, const Dfa& b, bool subtract) {
    if (a.empty()) return Finish();
    FindClasses([&](auto cut) {
      CutAs(a, cut);
      CutAs(b, cut);
    });
    const std::array<uint8_t, 256> member = Members();
    std::unordered_map<uint64_t, uint32_t> known;
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    const auto id_of = [&](uint32_t x, uint32_t y) {
      const auto [at, fresh] =
          known.try_emplace(uint64_t{x} << 32 | y, static_cast<uint32_t>(pairs.size()));
      if (fresh) {
        budget_.TakeBytes(kPairBytes);
        taken_ += kPairBytes;
        pairs.emplace_back(x, y);
        const bool in_b = y != Dfa::kDead && b.accepts(y);
        AddState(a.accepts(x) && in_b != subtract);
      }
      return at->second;
    };
    if (b.empty() && !subtract) return Finish();
    id_of(a.start(), b.empty() ? Dfa::kDead : b.start());
    for (uint32_t s = 0; s < pairs.size() && !budget_.exhausted(); ++s) {
      const auto [x, y] = pairs[s];
      for (uint32_t c = 0; c < dfa_->classes_; ++c) {
        const uint32_t next_x = a.Next(x, member[c]);
        if (next_x == Dfa::kDead) continue;
        const uint32_t next_y = y == Dfa::kDead ? Dfa::kDead : b.Next(y, member[c]);
        if (next_y == Dfa::kDead && !subtract) continue;
        const uint32_t target = id_of(next_x, next_y);
        dfa_->next_[size_t{s} * dfa_->classes_ + c] = target;
        budget_.Take(4);
      }
    }
    return Finish();
  }

 private:
  // Each call of cut(first, last) separates these bytes from all others.
  template <class Cuts>
  void FindClasses(Cuts cuts) {
    std::array<bool, 257> begins{};
    cuts([&](uint8_t first, uint8_t last) {
      begins[first] = true;
      begins[size_t{last} + 1] = true;
    });
    uint8_t current = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && begins[byte]) ++current;
      dfa_->class_of_[byte] = current;
    }
    dfa_->classes_ = uint32_t{current} + 1;
  }

  // Separates bytes that `dfa` distinguishes.
  template <class Cut>
  static void CutAs(const Dfa& dfa, Cut cut) {
    for (size_t byte = 1; byte < 256; ++byte) {
      if (dfa.class_of_[byte] != dfa.class_of_[byte - 1]) cut(static_cast<uint8_t>(byte), 255);
    }
  }

  // A byte of each class.
  std::array<uint8_t, 256> Members() const {
    std::array<uint8_t, 256> member{};
    for (size_t byte = 0; byte < 256; ++byte)
      member[dfa_->class_of_[byte]] = static_cast<uint8_t>(byte);
    return member;
  }

  void AddState(bool accepts) {
    dfa_->accepts_.push_back(accepts);
    dfa_->next_.resize(dfa_->accepts_.size() * dfa_->classes_, Dfa::kDead);
    budget_.Take(8 + dfa_->classes_ / 4);
    // Twice, as vectors grow by doubling.
    budget_.TakeBytes(2 * dfa_->classes_ * sizeof(uint32_t) + 1);
    taken_ += 2 * dfa_->classes_ * sizeof(uint32_t) + 1;
    if (dfa_->accepts_.size() > budget_.limits().states) budget_.Exhaust();
  }

  // Edges that read a byte and those that do not are stored separately: some states have hundreds.
  void SplitEdges(const Nfa& nfa) {
    empty_.resize(nfa.states.size());
    reads_.resize(nfa.states.size());
    for (size_t s = 0; s < nfa.states.size(); ++s) {
      for (const NfaEdge& edge : nfa.states[s]) {
        if (edge.kind == NfaEdge::Kind::kBytes) {
          reads_[s] = true;
        } else {
          empty_[s].push_back(edge);
        }
      }
      budget_.Take(1 + nfa.states[s].size());
    }
  }

  // Adds the positions that `places` reach without reading a byte.
  StateSet Close(const Nfa& nfa, const StateSet& places) {
    StateSet closed;
    const auto visit = [&](uint32_t place) {
      if (seen_[place] == round_) return;
      seen_[place] = round_;
      closed.push_back(place);
    };
    ++round_;
    for (const uint32_t place : places) visit(place);
    for (size_t i = 0; i < closed.size(); ++i) {
      const uint32_t phase = closed[i] % 4;
      for (const NfaEdge& edge : empty_[closed[i] / 4]) {
        if (edge.kind == NfaEdge::Kind::kEmpty) {
          visit(Place(edge.to, phase));
        } else if (edge.kind == NfaEdge::Kind::kTextStart && (phase & kRead) == 0) {
          visit(Place(edge.to, phase));
        } else if (edge.kind == NfaEdge::Kind::kTextEnd) {
          visit(Place(edge.to, phase | kEnded));
        }
      }
      budget_.Take(1 + empty_[closed[i] / 4].size());
    }
    // Keeps only positions from which a byte can be read, or that accept.
    std::erase_if(closed,
                  [&](uint32_t place) { return place / 4 != nfa.accept && !reads_[place / 4]; });
    std::sort(closed.begin(), closed.end());
    return closed;
  }

  std::shared_ptr<const Dfa> Finish() {
    // Lists of sources, and a second table.
    const size_t trim_bytes = dfa_->states() * (64 + dfa_->classes_ * sizeof(uint32_t));
    budget_.TakeBytes(trim_bytes);
    if (!budget_.exhausted()) Trim();
    if (!budget_.exhausted()) Merge();
    budget_.ReturnBytes(taken_ + trim_bytes);
    if (budget_.exhausted() || !budget_.TakeBytes(dfa_->bytes())) return nullptr;
    return std::move(dfa_);
  }

  // Removes states from which no accepting state can be reached.
  void Trim() {
    const uint32_t count = dfa_->states(), classes = dfa_->classes_;
    std::vector<std::vector<uint32_t>> sources(count);
    for (uint32_t s = 0; s < count; ++s) {
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t target = dfa_->next_[size_t{s} * classes + c];
        if (target != Dfa::kDead && (sources[target].empty() || sources[target].back() != s))
          sources[target].push_back(s);
      }
    }
    budget_.Take(uint64_t{count} * classes / 4);
    std::vector<bool> live(count);
    std::vector<uint32_t> todo;
    for (uint32_t s = 0; s < count; ++s) {
      if (!dfa_->accepts_[s]) continue;
      live[s] = true;
      todo.push_back(s);
    }
    while (!todo.empty()) {
      const uint32_t s = todo.back();
      todo.pop_back();
      for (const uint32_t source : sources[s]) {
        if (live[source]) continue;
        live[source] = true;
        todo.push_back(source);
      }
    }
    std::vector<uint32_t> renamed(count, Dfa::kDead);
    uint32_t kept = 0;
    for (uint32_t s = 0; s < count; ++s) {
      if (live[s]) renamed[s] = kept++;
    }
    if (kept > 0 && !live[0]) kept = 0;  // nothing is accepted from the start
    Rename(renamed, kept);
  }

  // Renames state s to renamed[s]; kDead removes it. Of several states with one new name, the first
  // one's edges are kept.
  void Rename(const std::vector<uint32_t>& renamed, uint32_t count) {
    const uint32_t classes = dfa_->classes_;
    std::vector<uint32_t> next(size_t{count} * classes, Dfa::kDead);
    std::vector<bool> accepts(count), filled(count);
    for (uint32_t s = 0; s < renamed.size() && count > 0; ++s) {
      const uint32_t to = renamed[s];
      if (to == Dfa::kDead || filled[to]) continue;
      filled[to] = true;
      accepts[to] = dfa_->accepts_[s];
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t target = dfa_->next_[size_t{s} * classes + c];
        next[size_t{to} * classes + c] = target == Dfa::kDead ? Dfa::kDead : renamed[target];
      }
    }
    dfa_->next_ = std::move(next);
    dfa_->accepts_ = std::move(accepts);
  }

  // Merges states that accept the same texts, by refining a partition until it is stable (Moore,
  // "Gedanken-experiments on sequential machines", 1956). Long chains need many rounds: then the
  // automaton stays as it is, which is right too, only larger.
  void Merge() {
    constexpr uint64_t kMaxRounds = 40;
    constexpr uint64_t kMaxWork = 3'000'000;  // a smaller automaton is not worth a refusal
    const uint32_t count = dfa_->states(), classes = dfa_->classes_;
    const uint64_t round_work = uint64_t{count} * (classes / 2 + 16);
    const uint64_t rounds = std::min(kMaxRounds, kMaxWork / std::max<uint64_t>(round_work, 1));
    if (count < 2 || rounds < 2 || uint64_t{count} * classes > 1'000'000) return;
    std::vector<uint32_t> group(count);
    for (uint32_t s = 0; s < count; ++s) group[s] = dfa_->accepts_[s] ? 1 : 0;
    uint32_t groups = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
      std::unordered_map<StateSet, uint32_t, StateSetHash> known;
      std::vector<uint32_t> refined(count);
      StateSet key(classes + 1);
      for (uint32_t s = 0; s < count; ++s) {
        key[0] = group[s];
        for (uint32_t c = 0; c < classes; ++c) {
          const uint32_t target = dfa_->next_[size_t{s} * classes + c];
          key[c + 1] = target == Dfa::kDead ? Dfa::kDead : group[target];
        }
        refined[s] = known.try_emplace(key, static_cast<uint32_t>(known.size())).first->second;
      }
      if (!budget_.Take(round_work)) return;
      const auto now = static_cast<uint32_t>(known.size());
      group = std::move(refined);
      if (now == groups) {
        if (now < count) Rename(group, now);  // state 0 is in group 0
        return;
      }
      groups = now;
    }
  }

  Budget& budget_;
  std::shared_ptr<Dfa> dfa_ = std::make_shared<Dfa>();
  size_t taken_ = 0;
  std::vector<std::vector<NfaEdge>> empty_;  // of each NFA state, those that read nothing
  std::vector<bool> reads_;                  // of each NFA state: it has others
  std::vector<uint32_t> seen_;               // by place: the last round that visited it
  uint32_t round_ = 0;
};

std::shared_ptr<const Dfa> Dfa::FromNfa(const Nfa& nfa, Budget& budget) {
  CHECK(!nfa.has_calls);
  if (budget.exhausted()) return nullptr;
  return DfaBuilder(budget).Determinise(nfa);
}

std::shared_ptr<const Dfa> Dfa::FromExpr(const Grammar& grammar, ExprId body, Budget& budget) {
  const Nfa nfa = MakeNfa(grammar, body, budget);
  std::shared_ptr<const Dfa> dfa = FromNfa(nfa, budget);
  budget.ReturnBytes(nfa.bytes);
  return dfa;
}

std::shared_ptr<const Dfa> Dfa::Intersect(const Dfa& a, const Dfa& b, Budget& budget) {
  return DfaBuilder(budget).Product(a, b, /*subtract=*/false);
}

std::shared_ptr<const Dfa> Dfa::Subtract(const Dfa& a, const Dfa& b, Budget& budget) {
  return DfaBuilder(budget).Product(a, b, /*subtract=*/true);
}

std::shared_ptr<const Dfa> Dfa::Quote(const Dfa& a, Budget& budget) {
  return DfaBuilder(budget).Quote(a);
}

bool Dfa::Accepts(std::string_view text) const {
  if (empty()) return false;
  uint32_t state = start();
  for (const char c : text) {
    state = Next(state, static_cast<uint8_t>(c));
    if (state == kDead) return false;
  }
  return accepts(state);
}

}  // namespace tutti::grammar
