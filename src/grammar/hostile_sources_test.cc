// Hostile sources (testing/hostile_sources.h) compile or are refused by a code, within bounded
// memory. This file replaces operator new for the whole test program, to count bytes.
//
// With TUTTI_TEST_FULL (`make soak`) it prints what each source takes; no time is judged.
#include "grammar/testing/hostile_sources.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "amount.h"
#include "cpu_time.h"
#include "grammar/gbnf_parser.h"
#include "grammar/json_schema.h"
#include "grammar/regex_parser.h"
#include "grammar/token_masker.h"
#include "tokenizer/testing/reference_data.h"

namespace {

thread_local int64_t heap_bytes = 0, heap_peak = 0;

void* CountHeap(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  heap_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  heap_peak = std::max(heap_peak, heap_bytes);
  return memory;
}

void ReleaseHeap(void* memory) noexcept {
  heap_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void* AlignedHeap(size_t size, std::align_val_t align) {
  const auto step = static_cast<size_t>(align);
  return std::aligned_alloc(step, (size + step - 1) / step * step);
}

}  // namespace

void* operator new(size_t size) { return CountHeap(std::malloc(size)); }
void* operator new[](size_t size) { return CountHeap(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t align) {
  return CountHeap(AlignedHeap(size, align));
}
// A sanitizer's own would not come from malloc().
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size);
  return memory != nullptr ? CountHeap(memory) : nullptr;
}
void operator delete(void* memory) noexcept { ReleaseHeap(memory); }
void operator delete[](void* memory) noexcept { ReleaseHeap(memory); }
void operator delete(void* memory, size_t) noexcept { ReleaseHeap(memory); }
void operator delete[](void* memory, size_t) noexcept { ReleaseHeap(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ReleaseHeap(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { ReleaseHeap(memory); }

namespace tutti::grammar {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kMaxPeakMiB = 64;

// CPU time and the peak of the heap over what was there at the beginning.
class Meter {
 public:
  Meter() : bytes_(heap_bytes), start_s_(support::ThreadSeconds()) { heap_peak = heap_bytes; }
  double ms() const { return 1e3 * (support::ThreadSeconds() - start_s_); }
  double peak_mib() const { return static_cast<double>(heap_peak - bytes_) / kMiB; }

 private:
  const int64_t bytes_;
  const double start_s_;
};

struct SourceCost {
  std::string outcome = "compiled";
  double compile_ms = 0, compile_mib = 0;
  double first_mask_ms = 0, worst_mask_ms = 0, masks_mib = 0;
  int masks = 0;
  bool ambiguous = false;  // a mask was given up
};

std::shared_ptr<const TokenTrie> TrieOfVocabulary(const std::string& name) {
  const tokenizer::TokenizerSpec spec = tokenizer::testing::LoadSpec(name);
  const auto made = tokenizer::Tokenizer::Create(spec);
  CHECK(made.ok()) << made.status();
  const tokenizer::Vocabulary& vocabulary = (*made)->vocabulary();
  std::vector<std::string> texts(static_cast<size_t>(vocabulary.size()));
  for (TokenId id = 0; id < static_cast<TokenId>(texts.size()); ++id) {
    if (!vocabulary.Contains(id) || vocabulary.IsSpecial(id)) continue;
    texts[static_cast<size_t>(id)] = vocabulary.Piece(id);
  }
  return TokenTrie::Create(std::move(texts), vocabulary.eog_tokens());
}

// The first mask, and those of a random text.
void MeasureMasks(const std::shared_ptr<const Automaton>& automaton,
                  const std::shared_ptr<const TokenTrie>& trie, int steps, SourceCost& cost) {
  const Meter all;
  const auto masker = std::make_shared<TokenMasker>(automaton, trie);
  Matcher matcher(masker);
  std::mt19937 random(1);
  for (int step = 0; step < steps; ++step) {
    const Meter one;
    const std::shared_ptr<const TokenMask> mask = masker->Mask(matcher.state());
    cost.masks_mib = std::max(cost.masks_mib, all.peak_mib());
    cost.worst_mask_ms = std::max(cost.worst_mask_ms, one.ms());
    if (step == 0) cost.first_mask_ms = one.ms();
    ++cost.masks;
    cost.ambiguous = mask == nullptr;
    if (cost.ambiguous) break;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < static_cast<TokenId>(trie->vocabulary()); ++id) {
      if (mask->Allows(id) && !trie->IsEnd(id)) allowed.push_back(id);
    }
    if (allowed.empty()) break;
    if (!matcher.Take(allowed[random() % allowed.size()])) break;  // the stack is too deep
    masker->Trim();
    cost.masks_mib = std::max(cost.masks_mib, all.peak_mib());
  }
}

// As Compile(), with a budget that the test can read.
Result<RuleId> ParseSource(Grammar& grammar, const Structure& source, Budget& budget) {
  switch (source.kind) {
    case Structure::Kind::kJsonSchema:
      return AddJsonSchema(grammar, source.text, {}, budget);
    case Structure::Kind::kRegex: {
      ASSIGN_OR_RETURN(const ExprId body, ParseRegex(grammar, source.text, Spelling::kPlain,
                                                     RegexMatch::kWhole, budget));
      return grammar.AddRule("regex", RuleKind::kRegular, body);
    }
    default:
      return ParseGbnf(grammar, source.text, budget);
  }
}

// The units of a compilation that succeeds stay within the limit, and it is refused where fewer
// are allowed.
uint64_t WorkOf(const Structure& source) {
  const Limits limits;
  Budget budget(limits);
  Grammar grammar;
  const auto root = ParseSource(grammar, source, budget);
  if (!root.ok()) return 0;
  grammar.root = *root;
  if (!Automaton::Create(grammar, budget).ok()) return 0;
  EXPECT_LE(budget.work(), limits.work);
  return budget.work();
}

SourceCost Measure(const testing::HostileSource& hostile,
                   const std::shared_ptr<const TokenTrie>& trie, int steps) {
  SourceCost cost;
  const Meter meter;
  const Result<std::shared_ptr<const Automaton>> automaton = Compile(hostile.source);
  cost.compile_ms = meter.ms();
  cost.compile_mib = meter.peak_mib();
  if (!automaton.ok()) {
    cost.outcome = automaton.status().reason();
    return cost;
  }
  MeasureMasks(*automaton, trie, steps, cost);
  return cost;
}

bool IsCodeOfPage(std::string_view code) {
  constexpr std::array<std::string_view, 8> kCodes = {
      "grammar_too_complex",    "grammar_empty",  "grammar_regex",      "grammar_syntax",
      "grammar_left_recursion", "schema_invalid", "schema_unsupported", "schema_reference"};
  return std::find(kCodes.begin(), kCodes.end(), code) != kCodes.end();
}

TEST(HostileSources, CompileOrAreRefusedWithinLimits) {
  const bool full = support::Amount(1, 0, 0) != 0;
  const auto trie = TrieOfVocabulary(full ? "qwen2" : "smollm");
  const std::vector<testing::HostileSource> all = testing::HostileSources();
  ASSERT_GE(all.size(), 60u);
  const auto step = static_cast<size_t>(support::Amount(1, 8));
  if (full)
    std::printf("%-42s %-24s %9s %7s %9s %9s %7s\n", "source", "outcome", "ms", "MiB", "mask ms",
                "worst ms", "MiB");
  for (size_t i = 0; i < all.size(); i += step) {
    const SourceCost cost = Measure(all[i], trie, support::Amount(32, 8, 2));
    if (full) {
      std::printf("%-42s %-24s %9.1f %7.1f %9.2f %9.2f %7.1f%s\n", all[i].name.c_str(),
                  cost.outcome.c_str(), cost.compile_ms, cost.compile_mib, cost.first_mask_ms,
                  cost.worst_mask_ms, cost.masks_mib, cost.ambiguous ? " ambiguous" : "");
      std::fflush(stdout);
    }
    EXPECT_TRUE(cost.outcome == "compiled" || IsCodeOfPage(cost.outcome))
        << all[i].name << ": " << cost.outcome;
    if (!all[i].refusal.empty()) {
      EXPECT_EQ(cost.outcome, all[i].refusal) << all[i].name;
    }
    EXPECT_LE(cost.compile_mib, kMaxPeakMiB) << all[i].name;
    EXPECT_LE(cost.masks_mib, kMaxPeakMiB) << all[i].name;
  }
}

// The limit of work is what refuses: with less than a source takes, it is refused, and by that
// code.
TEST(HostileSources, AreRefusedWithLessWorkThanTheyTake) {
  int compiled = 0;
  const std::vector<testing::HostileSource> all = testing::HostileSources();
  for (size_t i = 0; i < all.size(); i += 5) {
    if (all[i].source.kind == Structure::Kind::kChoice) continue;
    const uint64_t work = WorkOf(all[i].source);
    if (work == 0) continue;
    ++compiled;
    const auto refused = Compile(all[i].source, {.work = work / 2});
    EXPECT_EQ(refused.status().reason(), "grammar_too_complex") << all[i].name;
  }
  EXPECT_GE(compiled, 5);
}

}  // namespace
}  // namespace tutti::grammar
