#include "model/generation_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "model/json_file.h"

namespace tutti::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Reading {
  GenerationDefaults defaults;
  std::vector<std::string> remarks;
};

Reading OfJson(std::string_view text) {
  const auto file = JsonFile::Parse(text, "generation_config.json");
  EXPECT_TRUE(file.ok()) << file.status();
  Reading reading;
  reading.defaults = GenerationDefaults::FromJson(*file, reading.remarks);
  return reading;
}

Reading OfGguf(const gguf::testing::Writer& writer) {
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  Reading reading;
  reading.defaults = GenerationDefaults::FromGguf((*file)->header(), reading.remarks);
  return reading;
}

TEST(GenerationDefaultsTest, ReadsAllThatAFolderSays) {
  const auto [defaults, remarks] = OfJson(
      R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0,
          "repetition_penalty":1.05,"eos_token_id":[5,3,5,9,1],"pad_token_id":3})");
  EXPECT_EQ(defaults.do_sample, true);
  EXPECT_EQ(defaults.temperature, 0.6);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.top_p, 0.95);
  EXPECT_EQ(defaults.min_p, 0.0);
  EXPECT_EQ(defaults.repetition_penalty, 1.05);
  EXPECT_THAT(defaults.ends, ElementsAre(5, 3, 9, 1));
  EXPECT_EQ(defaults.source, "generation_config.json");
  EXPECT_EQ(defaults.Text(),
            "do_sample true, temperature 0.6, top_k 20, top_p 0.95, min_p 0, "
            "repetition_penalty 1.05");
  EXPECT_THAT(remarks, IsEmpty());
}

TEST(GenerationDefaultsTest, SaysNothingWhereTheFileDoesNot) {
  const auto [defaults, remarks] =
      OfJson(R"({"bos_token_id":1,"eos_token_id":2,"temperature":null})");
  EXPECT_TRUE(defaults.empty());
  EXPECT_THAT(defaults.ends, ElementsAre(2));
  EXPECT_EQ(defaults.source, "");
  EXPECT_EQ(defaults.Text(), "");
  EXPECT_THAT(remarks, IsEmpty());
}

TEST(GenerationDefaultsTest, LeavesOutBadValuesWithARemark) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"temperature":-1})", "temperature is -1"},
      {R"({"temperature":"hot"})", "temperature is \"hot\""},
      {R"({"temperature":2.5})", "must be a number from 0 to 2"},
      {R"({"top_p":0})", "top_p is 0 and is not used: it must be a number above 0 to 1"},
      {R"({"top_p":1e400})", "top_p"},
      {R"({"top_k":1.5})", "top_k is 1.5"},
      {R"({"top_k":-2})", "top_k is -2"},
      {R"({"min_p":2})", "min_p is 2"},
      {R"({"repetition_penalty":0})", "repetition_penalty is 0"},
      {R"({"do_sample":1})", "do_sample is 1"},
      {R"({"eos_token_id":"</s>"})", "eos_token_id is \"</s>\""},
  };
  for (const auto& [text, part] : cases) {
    const auto file = JsonFile::Parse(text, "generation_config.json");
    if (!file.ok()) continue;  // a number beyond all is no JSON to the parser
    const auto [defaults, remarks] = OfJson(text);
    EXPECT_TRUE(defaults.empty()) << text;
    EXPECT_THAT(defaults.ends, IsEmpty()) << text;
    ASSERT_EQ(remarks.size(), 1U) << text;
    EXPECT_THAT(remarks[0], HasSubstr(part));
    EXPECT_THAT(remarks[0], ::testing::StartsWith("generation_config.json: "));
  }
  EXPECT_EQ(OfJson(R"({"top_k":-1})").defaults.top_k, 0);  // off
  EXPECT_THAT(OfJson(R"({"eos_token_id":[-1,7]})").defaults.ends, ElementsAre(7));
}

TEST(GenerationDefaultsTest, KeepsTheEndsBehindABadOne) {
  const auto [defaults, remarks] = OfJson(R"({"eos_token_id":[2,"</s>",7,null]})");
  EXPECT_THAT(defaults.ends, ElementsAre(2, 7));
  EXPECT_THAT(remarks, ElementsAre("generation_config.json: eos_token_id holds values that are no "
                                   "token ids: they are not used"));
}

