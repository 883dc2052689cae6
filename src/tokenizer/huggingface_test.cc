#include "tokenizer/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

using testing::Digest;
using ::testing::HasSubstr;
namespace json = boost::json;

const json::value& Data() {
  static const json::value kData =
      testing::ReadJson(testing::DataFolder() + "/huggingface.json.gz");
  return kData;
}

std::string FileOf(std::string_view name) {
  for (const auto& file : Data().at("files").as_array()) {
    if (file.at("name").as_string() == name)
      return std::string(file.at("tokenizer_json").as_string());
  }
  CHECK(false) << "no file " << name;
  return {};
}

// The files and their ids were written by Hugging Face's library; special tokens in the text are
// parsed there.
TEST(HuggingFaceTest, ATokenizerReadFromItsFileGivesTheIdsOfTheLibraryThatWroteIt) {
  int files = 0;
  for (const auto& file : Data().at("files").as_array()) {
    const std::string name(file.at("name").as_string());
    auto spec = SpecFromHuggingFace(file.at("tokenizer_json").as_string(),
                                    file.at("config_json").as_string());
    ASSERT_TRUE(spec.ok()) << name << ": " << spec.status();
    auto tokenizer = Tokenizer::Create(std::move(spec).value());
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status();
    const auto& texts = Data().at("texts").as_array();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string text(texts[i].as_string());
      const std::vector<TokenId> ids = (*tokenizer)->Encode(text, {.parse_special = true});
      ASSERT_EQ(ids.size(), file.at("ids").at(i).at(0).to_number<size_t>()) << name << ": " << text;
      ASSERT_EQ(Digest(ids), file.at("ids").at(i).at(1).as_string()) << name << ": " << text;
    }
    ++files;
  }
  EXPECT_EQ(files, 12);
}

TEST(HuggingFaceTest, TheConfigurationNamesSpecialTokensAndTheTemplate) {
  const auto spec = SpecFromHuggingFace(
      FileOf("gpt-2"), R"({"bos_token":"<|start|>","eos_token":{"content":"<|end|>","lstrip":false},
      "add_bos_token":true,"chat_template":[{"name":"tool_use","template":"x"},{"name":"default","template":"y"}]})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->bos, 0);
  EXPECT_EQ(spec->eos, 1);
  EXPECT_EQ(spec->add_bos, true);
  EXPECT_EQ(spec->add_eos, false);
  EXPECT_EQ(spec->chat_template, "y");
  EXPECT_EQ(
      SpecFromHuggingFace(FileOf("gpt-2"), R"({"eos_token":"<|nowhere|>"})").status().reason(),
      "tokenizer_invalid");
}

// Changes one file and tells why it is refused.
std::string RefusalAfter(std::string_view name, const std::function<void(json::object&)>& change) {
  json::value file = json::parse(FileOf(name));
  change(file.as_object());
  const auto spec = SpecFromHuggingFace(json::serialize(file));
  return spec.ok() ? "" : spec.status().reason();
}

