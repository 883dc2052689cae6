// tokenizer.json files of the encoders' kinds, compared with the library that wrote them: single
// texts, and pairs that are truncated to a length, the longer text first.
#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "tokenizer/huggingface.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

using testing::Digest;
namespace json = boost::json;

const json::value& Encoders() {
  static const json::value kData = testing::ReadJson(testing::DataFolder() + "/encoders.json.gz");
  return kData;
}

// The hostile texts, the corpus, and some of the file's own.
const std::vector<std::string>& AllTexts() {
  static const auto* const kTexts = [] {
    auto* texts = new std::vector<std::string>;
    const json::value common = testing::ReadJson(testing::DataFolder() + "/texts.json.gz");
    for (const json::value* list :
         {&common.at("hostile"), &common.at("corpus"), &Encoders().at("texts")}) {
      for (const auto& text : list->as_array()) texts->emplace_back(text.as_string());
    }
    return texts;
  }();
  return *kTexts;
}

std::string FileOf(const json::value& file) {
  std::string text(file.at("tokenizer_json").as_string());
  const std::string map(Encoders().at("charsmap").as_string());
  for (size_t at = text.find("@MAP@"); at != std::string::npos; at = text.find("@MAP@"))
    text.replace(at, 5, map);
  return text;
}

class EncoderFiles : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    auto spec = SpecFromHuggingFace(FileOf(file()));
    ASSERT_TRUE(spec.ok()) << spec.status();
    auto created = Tokenizer::Create(std::move(spec).value());
    ASSERT_TRUE(created.ok()) << created.status();
    tokenizer_ = std::move(created).value();
  }
  const json::value& file() const { return Encoders().at("files").at(GetParam()); }
  std::shared_ptr<const Tokenizer> tokenizer_;
};
INSTANTIATE_TEST_SUITE_P(File, EncoderFiles, ::testing::Range(size_t{0}, size_t{6}),
                         [](const auto& number) {
                           std::string name(
                               Encoders().at("files").at(number.param).at("name").as_string());
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_P(EncoderFiles, TextsGetTheIdsOfTheLibrary) {
  const auto& expected = file().at("ids").as_array();
  ASSERT_EQ(expected.size(), AllTexts().size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<TokenId> ids = tokenizer_->EncodeInput(AllTexts()[i]).ids;
    ASSERT_EQ(ids.size(), expected[i].at(0).to_number<size_t>()) << i << ": " << AllTexts()[i];
    ASSERT_EQ(Digest(ids), expected[i].at(1).as_string()) << i << ": " << AllTexts()[i];
  }
}

TEST_P(EncoderFiles, PairsGetTheIdsAndKindsOfTheLibraryCutAsItDoes) {
  ASSERT_TRUE(tokenizer_->reads_pairs());
  const InputOptions options{.max_tokens = Encoders().at("room").to_number<int>()};
  const auto& expected = file().at("pairs").as_array();
  size_t cut = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& pair = Encoders().at("pairs").at(i);
    EncoderInput input =
        tokenizer_->EncodePair(AllTexts()[pair.at(0).to_number<size_t>()],
                               AllTexts()[pair.at(1).to_number<size_t>()], options);
    ASSERT_EQ(input.ids.size(), expected[i].at(0).to_number<size_t>()) << i;
    ASSERT_EQ(Digest(input.ids), expected[i].at(1).as_string()) << i;
    if (input.types.empty()) input.types.resize(input.ids.size(), 0);
    const std::vector<TokenId> types(input.types.begin(), input.types.end());
    ASSERT_EQ(Digest(types), expected[i].at(2).as_string()) << i;
    cut += input.whole > input.ids.size();
  }
  EXPECT_GE(cut, 50u);
}

TEST(EncoderFilesTest, WhatWouldChangeAnAnswerIsRefusedByName) {
  using Change = std::function<void(json::object&)>;
  const std::string whole = FileOf(Encoders().at("files").at(1));
  const auto steps = [](json::object& f) -> json::array& {
    return f["normalizer"].as_object()["normalizers"].as_array();
  };
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](json::object&) {}, ""},
      {[&](json::object& f) { steps(f)[0].as_object()["precompiled_charsmap"] = "@@"; },
       "tokenizer_invalid"},
      {[&](json::object& f) { steps(f)[0].as_object()["precompiled_charsmap"] = ""; }, ""},
      {[&](json::object& f) { steps(f)[0].as_object()["precompiled_charsmap"] = "////////"; },
       "tokenizer_invalid"},
      {[&](json::object& f) { steps(f)[0].as_object()["type"] = "NFKC"; }, ""},
      {[&](json::object& f) { steps(f)[0].as_object()["type"] = "Magic"; },
       "tokenizer_unsupported"},
      {[&](json::object& f) {
         steps(f)[2].as_object()["pattern"] = {{"Regex", "(a)\\1"}};
       },
       "tokenizer_regex"},
      {[](json::object& f) { f["normalizer"] = nullptr; }, ""},
      {[](json::object& f) { f["pre_tokenizer"] = nullptr; }, ""},
      {[](json::object& f) { f["pre_tokenizer"].as_object()["type"] = "Whitespace"; }, ""},
      {[](json::object& f) { f["pre_tokenizer"].as_object()["prepend_scheme"] = "first"; }, ""},
      {[](json::object& f) { f["pre_tokenizer"].as_object()["prepend_scheme"] = "maybe"; },
       "tokenizer_unsupported"},
      {[](json::object& f) { f["model"].as_object()["unk_id"] = nullptr; },
       "tokenizer_unsupported"},
      {[](json::object& f) { f["model"].as_object()["unk_id"] = 1'000'000'000; },
       "tokenizer_unsupported"},
      {[](json::object& f) { f["model"].as_object()["vocab"].as_array()[5] = "x"; },
       "tokenizer_invalid"},
      {[](json::object& f) { f["model"].as_object()["vocab"].as_array()[5].as_array()[1] = "x"; },
       "tokenizer_invalid"},
      {[](json::object& f) { f["model"].as_object()["vocab"].as_array().clear(); },
       "tokenizer_invalid"},
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    json::value file = json::parse(whole);
    changes[i].first(file.as_object());
    auto spec = SpecFromHuggingFace(json::serialize(file));
    const Status status =
        spec.ok() ? Tokenizer::Create(std::move(spec).value()).status() : spec.status();
    EXPECT_EQ(status.reason(), changes[i].second) << "change " << i << ": " << status;
  }
}

TEST(EncoderFilesTest, DamagedFilesAreRefusedOrReadButNeverHarm) {
  Random random(16);
  const std::string whole(Encoders().at("files").at(2).at("tokenizer_json").as_string());
  for (int i = 0; i < 200; ++i) {
    std::string file = whole;
    for (uint64_t n = 1 + random.Below(3); n > 0; --n)
      file[random.Below(file.size())] = "\"{}[],:0a-9\xFF"[random.Below(12)];
    auto spec = SpecFromHuggingFace(file);
    if (!spec.ok()) continue;
    const auto tokenizer = Tokenizer::Create(std::move(spec).value());
    if (tokenizer.ok()) (*tokenizer)->EncodeInput("still here \u4e00\n");
  }
}

TEST(EncoderFilesTest, ThereAreSix) { EXPECT_EQ(Encoders().at("files").as_array().size(), 6u); }

}  // namespace
}  // namespace tutti::tokenizer
