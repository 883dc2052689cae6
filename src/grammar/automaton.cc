#include "grammar/automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "grammar/dfa.h"
#include "grammar/json_text.h"
#include "grammar/nfa.h"

namespace tutti::grammar {

namespace {

std::string ShortRuleName(const std::string& name) {
  constexpr size_t kMaxBytes = 128;
  return name.substr(0, ValidUtf8Prefix(std::string_view(name).substr(0, kMaxBytes)));
}

}  // namespace

// Works on the states of all rules as lists of edges, and packs them in the end.
class AutomatonBuilder {
 public:
  AutomatonBuilder(const Grammar& grammar, Budget& budget) : grammar_(grammar), budget_(budget) {}

  Result<std::shared_ptr<const Automaton>> Build() {
    FindUsedRules();
    info_.resize(grammar_.rules());
    for (const RuleId rule : used_) {
      AddRule(rule);
      if (budget_.exhausted()) return budget_.status();
    }
    FindProductive();
    if (!productive_[grammar_.root])
      return InvalidArgument("grammar_empty", "grammar matches no text: " + Contradiction());
    Prune();
    FindNullable();
    RETURN_IF_ERROR(CheckLeftRecursion());
    if (!budget_.Take(states_.size())) return budget_.status();
    return Pack();
  }

 private:
  // The first rule that has no match of its own, if there is one.
  std::string Contradiction() const {
    for (const RuleId rule : used_) {
      if (grammar_.rule(rule).body == grammar_.Never())
        return "nothing satisfies " + ShortRuleName(grammar_.rule(rule).name);
    }
    return "its rules contradict each other";
  }

  struct Edges {
    std::vector<NfaEdge> edges = {};
    RuleId rule = 0;
    bool accepts = false;
    bool counts = false;  // see Automaton::State
    uint32_t least = 0;
  };

  void FindUsedRules() {
    std::vector<bool> seen(grammar_.rules());
    std::vector<bool> visited(grammar_.exprs());
    seen[grammar_.root] = true;
    used_ = {grammar_.root};
    for (size_t i = 0; i < used_.size(); ++i) {
      std::vector<ExprId> todo = {grammar_.rule(used_[i]).body};
      while (!todo.empty()) {
        const ExprId id = todo.back();
        todo.pop_back();
        if (visited[id]) continue;
        visited[id] = true;
        const Expr& expr = grammar_.expr(id);
        todo.insert(todo.end(), expr.children.begin(), expr.children.end());
        if (expr.kind == Expr::Kind::kRule && !seen[expr.rule]) {
          seen[expr.rule] = true;
          used_.push_back(expr.rule);
        }
      }
    }
  }

  void AddRule(RuleId rule) {
    const Rule& from = grammar_.rule(rule);
    const auto offset = static_cast<uint32_t>(states_.size());
    const Expr& body = grammar_.expr(from.body);
    if (from.kind == RuleKind::kLimited) {
      CHECK(body.kind == Expr::Kind::kDfa);
      AddLimited(rule, grammar_.dfa(body.set));
      if (budget_.exhausted()) return;
    } else if (from.kind != RuleKind::kNested && body.kind == Expr::Kind::kDfa) {
      AddDfa(rule, grammar_.dfa(body.set));
    } else {
      const Nfa nfa = MakeNfa(grammar_, from.body, budget_);
      if (budget_.exhausted()) return;
      if (from.kind == RuleKind::kNested) {
        AddNfa(rule, nfa);
      } else {
        const std::shared_ptr<const Dfa> dfa = Dfa::FromNfa(nfa, budget_);
        if (dfa == nullptr) return;
        AddDfa(rule, *dfa);
      }
      budget_.ReturnBytes(nfa.bytes);
    }
    if (states_.size() > budget_.limits().states) budget_.Exhaust();
    // Each edge three times: here, among the sources of its target, and packed.
    size_t edges = 0;
    for (size_t s = offset; s < states_.size(); ++s) edges += states_[s].edges.size();
    budget_.TakeBytes((states_.size() - offset) * (2 * sizeof(Edges) + sizeof(Automaton::State)) +
                      edges * 3 * sizeof(NfaEdge));
  }

  void AddNfa(RuleId rule, const Nfa& nfa) {
    CHECK(!nfa.has_anchors);
    const auto offset = static_cast<uint32_t>(states_.size());
    info_[rule] = {.start = offset + nfa.start};
    for (const auto& edges : nfa.states) {
      Edges& state = states_.emplace_back(Edges{.edges = edges, .rule = rule});
      for (NfaEdge& edge : state.edges) edge.to += offset;
    }
    states_[offset + nfa.accept].accepts = true;
  }

