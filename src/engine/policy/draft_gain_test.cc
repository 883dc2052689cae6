#include "engine/policy/draft_gain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tutti::engine {
namespace {

using std::chrono::microseconds;

DraftOffer OfferOf(int available, double chance_of_each) {
  DraftOffer offer;
  offer.available = available;
  double all = 1;
  for (double& chance : offer.chance) chance = all *= chance_of_each;
  return offer;
}

// A machine on which a row more costs `row` of a step.
DraftCost Learnt(int sequences, double row) {
  DraftCost cost;
  for (int rows = kMaxDraftRows; rows >= sequences; --rows)
    cost.Observe(sequences, rows,
                 microseconds(static_cast<int>(10'000 * (1 + row * (rows - sequences)))));
  return cost;
}

int Taken(const DraftCost& cost, std::vector<DraftOffer> offers, int room = 100) {
  ChooseDrafts(cost, PassCost(), room, offers);
  return std::accumulate(offers.begin(), offers.end(), 0,
                         [](int sum, const DraftOffer& offer) { return sum + offer.take; });
}

TEST(DraftGain, WhereRowsCostNothingAllThatIsLikelyIsProposed) {
  EXPECT_EQ(Taken(Learnt(1, 0), {OfferOf(7, 0.9)}), 7);
  EXPECT_EQ(Taken(Learnt(1, 0), {OfferOf(3, 0.9)}), 3);
  EXPECT_EQ(Taken(Learnt(1, 0), {OfferOf(7, 0.9)}, /*room=*/2), 2);
  EXPECT_EQ(Taken(Learnt(1, 0), {OfferOf(0, 0.9)}), 0);
}

TEST(DraftGain, WhereARowCostsAStepNothingIsProposedHoweverLikely) {
  EXPECT_EQ(Taken(Learnt(1, 1), {OfferOf(7, 0.99)}), 0);
  EXPECT_EQ(
      Taken(Learnt(4, 0.25), {OfferOf(7, 0.9), OfferOf(7, 0.9), OfferOf(7, 0.9), OfferOf(7, 0.9)}),
      0);
}

TEST(DraftGain, HowManyFollowsFromChanceAndCost) {
  // A row costs a quarter of a step: it must come true more often than that.
  const DraftCost cost = Learnt(1, 0.25);
  EXPECT_EQ(Taken(cost, {OfferOf(7, 0.2)}), 0);
  const int likely = Taken(cost, {OfferOf(7, 0.8)}), likelier = Taken(cost, {OfferOf(7, 0.97)});
  EXPECT_GT(likely, 0);
  EXPECT_GT(likelier, likely);
}

TEST(DraftGain, NeverMoreThan16RowsAndNothingBeyond8Sequences) {
  for (int sequences = 1; sequences <= 12; ++sequences) {
    const std::vector<DraftOffer> offers(static_cast<size_t>(sequences), OfferOf(7, 0.99));
    const DraftCost cost = Learnt(std::min(sequences, kMaxDraftSequences), 0);
    const int taken = Taken(cost, offers);
    EXPECT_LE(sequences + taken, std::max(sequences, kMaxDraftRows));
    EXPECT_EQ(taken > 0, sequences <= 8) << sequences;
    std::vector<DraftOffer> chosen = offers;
    ChooseDrafts(cost, PassCost(), 100, chosen);
    for (const DraftOffer& offer : chosen)
      EXPECT_LE(sequences * (1 + offer.take), 16 + 15 * (taken == 0));
  }
}

TEST(DraftGain, TheLikeliestSequencesComeFirst) {
  std::vector<DraftOffer> offers = {OfferOf(7, 0.05), OfferOf(7, 0.95)};
  ChooseDrafts(Learnt(2, 0.1), PassCost(), 100, offers);
  EXPECT_EQ(offers[0].take, 0);
  EXPECT_GT(offers[1].take, 2);
}

TEST(DraftGain, NoDraftsBeforeAPlainStepIsMeasuredAndAgainAtIntervals) {
  DraftCost cost;
  EXPECT_EQ(Taken(cost, {OfferOf(7, 0.99)}), 0);
  cost.Observe(1, 1, microseconds(10'000));
  EXPECT_GT(Taken(cost, {OfferOf(7, 0.99)}), 0);
  int without = 0;
  for (int i = 0; i < 1000; ++i) {
    const int taken = Taken(cost, {OfferOf(7, 0.99)});
    without += taken == 0 ? 1 : 0;
    cost.Observe(1, 1 + taken, microseconds(10'000));
  }
  EXPECT_GE(without, 10);
  EXPECT_LE(without, 20);
}

TEST(DraftGain, BetweenMeasuredStepsTimesAreInProportion) {
  DraftCost cost;
  cost.Observe(1, 1, microseconds(10'000));
  cost.Observe(1, 8, microseconds(24'000));
  EXPECT_NEAR(cost.Ratio(1, 8), 2.4, 1e-9);
  EXPECT_NEAR(cost.Ratio(1, 3), 1.4, 1e-9);
  cost.Observe(1, 4, microseconds(10'000));
  EXPECT_NEAR(cost.Ratio(1, 3), 1.0, 1e-9);
  EXPECT_NEAR(cost.Ratio(1, 6), 1.7, 1e-9);
  EXPECT_NEAR(cost.Ratio(1, 12), 2.4, 1e-9);
  cost.Observe(1, 5, microseconds(9'000));
  EXPECT_EQ(cost.Ratio(1, 5), 1.0);
}

// If drafting does not pay, it is tried, switched off, and from then on tried once in some hundred
// steps.
TEST(DraftGain, SwitchesItselfOffWhereItDoesNotPayAndOnAgainWhenItDoes) {
  DraftCost cost;
  const auto run = [&](int steps, double row) {
    int with = 0;
    for (int i = 0; i < steps; ++i) {
      const int taken = Taken(cost, {OfferOf(7, 0.9)});
      with += taken > 0 ? 1 : 0;
      cost.Observe(1, 1 + taken, microseconds(static_cast<int>(10'000 * (1 + row * taken))));
    }
    return with;
  };
  EXPECT_LT(run(2000, 1), 25);
  EXPECT_GT(run(4000, 0), 2000);
}

TEST(DraftGain, ChanceFollowsTheSequencesOwnHitsAndForNewOnesThoseOfAll) {
  AcceptanceStats own, others;
  const double before = own.Chance(3, others);
  for (int i = 0; i < 100; ++i) others.Note(3, false);
  EXPECT_LT(own.Chance(3, others), before);
  EXPECT_EQ(own.Chance(10, others), AcceptanceStats().Chance(10, AcceptanceStats()));
  for (int i = 0; i < 20; ++i) own.Note(3, true);
  EXPECT_GT(own.Chance(3, others), 0.8);
  for (int i = 0; i < 200; ++i) own.Note(3, false);
  EXPECT_LT(own.Chance(3, others), 0.1);
}

}  // namespace
}  // namespace tutti::engine