// Pairs: what the post-processor says of them.
TEST(HuggingFaceTest, APairIsFramedAsThePostProcessorSays) {
  json::value file = json::parse(FileOf("bert"));
  const auto frame = [&](const char* block) -> std::vector<std::pair<int64_t, int>> {
    file.as_object()["post_processor"] = json::parse(block);
    const auto spec = SpecFromHuggingFace(json::serialize(file));
    EXPECT_TRUE(spec.ok()) << spec.status();
    std::vector<std::pair<int64_t, int>> places;
    for (const FramePlace& place : spec->pair) places.emplace_back(place.token, place.type);
    return places;
  };
  const auto spec = SpecFromHuggingFace(FileOf("bert"));
  const int64_t cls = *spec->cls, sep = *spec->sep;
  using Places = std::vector<std::pair<int64_t, int>>;
  const Places bert = {
      {cls, 0}, {FramePlace::kFirstText, 0}, {sep, 0}, {FramePlace::kSecondText, 1}, {sep, 1}};
  const Places roberta = {{cls, 0}, {FramePlace::kFirstText, 0},  {sep, 0},
                          {sep, 0}, {FramePlace::kSecondText, 0}, {sep, 0}};
  EXPECT_EQ(frame(R"({"type":"BertProcessing","cls":["[CLS]",2],"sep":["[SEP]",3]})"), bert);
  EXPECT_EQ(frame(R"({"type":"RobertaProcessing","cls":["[CLS]",2],"sep":["[SEP]",3]})"), roberta);
  const std::string single =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},
          {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],"pair":)";
  const std::string first =
      R"([{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
          {"SpecialToken":{"id":"[SEP]","type_id":0}},)";
  EXPECT_EQ(frame((single + first + R"({"Sequence":{"id":"B","type_id":1}},
                                       {"SpecialToken":{"id":"[SEP]","type_id":1}}]})")
                      .c_str()),
            bert);
  EXPECT_EQ(frame((single + first + R"({"SpecialToken":{"id":"[SEP]"}},{"Sequence":{"id":"B"}},
                                       {"SpecialToken":{"id":"[SEP]"}}]})")
                      .c_str()),
            roberta);
  const auto refusal = [&](const std::string& pair) {
    file.as_object()["post_processor"] = json::parse(single + pair + "}");
    return SpecFromHuggingFace(json::serialize(file)).status().reason();
  };
  EXPECT_EQ(refusal(R"([{"Sequence":{"id":"A","type_id":2}}])"), "tokenizer_unsupported");
  EXPECT_EQ(refusal(R"([{"SpecialToken":{"id":"[NONE]"}}])"), "tokenizer_invalid");
  EXPECT_EQ(refusal("[1]"), "tokenizer_invalid");
  std::string many = "[" + std::string(R"({"Sequence":{"id":"A"}})");
  for (int i = 0; i < 20; ++i) many += R"(,{"Sequence":{"id":"B"}})";
  EXPECT_EQ(refusal(many + "]"), "tokenizer_unsupported");
}

TEST(HuggingFaceTest, SplitExpressionsAreLookedUpAndNeverRun) {
  for (const char* regex : {"(a+)+$", "", "\\p{L}+", "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,4}"}) {
    EXPECT_EQ(
        RefusalAfter(
            "llama-bpe",
            [&](json::object& file) {
              file["pre_tokenizer"].at("pretokenizers").at(0).at("pattern").as_object()["Regex"] =
                  regex;
            }),
        "tokenizer_regex")
        << regex;
  }
}

