#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "runner/cpu_encoder_runner.h"

namespace tutti::runner {
namespace {

std::vector<EncoderSlice> Cut(const std::vector<int>& lengths, int workers) {
  std::vector<int32_t> offsets = {0};
  for (const int length : lengths) offsets.push_back(offsets.back() + length);
  std::vector<EncoderSlice> slices;
  CutSlices(offsets, workers, slices);
  return slices;
}

std::vector<int> Counts(const std::vector<int>& lengths, int workers) {
  std::vector<int> counts;
  for (const EncoderSlice& slice : Cut(lengths, workers)) counts.push_back(slice.count);
  return counts;
}

TEST(EncoderSlices, EqualTextsAreSharedEvenly) {
  EXPECT_EQ(Counts(std::vector<int>(32, 16), 2), (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(Counts(std::vector<int>(8, 128), 2), (std::vector<int>(8, 1)));
  EXPECT_EQ(Counts({16, 16}, 2), (std::vector<int>{1, 1}));
  EXPECT_EQ(Counts(std::vector<int>(32, 16), 1), (std::vector<int>{8, 8, 8, 8}));
}

TEST(EncoderSlices, WhatCannotBeSharedIsComputedTogether) {
  EXPECT_TRUE(Cut({16}, 2).empty()) << "one text";
  EXPECT_TRUE(Cut({200, 16}, 2).empty()) << "one of two does most of it";
  EXPECT_TRUE(Cut({16, 16, 16}, 2).empty()) << "two against one";
  EXPECT_TRUE(Cut(std::vector<int>(200, 1), 100).empty()) << "more workers than are counted";
}

TEST(EncoderSlices, EveryItemIsInOneSliceInOrderAndNoShareIsMuchLonger) {
  Random random(7);
  int cut = 0;
  for (int round = 0; round < 2000; ++round) {
    const int workers = 1 + static_cast<int>(random.Uniform() * 8);
    std::vector<int> lengths(1 + static_cast<size_t>(random.Uniform() * 40));
    int rows = 0;
    for (int& length : lengths) {
      length = 1 + static_cast<int>(random.Uniform() * 100);
      rows += length;
    }
    const auto slices = Cut(lengths, workers);
    if (slices.empty()) continue;
    ++cut;
    int next = 0;
    std::vector<int> loads(static_cast<size_t>(workers));  // rows by worker; the freest takes next
    for (const EncoderSlice& slice : slices) {
      EXPECT_EQ(slice.first, next);
      EXPECT_GE(slice.count, 1);
      next += slice.count;
      int size = 0;
      for (int i = 0; i < slice.count; ++i) size += lengths[static_cast<size_t>(slice.first + i)];
      EXPECT_TRUE(slice.count == 1 || size <= 2 * kSliceRows) << "fits a worker";
      *std::min_element(loads.begin(), loads.end()) += size;
    }
    const int mean = (rows + workers - 1) / workers;
    EXPECT_LE(*std::max_element(loads.begin(), loads.end()), mean + mean / 8);
    EXPECT_EQ(next, static_cast<int>(lengths.size()));
  }
  EXPECT_GT(cut, 500);
}

}  // namespace
}  // namespace tutti::runner
