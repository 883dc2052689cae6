#include "engine/speculation.h"

#include <algorithm>

namespace tutti::engine {
namespace {

// Time for catching up beyond kDraftLittleToRead in one step: limits the delay of the next tokens.
constexpr Duration kReadingTime = std::chrono::milliseconds(10);
constexpr int kReadAtLeast = 16;
// Number of tokens for which a sequence is expected to continue, at most up to its target: the
// benefit of catching up is estimated over them.
constexpr int kLookAhead = 256;
constexpr double kReadingPays = 1.05;  // minimum gain for which catching up is considered
// Share of the time of steps without the model's draft tokens that is spent on trying them again.
constexpr double kLookShare = 0.01;
constexpr double kMaxAllowance = 5e8;  // ns
constexpr int kLookSteps = 4, kLookTokens = 2;
// After this many steps in which drafting was not worth it, older acceptance counts weigh half.
constexpr int kForgetAfter = 16;

}  // namespace

Speculation::Speculation(double pass) : passes_(pass) {
  offers_.reserve(kMaxDraftSequences);
  rows_.reserve(kMaxDraftSequences);
  room_.reserve(kMaxDraftSequences);
  copy_from_.reserve(kMaxDraftSequences);
  requests_.reserve(kMaxDraftSequences);
}

void Speculation::Begin() {
  offers_.clear();
  rows_.clear();
  room_.clear();
  copy_from_.clear();
  requests_.clear();
}

void Speculation::Add(Sequence& s, int room, bool propose_forced) {
  rows_.push_back(&s);
  room_.push_back(room);
  DraftOffer& offer = offers_.emplace_back();
  s.lookup.Advance(s.tokens, copied_);
  s.prediction.Advance(s.tokens, copied_);
  const auto fill = [&](DraftSource source, const AcceptanceStats& own, int agreed,
                        const AcceptanceStats& others) {
    offer.source = source;
    offer.available = room;
    double chance = 1;
    for (int j = 0; j < room; ++j) {
      chance *= own.Chance(agreed + j, others);
      offer.chance[static_cast<size_t>(j)] = chance;
    }
  };
  if (propose_forced && s.matcher) s.forced.Advance(s.tokens, s.matcher, forced_);
  const std::span<const TokenId> forced = s.forced.next();
  const std::span<const TokenId> expected = s.prediction.next();
  copy_from_.push_back(!forced.empty()     ? CopyFrom::kGrammar
                       : !expected.empty() ? CopyFrom::kPrediction
                                           : CopyFrom::kText);
  if (!forced.empty()) {
    fill(DraftSource::kCopied, s.forced.hits(), s.forced.agreed(), forced_);
    offer.available = std::min(room, static_cast<int>(forced.size()));
    if (s.draft.on) s.draft.Settle(s.tokens);
    return;
  }
  const bool copies = s.lookup.source() >= 0 || !expected.empty();
  if (!expected.empty()) {
    fill(DraftSource::kCopied, s.prediction.hits(), s.prediction.agreed(), copied_);
    offer.available = std::min(room, static_cast<int>(expected.size()));
  } else if (copies) {
    fill(DraftSource::kCopied, s.lookup.hits(), s.lookup.agreed(), copied_);
  }
  if (!s.draft.on) return;
  s.draft.Settle(s.tokens);
  if (s.draft.Backlog(s.tokens) > kDraftLittleToRead) return;
  const double first = s.draft.hits.Chance(s.draft.streak, modelled_);
  if (!copies || (room > 0 && first > offer.chance[0]))
    fill(DraftSource::kModel, s.draft.hits, s.draft.streak, modelled_);
}

void Speculation::Choose(int rows_left) {
  ChooseDrafts(cost_, passes_, rows_left, offers_);
  for (size_t i = 0; i < rows_.size(); ++i) {
    DraftOffer& offer = offers_[i];
    if (offer.source != DraftSource::kModel) continue;
    DraftState& draft = rows_[i]->draft;
    if (offer.take > 0) {
      draft.passed_over = 0;
      requests_.push_back({.sequence = rows_[i], .row = static_cast<int>(i), .wanted = offer.take});
    } else if (++draft.passed_over % kForgetAfter == 0) {
      draft.hits.Fade();
    }
  }
  ChooseReading();
  if (requests_.empty()) LookAgain(rows_left);
}

int Speculation::AppendCopied(int i) {
  const DraftOffer& offer = offers_[static_cast<size_t>(i)];
  if (offer.source != DraftSource::kCopied) return 0;
  Sequence& s = *rows_[static_cast<size_t>(i)];
  const CopyFrom from = copy_from_[static_cast<size_t>(i)];
  const std::span<const TokenId> guessed =
      from == CopyFrom::kGrammar ? s.forced.next() : s.prediction.next();
  for (int j = 0; j < offer.take; ++j) {
    s.tokens.push_back(from == CopyFrom::kText
                           ? s.tokens[static_cast<size_t>(s.lookup.source() + j)]
                           : guessed[static_cast<size_t>(j)]);
  }
  return offer.take;
}

int Speculation::ReadAtOnce(double step_ns) const {
  const double row = passes_.Row(step_ns);
  if (row <= 0) return 2 * kReadAtLeast;
  return static_cast<int>(std::clamp(static_cast<double>(kReadingTime.count()) / row,
                                     double{kReadAtLeast}, double{kDraftReadAtMost}));
}

void Speculation::AskToRead(int row) {
  Sequence& s = *rows_[static_cast<size_t>(row)];
  const int at_once = ReadAtOnce(cost_.Without(static_cast<int>(rows_.size())));
  requests_.push_back(
      {.sequence = &s, .row = row, .catch_up = std::min(s.draft.Backlog(s.tokens), at_once)});
}

void Speculation::ChooseReading() {
  const auto sequences = static_cast<int>(rows_.size());
  const double without = cost_.Without(sequences);
  if (without == 0) return;
  std::array<double, kMaxDrafts> chance{};
  double all = 1;
  for (int j = 0; j < kMaxDrafts; ++j)
    chance[static_cast<size_t>(j)] = all *= modelled_.Chance(j, modelled_);
  double gain = 0;
  for (int i = 0; i < sequences; ++i) {
    const Sequence& s = *rows_[static_cast<size_t>(i)];
    if (!s.draft.on || s.draft.Backlog(s.tokens) <= kDraftLittleToRead) continue;
    if (gain == 0) gain = ModelGain(cost_, passes_, sequences, chance);
    if (gain < kReadingPays) return;
    const int ahead = std::min(s.target_tokens - static_cast<int>(s.tokens.size()), kLookAhead);
    const double saved = without / sequences * (1 - 1 / gain) * ahead;
    if (s.draft.Backlog(s.tokens) * passes_.Row(without) >= saved) continue;
    return AskToRead(i);  // one in a step
  }
}

void Speculation::LookAgain(int rows_left) {
  const auto sequences = static_cast<int>(rows_.size());
  int drafts = 0, nearest = -1;
  for (const DraftOffer& offer : offers_) drafts += offer.take;
  for (int i = 0; i < sequences; ++i) {
    const Sequence& s = *rows_[static_cast<size_t>(i)];
    if (!s.draft.on || room_[static_cast<size_t>(i)] < kLookTokens) continue;
    if (nearest < 0 ||
        s.draft.Backlog(s.tokens) < rows_[static_cast<size_t>(nearest)]->draft.Backlog(
                                        rows_[static_cast<size_t>(nearest)]->tokens))
      nearest = i;
  }
  const int most = std::min(rows_left - drafts, kMaxDraftRows - sequences - drafts);
  const double without = cost_.Without(sequences);
  if (nearest < 0 || most < kLookTokens || without == 0) return;
  Sequence& s = *rows_[static_cast<size_t>(nearest)];
  const int backlog = s.draft.Backlog(s.tokens);
  if (look_steps_ == 0) {
    const double looking =
        backlog * passes_.Row(without) + kLookSteps * kLookTokens * passes_.Pass(1, without);
    if (looking > allowance_ns_) return;
    look_steps_ = kLookSteps;
  }
  if (backlog > kDraftLittleToRead) return AskToRead(nearest);
  DraftOffer& offer = offers_[static_cast<size_t>(nearest)];
  if (offer.take > 0) return;  // it copies
  --look_steps_;
  offer.source = DraftSource::kModel;
  requests_.push_back({.sequence = &s, .row = nearest, .wanted = kLookTokens});
}

void Speculation::ModelRan(const DraftTimes& times) {
  passes_.ObserveCatchUp(times.rows_read, times.reading);
  passes_.ObservePasses(times.sequences, times.passes, times.proposing);
  allowance_ns_ -= static_cast<double>((times.reading + times.proposing).count());
  allowance_ns_ = std::max(allowance_ns_, 0.0);
}

void Speculation::NoteModel(Sequence& s, int proposed, int accepted) {
  DraftState& draft = s.draft;
  for (int k = 0; k < std::min(proposed, accepted + 1); ++k) {
    const bool hit = k < accepted;
    draft.hits.Note(draft.streak, hit);
    modelled_.Note(draft.streak, hit);
    draft.streak = hit ? draft.streak + 1 : 0;
  }
}

void Speculation::StepTook(int sequences, int draft_rows, Duration forward) {
  cost_.Observe(sequences, sequences + draft_rows, forward);
  if (requests_.empty())
    allowance_ns_ =
        std::min(allowance_ns_ + kLookShare * static_cast<double>(forward.count()), kMaxAllowance);
}

}  // namespace tutti::engine