TEST(HuggingFaceTest, WhatWouldChangeAnAnswerIsRefusedByName) {
  using Change = std::function<void(json::object&)>;
  const auto model = [](json::object& file) -> json::object& { return file["model"].as_object(); };
  const std::tuple<const char*, Change, const char*> changes[] = {
      {"gpt-2",
       [](json::object& f) {
         f["normalizer"] = {{"type", "NFC"}};
       },
       "tokenizer_unsupported"},
      {"gpt-2",
       [](json::object& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
       },
       ""},
      {"gpt-2", [](json::object& f) { f["pre_tokenizer"] = nullptr; }, "tokenizer_unsupported"},
      {"gpt-2", [](json::object& f) { f["pre_tokenizer"].as_object()["type"] = "Whitespace"; },
       "tokenizer_unsupported"},
      {"gpt-2",
       [](json::object& f) {
         f["post_processor"] = {{"type", "Magic"}};
       },
       "tokenizer_unsupported"},
      {"gpt-2", [&](json::object& f) { model(f)["type"] = "WordLevel"; }, "tokenizer_unsupported"},
      {"gpt-2", [&](json::object& f) { model(f)["type"] = "Unigram"; }, "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["byte_fallback"] = true; },
       "tokenizer_unsupported"},  // it would be SentencePiece's, whose spaces are marked
      {"llama-2", [&](json::object& f) { f["normalizer"] = nullptr; }, "tokenizer_unsupported"},
      {"llama-2", [&](json::object& f) { model(f)["unk_token"] = nullptr; }, "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["dropout"] = 0.1; }, "tokenizer_unsupported"},
      {"gpt-2", [&](json::object& f) { model(f)["end_of_word_suffix"] = "</w>"; },
       "tokenizer_unsupported"},
      {"gpt-2", [&](json::object& f) { model(f)["unk_token"] = "<|end|>"; },
       ""},  // no byte is unknown here
      {"smollm", [&](json::object& f) { model(f)["unk_token"] = "<|end|>"; },
       "tokenizer_unsupported"},
      {"gpt-2", [&](json::object& f) { model(f).erase("merges"); }, "tokenizer_invalid"},
      {"gpt-2",
       [&](json::object& f) {
         model(f)["merges"] = {1, 2};
       },
       "tokenizer_invalid"},
      {"gpt-2",
       [&](json::object& f) {
         model(f)["merges"] = {json::array{"a b", "c"}};
       },
       "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f).erase("vocab"); }, "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["vocab"].as_object()["x-new"] = 5; },
       "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["vocab"].as_object()["x-new"] = 1'000'000; },
       "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["vocab"].as_object()["x-new"] = -1; },
       "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["vocab"].as_object()["x-new"] = "7"; },
       "tokenizer_invalid"},
      {"gpt-2", [&](json::object& f) { model(f)["vocab"].as_object().erase("a"); },
       "tokenizer_invalid"},
      {"gpt-2", [](json::object& f) { f["added_tokens"].at(0).as_object().erase("content"); },
       "tokenizer_invalid"},
      {"gpt-2", [](json::object& f) { f.erase("model"); }, "tokenizer_invalid"},
      {"bert", [](json::object& f) { f["normalizer"].as_object()["clean_text"] = false; },
       "tokenizer_unsupported"},
      {"bert", [](json::object& f) { f["pre_tokenizer"].as_object()["type"] = "Metaspace"; },
       "tokenizer_unsupported"},
      {"bert", [](json::object& f) { f["normalizer"] = nullptr; }, "tokenizer_unsupported"},
      {"bert", [&](json::object& f) { model(f)["max_input_chars_per_word"] = 200; },
       "tokenizer_unsupported"},
      {"bert", [&](json::object& f) { model(f)["continuing_subword_prefix"] = "@@"; },
       "tokenizer_unsupported"},
      {"bert", [&](json::object& f) { model(f)["unk_token"] = "[WHAT]"; }, "tokenizer_invalid"},
      {"bert",
       [](json::object& f) {
         f["truncation"] = {{"max_length", 5}};
       },
       ""},
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    const auto& [name, change, reason] = changes[i];
    EXPECT_EQ(RefusalAfter(name, change), reason) << "change " << i;
  }
}

TEST(HuggingFaceTest, WhatIsNoJsonIsRefused) {
  for (const std::string& text :
       {std::string(""), std::string("null"), std::string("[]"), std::string("{"),
        std::string("{}"), std::string("\xFF"), std::string(1'000'000, '['),
        "{\"model\":" + std::string(500'000, '[') + "}", FileOf("gpt-2") + "x"}) {
    EXPECT_EQ(SpecFromHuggingFace(text).status().reason(), "tokenizer_invalid")
        << text.substr(0, 40);
  }
  EXPECT_EQ(SpecFromHuggingFace(std::string(kMaxTokenizerJsonBytes + 1, ' ')).status().reason(),
            "tokenizer_limit");
}

TEST(HuggingFaceTest, DamagedFilesAreRefusedOrReadButNeverHarm) {
  Random random(15);
  const std::string whole = FileOf("gpt-2");
  for (int i = 0; i < 300; ++i) {
    std::string file =
        whole.substr(0, random.Chance(0.3) ? random.Below(whole.size()) : whole.size());
    for (uint64_t n = random.Below(4); n > 0 && !file.empty(); --n) {
      file[random.Below(file.size())] = "\"{}[],:0a\xFF"[random.Below(10)];
    }
    auto spec = SpecFromHuggingFace(file);
    if (!spec.ok()) continue;
    const auto tokenizer = Tokenizer::Create(std::move(spec).value());
    if (tokenizer.ok()) (*tokenizer)->Encode("still here", {});
  }
}

}  // namespace
}  // namespace tutti::tokenizer