  void AddDfa(RuleId rule, const Dfa& dfa) {
    const Rule& from = grammar_.rule(rule);
    const auto offset = static_cast<uint32_t>(states_.size());
    info_[rule] = {.start = offset,
                   .counted = from.kind == RuleKind::kCounted,
                   .min = from.min,
                   .max = from.max};
    // The empty language keeps a start state without edges.
    if (dfa.empty()) states_.emplace_back(Edges{.rule = rule});
    for (uint32_t s = 0; s < dfa.states(); ++s) {
      Edges& state = states_.emplace_back(Edges{.rule = rule, .accepts = dfa.accepts(s)});
      dfa.ForEachRange(s, [&](uint8_t first, uint8_t last, uint32_t to) {
        state.edges.push_back(
            {.kind = NfaEdge::Kind::kBytes, .first = first, .last = last, .to = offset + to});
      });
      budget_.Take(16 + state.edges.size());
      // An item of a counted rule ends where it can: no item begins another.
      if (info_[rule].counted && state.accepts) CHECK(state.edges.empty() && s != 0);
    }
  }

  // Where a text is between the quotes of a string, for AddLimited().
  enum Position : uint32_t {
    kBeforeQuote,
    kFirst,        // behind the first quote
    kNext,         // behind a character
    kBehindQuote,  // behind the last quote
    kInCharacter,  // and the number of the state within it
  };
  static uint32_t Follow(uint32_t position, uint8_t byte, const Dfa& character) {
    if (position == kBehindQuote) return Dfa::kDead;
    if (position == kBeforeQuote) return byte == '"' ? uint32_t{kFirst} : Dfa::kDead;
    if (position < kInCharacter && byte == '"') return kBehindQuote;
    const uint32_t to =
        character.Next(position < kInCharacter ? character.start() : position - kInCharacter, byte);
    if (to == Dfa::kDead) return Dfa::kDead;
    return character.accepts(to) ? uint32_t{kNext} : kInCharacter + to;
  }

  // The states of `strings`, each once for every position at which a text can be there.
  void AddLimited(RuleId rule, const Dfa& strings) {
    if (character_ == nullptr) {
      Grammar own(budget_);
      character_ = Dfa::FromExpr(own, Characters(own, CodePoints::All(), Spelling::kJson), budget_);
      if (character_ == nullptr) return;
    }
    const auto offset = static_cast<uint32_t>(states_.size());
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids;
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    const auto id_of = [&](uint32_t state, uint32_t position) {
      const auto [at, fresh] =
          ids.try_emplace({state, position}, static_cast<uint32_t>(pairs.size()));
      if (!fresh) return offset + at->second;
      pairs.emplace_back(state, position);
      states_.emplace_back(Edges{.rule = rule,
                                 .accepts = position == kBehindQuote && strings.accepts(state),
                                 .counts = position == kNext});
      return offset + at->second;
    };
    id_of(strings.start(), kBeforeQuote);
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto [state, position] = pairs[i];
      std::vector<NfaEdge> edges;
      for (int byte = 0; byte < 256; ++byte) {
        const auto value = static_cast<uint8_t>(byte);
        const uint32_t to = strings.Next(state, value);
        const uint32_t there = to == Dfa::kDead ? Dfa::kDead : Follow(position, value, *character_);
        if (there == Dfa::kDead) continue;
        const uint32_t id = id_of(to, there);
        if (!edges.empty() && edges.back().to == id && edges.back().last + 1 == byte) {
          edges.back().last = value;
        } else {
          edges.push_back({.kind = NfaEdge::Kind::kBytes, .first = value, .last = value, .to = id});
        }
      }
      states_[offset + i].edges = std::move(edges);
      if (!budget_.Take(100)) return;
      if (states_.size() > budget_.limits().states) return budget_.Exhaust();
    }
    info_[rule] = {.start = offset, .limited = true, .max = grammar_.rule(rule).max};
    info_[rule].spare = MeasureLeast(offset);
    // Not even the shortest string is short enough: no state may end.
    if (states_[offset].least <= info_[rule].max) return;
    for (size_t s = offset; s < states_.size(); ++s) states_[s].accepts = false;
  }