TEST(GenerationDefaultsTest, LimitsTheNumberOfEnds) {
  std::string ids = "0";
  for (int id = 1; id < 1025; ++id) ids += "," + std::to_string(id);
  const auto [defaults, remarks] = OfJson("{\"eos_token_id\":[" + ids + "]}");
  EXPECT_EQ(defaults.ends.size(), 1024U);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_THAT(remarks[0], HasSubstr("more than 1024 ids"));
}

TEST(GenerationDefaultsTest, ReadsKeysOfAGgufOfAnyNumberType) {
  gguf::testing::Writer writer;
  writer.F32("general.sampling.temp", 0.7F)
      .Number("general.sampling.top_k", gguf::ValueType::kInt32, int32_t{20})
      .Number("general.sampling.top_p", gguf::ValueType::kFloat64, 0.8)
      .F32("general.sampling.penalty_repeat", 1.05F)
      .U32("general.sampling.min_p", 0)
      .Bool("general.sampling.do_sample", true);
  const auto [defaults, remarks] = OfGguf(writer);
  EXPECT_EQ(
      defaults.Text(),
      "do_sample true, temperature 0.7, top_k 20, top_p 0.8, min_p 0, repetition_penalty 1.05");
  EXPECT_EQ(defaults.temperature, 0.7) << "and not the nearest float";
  EXPECT_EQ(defaults.source, "general.sampling");
  EXPECT_THAT(remarks, IsEmpty());
}

TEST(GenerationDefaultsTest, LeavesOutBadKeysOfAGgufWithARemark) {
  gguf::testing::Writer writer;
  writer.String("general.sampling.temp", "warm")
      .F32("general.sampling.top_p", std::numeric_limits<float>::quiet_NaN())
      .Number("general.sampling.top_k", gguf::ValueType::kUint64, uint64_t{1} << 63)
      .U32("general.sampling.do_sample", 1);
  const auto [defaults, remarks] = OfGguf(writer);
  EXPECT_TRUE(defaults.empty());
  EXPECT_EQ(remarks.size(), 4U);
  EXPECT_TRUE(OfGguf(gguf::testing::Writer().U32("general.file_type", 1)).remarks.empty());
}

// For arbitrary values in the file, the values read lie within the API's ranges.
TEST(GenerationDefaultsTest, KeepsItsRangesOnRandomFiles) {
  const char* const keys[] = {"do_sample",    "temperature",       "top_k", "top_p", "min_p",
                              "eos_token_id", "repetition_penalty"};
  const char* const values[] = {"null",
                                "true",
                                "-1",
                                "0",
                                "1",
                                "0.5",
                                "-0.0",
                                "1e308",
                                "\"\"",
                                "[1,2]",
                                "[[]]",
                                "{\"a\":1}",
                                "[]",
                                "3e9",
                                "18446744073709551615",
                                "-9223372036854775808"};
  std::mt19937 random(24);
  for (int round = 0; round < 2000; ++round) {
    std::string text = "{";
    for (const char* key : keys) {
      if (random() % 3 == 0) continue;
      text += (text.size() > 1 ? "," : "") + ("\"" + std::string(key)) +
              "\":" + values[random() % std::size(values)];
    }
    const GenerationDefaults read = OfJson(text + "}").defaults;
    EXPECT_TRUE(!read.temperature || (*read.temperature >= 0 && *read.temperature <= 2)) << text;
    EXPECT_TRUE(!read.top_p || (*read.top_p > 0 && *read.top_p <= 1)) << text;
    EXPECT_TRUE(!read.min_p || (*read.min_p >= 0 && *read.min_p <= 1)) << text;
    EXPECT_TRUE(!read.top_k || *read.top_k >= 0) << text;
    EXPECT_TRUE(!read.repetition_penalty ||
                (*read.repetition_penalty > 0 && *read.repetition_penalty <= 10))
        << text;
    for (const int64_t end : read.ends) EXPECT_GE(end, 0) << text;
  }
}

}  // namespace
}  // namespace tutti::model
