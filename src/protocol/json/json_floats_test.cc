// Lists of floats, which are written a block at a time.
#include <gtest/gtest.h>

#include <bit>
#include <boost/json/parse.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "protocol/json/json_writer.h"

namespace tutti::protocol {
namespace {

std::string Written(const std::vector<float>& numbers) {
  std::string text;
  JsonWriter(&text).Floats(numbers);
  return text;
}

TEST(JsonFloats, AListHasWhatItsNumbersHaveAloneAtEveryLength) {
  std::mt19937 random(1);
  std::vector<float> numbers;
  for (int length = 0; length < 200; ++length) {
    std::string one_by_one;
    JsonWriter json(&one_by_one);
    json.BeginArray();
    for (const float number : numbers) json.Float(number);
    json.EndArray();
    EXPECT_EQ(Written(numbers), one_by_one);
    float next = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (length == 63) next = 1;
    if (length == 127) next = std::numeric_limits<float>::quiet_NaN();
    numbers.push_back(next);
  }
}

TEST(JsonFloats, EveryNumberReadsBackEqualAndHasAPoint) {
  std::mt19937 random(2);
  std::vector<float> numbers = {0.0f,
                                -0.0f,
                                1.0f,
                                -1.0f,
                                16777216.0f,
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::lowest(),
                                std::numeric_limits<float>::min(),
                                std::numeric_limits<float>::denorm_min()};
  while (numbers.size() < 5000) {
    const float number = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(number)) numbers.push_back(number);
  }
  const std::string text = Written(numbers);
  const char* at = text.data() + 1;
  for (const float number : numbers) {
    float back = 0;
    const auto [end, fault] = std::from_chars(at, text.data() + text.size(), back);
    ASSERT_EQ(fault, std::errc());
    EXPECT_EQ(std::bit_cast<uint32_t>(back), std::bit_cast<uint32_t>(number));
    EXPECT_NE(std::string_view(at, static_cast<size_t>(end - at)).find_first_of(".e"),
              std::string_view::npos)
        << "an integer to strict readers";
    at = end + 1;
  }
  EXPECT_EQ(boost::json::parse(text).as_array().size(), numbers.size());
}

TEST(JsonFloats, WhatIsNoNumberIsNullAndNeighboursAreSeparated) {
  EXPECT_EQ(Written({}), "[]");
  EXPECT_EQ(Written({INFINITY, 1, -INFINITY}), "[null,1.0,null]");
  std::string text;
  JsonWriter json(&text);
  json.BeginArray().Floats(std::vector<float>{1}).Floats(std::vector<float>{}).EndArray();
  EXPECT_EQ(text, "[[1.0],[]]");
}

}  // namespace
}  // namespace tutti::protocol