  // Sets the `least` of the states from `offset` on, and returns the largest. Those from which no
  // match can be reached are pruned later.
  uint32_t MeasureLeast(uint32_t offset) {
    std::vector<std::vector<uint32_t>> sources(states_.size() - offset);
    std::deque<uint32_t> todo;  // in order of `least`
    std::vector<bool> done(states_.size() - offset);
    for (uint32_t s = offset; s < states_.size(); ++s) {
      states_[s].least = states_[s].accepts ? 0 : UINT32_MAX;
      if (states_[s].accepts) todo.push_back(s);
      for (const NfaEdge& edge : states_[s].edges) sources[edge.to - offset].push_back(s);
    }
    uint32_t largest = 0;
    while (!todo.empty()) {
      const uint32_t s = todo.front();
      todo.pop_front();
      if (done[s - offset]) continue;
      done[s - offset] = true;
      const uint32_t least = states_[s].least + (states_[s].counts ? 1 : 0);
      largest = std::max(largest, states_[s].least);
      budget_.Take(1 + sources[s - offset].size());
      for (const uint32_t source : sources[s - offset]) {
        if (least >= states_[source].least) continue;
        states_[source].least = least;
        states_[s].counts ? todo.push_back(source) : todo.push_front(source);
      }
    }
    return largest;
  }

  // Rules that match at least one text, in rounds: a call counts once its rule does.
  void FindProductive() {
    productive_.assign(grammar_.rules(), false);
    live_.assign(states_.size(), false);
    std::vector<std::vector<uint32_t>> sources(states_.size());
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> callers(grammar_.rules());
    std::vector<uint32_t> todo;
    for (uint32_t s = 0; s < states_.size(); ++s) {
      for (const NfaEdge& edge : states_[s].edges) {
        if (edge.kind == NfaEdge::Kind::kCall) {
          callers[edge.rule].emplace_back(s, edge.to);
        } else {
          sources[edge.to].push_back(s);
        }
      }
      if (states_[s].accepts) {
        live_[s] = true;
        todo.push_back(s);
      }
    }
    const auto revive = [&](uint32_t s) {
      if (live_[s]) return;
      live_[s] = true;
      todo.push_back(s);
    };
    const auto produce = [&](RuleId rule) {
      if (productive_[rule]) return;
      productive_[rule] = true;
      for (const auto& [from, to] : callers[rule]) {
        sources[to].push_back(from);
        if (live_[to]) revive(from);
      }
    };
    for (const RuleId rule : used_) {
      if (info_[rule].counted && info_[rule].min == 0) produce(rule);
    }
    while (!todo.empty()) {
      const uint32_t s = todo.back();
      todo.pop_back();
      if (info_[states_[s].rule].start == s) produce(states_[s].rule);
      for (const uint32_t source : std::vector<uint32_t>(sources[s])) revive(source);
    }
  }

  void Prune() {
    for (Edges& state : states_) {
      std::erase_if(state.edges, [&](const NfaEdge& edge) {
        return !live_[edge.to] || (edge.kind == NfaEdge::Kind::kCall && !productive_[edge.rule]);
      });
    }
  }

