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
  // A name that is no token is never written or drawn.
  const auto unnamed = SpecFromHuggingFace(FileOf("gpt-2"), R"({"pad_token":"[PAD]"})");
  ASSERT_TRUE(unnamed.ok()) << unnamed.status();
  EXPECT_FALSE(unnamed->pad.has_value());
}

// Pairs follow the template of the post-processor.
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

// Why the file is refused when a tokenizer is made of it, after a change; empty: it is not.
std::string RefusalOfTokenizer(std::string_view name,
                               const std::function<void(json::object&)>& change) {
  json::value file = json::parse(FileOf(name));
  change(file.as_object());
  auto spec = SpecFromHuggingFace(json::serialize(file));
  if (!spec.ok()) return spec.status().reason();
  return Tokenizer::Create(std::move(spec).value()).status().reason();
}

TEST(HuggingFaceTest, CompilesSplitExpressionsOrRefusesThem) {
  const auto with = [](const char* regex) {
    return RefusalOfTokenizer("llama-bpe", [&](json::object& file) {
      file["pre_tokenizer"].at("pretokenizers").at(0).at("pattern").as_object()["Regex"] = regex;
    });
  };
  EXPECT_EQ(with("\\p{L}+"), "");
  EXPECT_EQ(with("[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,4}"), "");
  EXPECT_EQ(with("(a)\\1"), "tokenizer_regex");
  EXPECT_EQ(with("(a"), "tokenizer_regex");
}

using Change = std::function<void(json::object&)>;

json::object& ModelOf(json::object& file) { return file["model"].as_object(); }

TEST(HuggingFaceTest, RefusesWhatIsNotSupportedByName) {
  const std::pair<const char*, Change> changes[] = {
      {"gpt-2",
       [](json::object& f) {
         f["normalizer"] = {{"type", "Magic"}};
       }},
      {"gpt-2", [](json::object& f) { f["pre_tokenizer"].as_object()["type"] = "Magic"; }},
      {"gpt-2",
       [](json::object& f) {
         f["post_processor"] = {{"type", "Magic"}};
       }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["type"] = "WordLevel"; }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["dropout"] = 0.1; }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["end_of_word_suffix"] = "</w>"; }},
      {"bert",
       [](json::object& f) {
         f["pre_tokenizer"] = {{"type", "ByteLevel"}};
       }},
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    EXPECT_EQ(RefusalOfTokenizer(changes[i].first, changes[i].second), "tokenizer_unsupported")
        << "change " << i;
  }
}

TEST(HuggingFaceTest, RefusesWhatIsNotOfTheFormat) {
  const std::pair<const char*, Change> changes[] = {
      {"gpt-2", [](json::object& f) { ModelOf(f)["type"] = "Unigram"; }},
      {"gpt-2", [](json::object& f) { ModelOf(f).erase("merges"); }},
      {"gpt-2",
       [](json::object& f) {
         ModelOf(f)["merges"] = {1, 2};
       }},
      {"gpt-2",
       [](json::object& f) {
         ModelOf(f)["merges"] = {json::array{"a b", "c"}};
       }},
      {"gpt-2", [](json::object& f) { ModelOf(f).erase("vocab"); }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["vocab"].as_object()["x-new"] = 5; }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["vocab"].as_object()["x-new"] = 1'000'000; }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["vocab"].as_object()["x-new"] = -1; }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["vocab"].as_object()["x-new"] = "7"; }},
      {"gpt-2", [](json::object& f) { f["added_tokens"].at(0).as_object().erase("content"); }},
      {"gpt-2", [](json::object& f) { f["normalizer"] = "NFC"; }},
      {"gpt-2",
       [](json::object& f) {
         f["pre_tokenizer"] = {{"type", "Sequence"}};
       }},
      {"gpt-2", [](json::object& f) { f.erase("model"); }},
      {"bert", [](json::object& f) { ModelOf(f)["unk_token"] = "[WHAT]"; }},
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    EXPECT_EQ(RefusalOfTokenizer(changes[i].first, changes[i].second), "tokenizer_invalid")
        << "change " << i;
  }
}

TEST(HuggingFaceTest, AcceptsWhatChangesNoAnswer) {
  const std::pair<const char*, Change> changes[] = {
      {"gpt-2",
       [](json::object& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
       }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["unk_token"] = "<|end|>"; }},
      {"gpt-2", [](json::object& f) { ModelOf(f).erase("type"); }},
      {"gpt-2", [](json::object& f) { ModelOf(f)["dropout"] = 0.0; }},
      {"bert", [](json::object& f) { ModelOf(f).erase("type"); }},
      {"bert",
       [](json::object& f) {
         f["truncation"] = {{"max_length", 5}};
       }},
  };
  for (size_t i = 0; i < std::size(changes); ++i)
    EXPECT_EQ(RefusalOfTokenizer(changes[i].first, changes[i].second), "") << "change " << i;
}

// Phi-4-mini has ids that no token has.
TEST(HuggingFaceTest, AcceptsIdsWithHoles) {
  json::value file = json::parse(FileOf("gpt-2"));
  const size_t count = ModelOf(file.as_object())["vocab"].as_object().size() +
                       file.at("added_tokens").as_array().size();
  file.at("added_tokens")
      .as_array()
      .push_back({{"id", count + 20}, {"content", "<|late|>"}, {"special", true}});
  auto spec = SpecFromHuggingFace(json::serialize(file));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->tokens.size(), count + 21);
  const auto tokenizer = Tokenizer::Create(std::move(spec).value());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("<|late|>", {.add_special = false, .parse_special = true}),
            std::vector<TokenId>{static_cast<TokenId>(count + 20)});
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
