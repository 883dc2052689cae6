#include "grammar/nfa.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "grammar/dfa.h"

namespace tutti::grammar {
namespace {

class NfaBuilder {
 public:
  NfaBuilder(const Grammar& grammar, Budget& budget) : grammar_(grammar), budget_(budget) {}

  Nfa Build(ExprId body) && {
    nfa_.start = AddState();
    nfa_.accept = AddState();
    Add(body, nfa_.start, nfa_.accept);
    return std::move(nfa_);
  }

 private:
  uint32_t AddState() {
    budget_.Take(4);
    Charge(kNfaStateBytes);
    nfa_.states.emplace_back();
    return static_cast<uint32_t>(nfa_.states.size() - 1);
  }
  void AddEdge(uint32_t from, NfaEdge edge) {
    budget_.Take(1);
    Charge(sizeof(NfaEdge));
    nfa_.states[from].push_back(edge);
  }
  void Charge(size_t bytes) {
    budget_.TakeBytes(bytes);
    nfa_.bytes += bytes;
  }
  void AddEmpty(uint32_t from, uint32_t to) { AddEdge(from, {.to = to}); }
  void AddBytes(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
    AddEdge(from, {.kind = NfaEdge::Kind::kBytes, .first = first, .last = last, .to = to});
  }

  // Edges for `id` from one state to another. Neither gets other edges by it that lead back in.
  void Add(ExprId id, uint32_t from, uint32_t to) {
    if (budget_.exhausted()) return;
    const Expr& expr = grammar_.expr(id);
    switch (expr.kind) {
      case Expr::Kind::kNever:
        return;
      case Expr::Kind::kEmpty:
        return AddEmpty(from, to);
      case Expr::Kind::kBytes:
        return AddText(expr.text, from, to);
      case Expr::Kind::kByteRange:
        return AddBytes(from, static_cast<uint8_t>(expr.min), static_cast<uint8_t>(expr.max), to);
      case Expr::Kind::kChars:
        for (const CodeRange& range : grammar_.set(expr.set).ranges())
          AddRange(range.first, range.last, from, to);
        return;
      case Expr::Kind::kConcat: {
        for (size_t i = 0; i < expr.children.size(); ++i) {
          const uint32_t next = i + 1 == expr.children.size() ? to : AddState();
          Add(grammar_.expr(id).children[i], from, next);
          from = next;
        }
        return;
      }
      case Expr::Kind::kAlternate:
        for (const ExprId child : expr.children) {
          // A loop at the beginning of a branch must not lead into the others.
          const uint32_t begin = AddState(), end = AddState();
          AddEmpty(from, begin);
          AddEmpty(end, to);
          Add(child, begin, end);
        }
        return;
      case Expr::Kind::kRepeat:
        return AddRepeat(expr, from, to);
      case Expr::Kind::kRule:
        nfa_.has_calls = true;
        return AddEdge(from, {.kind = NfaEdge::Kind::kCall, .rule = expr.rule, .to = to});
      case Expr::Kind::kToken:
        return AddText(SpecialTokenBytes(static_cast<TokenId>(expr.rule)), from, to);
      case Expr::Kind::kDfa:
        return AddDfa(grammar_.dfa(expr.set), from, to);
      case Expr::Kind::kTextStart:
        nfa_.has_anchors = true;
        return AddEdge(from, {.kind = NfaEdge::Kind::kTextStart, .to = to});
      case Expr::Kind::kTextEnd:
        nfa_.has_anchors = true;
        return AddEdge(from, {.kind = NfaEdge::Kind::kTextEnd, .to = to});
    }
  }

  void AddText(std::string_view text, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = i + 1 == text.size() ? to : AddState();
      const auto byte = static_cast<uint8_t>(text[i]);
      AddBytes(from, byte, byte, next);
      from = next;
    }
  }

  void AddRepeat(const Expr& expr, uint32_t from, uint32_t to) {
    const ExprId child = expr.children[0];
    const uint32_t min = expr.min, max = expr.max;
    for (uint32_t i = 0; i < min && !budget_.exhausted(); ++i) {
      const uint32_t next = AddState();
      Add(child, from, next);
      from = next;
    }
    if (max == kUnlimited) {
      const uint32_t loop = AddState(), end = AddState();
      AddEmpty(from, loop);
      Add(child, loop, end);
      AddEmpty(end, loop);
      AddEmpty(loop, to);
      return;
    }
    AddEmpty(from, to);
    for (uint32_t i = min; i < max && !budget_.exhausted(); ++i) {
      const uint32_t begin = AddState(), next = AddState();
      AddEmpty(from, begin);
      Add(child, begin, next);
      AddEmpty(next, to);
      from = next;
    }
  }

  void AddDfa(const Dfa& dfa, uint32_t from, uint32_t to) {
    const auto offset = static_cast<uint32_t>(nfa_.states.size());
    for (uint32_t s = 0; s < dfa.states(); ++s) AddState();
    AddEmpty(from, offset + dfa.start());
    for (uint32_t s = 0; s < dfa.states() && !budget_.exhausted(); ++s) {
      dfa.ForEachRange(s, [&](uint8_t first, uint8_t last, uint32_t next) {
        AddBytes(offset + s, first, last, offset + next);
      });
      if (dfa.accepts(s)) AddEmpty(offset + s, to);
    }
  }

  // The UTF-8 forms of a range of characters, as sequences of byte ranges: the range is cut where
  // the number of bytes changes and where the last bytes do not run through all values.
  void AddRange(char32_t first, char32_t last, uint32_t from, uint32_t to) {
    constexpr std::array<char32_t, 3> kLengthEnds = {0x7F, 0x7FF, 0xFFFF};
    for (const char32_t end : kLengthEnds) {
      if (first <= end && last > end) {
        AddRange(first, end, from, to);
        return AddRange(end + 1, last, from, to);
      }
    }
    for (int i = 1; i < 4 && last > 0x7F; ++i) {
      const char32_t mask = (char32_t{1} << (6 * i)) - 1;
      if ((first & ~mask) == (last & ~mask)) continue;
      if ((first & mask) != 0) {
        AddRange(first, first | mask, from, to);
        return AddRange((first | mask) + 1, last, from, to);
      }
      if ((last & mask) != mask) {
        AddRange(first, (last & ~mask) - 1, from, to);
        return AddRange(last & ~mask, last, from, to);
      }
    }
    std::string low, high;
    AppendUtf8(first, low);
    AppendUtf8(last, high);
    for (size_t i = 0; i < low.size(); ++i) {
      const uint32_t next = i + 1 == low.size() ? to : AddState();
      AddBytes(from, static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i]), next);
      from = next;
    }
  }

  const Grammar& grammar_;
  Budget& budget_;
  Nfa nfa_;
};

}  // namespace

Nfa MakeNfa(const Grammar& grammar, ExprId body, Budget& budget) {
  return NfaBuilder(grammar, budget).Build(body);
}

}  // namespace tutti::grammar