  // Rules that match the empty text.
  void FindNullable() {
    nullable_.assign(grammar_.rules(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (const RuleId rule : used_) {
        if (nullable_[rule]) continue;
        bool empty = info_[rule].counted && info_[rule].min == 0;
        if (!empty) {
          ForEachLeft(rule, [&](uint32_t s) { empty = empty || states_[s].accepts; });
        }
        if (!empty) continue;
        nullable_[rule] = changed = true;
      }
      if (!budget_.Take(states_.size())) return;
    }
  }

  // The states of a rule that can be reached without reading a byte.
  template <class Visit>
  void ForEachLeft(RuleId rule, Visit visit) {
    marks_.resize(states_.size(), 0);
    ++round_;
    std::vector<uint32_t> todo = {info_[rule].start};
    marks_[info_[rule].start] = round_;
    while (!todo.empty()) {
      const uint32_t s = todo.back();
      todo.pop_back();
      visit(s);
      for (const NfaEdge& edge : states_[s].edges) {
        const bool empty = edge.kind == NfaEdge::Kind::kEmpty ||
                           (edge.kind == NfaEdge::Kind::kCall && nullable_[edge.rule]);
        if (!empty || marks_[edge.to] == round_) continue;
        marks_[edge.to] = round_;
        todo.push_back(edge.to);
      }
      budget_.Take(1 + states_[s].edges.size());
      if (budget_.exhausted()) break;
    }
  }

  Status CheckLeftRecursion() {
    std::vector<std::vector<RuleId>> calls(grammar_.rules());
    for (const RuleId rule : used_) {
      if (info_[rule].counted) continue;
      ForEachLeft(rule, [&](uint32_t s) {
        for (const NfaEdge& edge : states_[s].edges) {
          if (edge.kind == NfaEdge::Kind::kCall) calls[rule].push_back(edge.rule);
        }
      });
    }
    if (budget_.exhausted()) return budget_.status();
    enum class Mark : uint8_t { kNew, kOpen, kDone };
    std::vector<Mark> marks(grammar_.rules(), Mark::kNew);
    std::vector<std::pair<RuleId, size_t>> path;
    for (const RuleId first : used_) {
      if (marks[first] != Mark::kNew) continue;
      path.emplace_back(first, 0);
      marks[first] = Mark::kOpen;
      while (!path.empty()) {
        auto& [rule, at] = path.back();
        if (at == calls[rule].size()) {
          marks[rule] = Mark::kDone;
          path.pop_back();
          continue;
        }
        const RuleId next = calls[rule][at++];
        if (marks[next] == Mark::kOpen) {
          return InvalidArgument("grammar_left_recursion",
                                 "rule " + ShortRuleName(grammar_.rule(next).name) +
                                     " calls itself before it reads anything; "
                                     "write it right-recursive");
        }
        if (marks[next] == Mark::kNew) {
          marks[next] = Mark::kOpen;
          path.emplace_back(next, 0);
        }
      }
    }
    return OkStatus();
  }

  Result<std::shared_ptr<const Automaton>> Pack() {
    auto out = std::make_shared<Automaton>();
    std::vector<uint32_t> renamed(states_.size(), UINT32_MAX);
    out->rules_.resize(grammar_.rules());
    uint32_t count = 0;
    std::vector<uint32_t> kept;
    const auto keep = [&](uint32_t s) {
      if (renamed[s] != UINT32_MAX) return;
      renamed[s] = count++;
      kept.push_back(s);
    };
    for (const RuleId rule : used_) {
      if (productive_[rule]) keep(info_[rule].start);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      for (const NfaEdge& edge : states_[kept[i]].edges) keep(edge.to);
    }
    std::array<bool, 257> begins{};
    for (const uint32_t s : kept) {
      const Edges& from = states_[s];
      Automaton::State& state = out->states_.emplace_back();
      state.rule = from.rule;
      state.accepts = from.accepts;
      state.counts = from.counts;
      state.least = from.least;
      state.only_ends = from.accepts && from.edges.empty() && !info_[from.rule].counted;
      state.bytes_begin = static_cast<uint32_t>(out->bytes_.size());
      state.calls_begin = static_cast<uint32_t>(out->calls_.size());
      state.empties_begin = static_cast<uint32_t>(out->empties_.size());
      for (const NfaEdge& edge : from.edges) {
        const uint32_t to = renamed[edge.to];
        if (edge.kind == NfaEdge::Kind::kBytes) {
          out->bytes_.push_back({edge.first, edge.last, to});
          begins[edge.first] = begins[size_t{edge.last} + 1] = true;
        } else if (edge.kind == NfaEdge::Kind::kCall) {
          out->calls_.push_back({edge.rule, to});
        } else {
          out->empties_.push_back(to);
        }
      }
      state.bytes_end = static_cast<uint32_t>(out->bytes_.size());
      state.calls_end = static_cast<uint32_t>(out->calls_.size());
      state.empties_end = static_cast<uint32_t>(out->empties_.size());
    }
    for (const RuleId rule : used_) {
      Automaton::Rule& to = out->rules_[rule];
      to = info_[rule];
      to.start = productive_[rule] ? renamed[info_[rule].start] : 0;
    }
    uint8_t current = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && begins[byte]) ++current;
      out->class_of_[byte] = current;
    }
    out->classes_ = uint32_t{current} + 1;
    out->root_ = grammar_.root;
    return std::shared_ptr<const Automaton>(std::move(out));
  }

  const Grammar& grammar_;
  Budget& budget_;
  std::vector<RuleId> used_;
  std::vector<Automaton::Rule> info_;
  std::vector<Edges> states_;
  std::vector<bool> productive_, nullable_;  // by rule
  // One character of a JSON string; null until the first limited rule.
  std::shared_ptr<const Dfa> character_;
  std::vector<bool> live_;  // by state
  std::vector<uint32_t> marks_;
  uint32_t round_ = 0;
};

Result<std::shared_ptr<const Automaton>> Automaton::Create(const Grammar& grammar, Budget& budget) {
  return AutomatonBuilder(grammar, budget).Build();
}

size_t Automaton::memory_bytes() const {
  return states_.size() * sizeof(State) + rules_.size() * sizeof(Rule) +
         bytes_.size() * sizeof(ByteEdge) + calls_.size() * sizeof(CallEdge) +
         empties_.size() * sizeof(uint32_t);
}

}  // namespace tutti::grammar
