// The tokenizer vectors of llama.cpp (tests/third_party/llama.cpp-vocab), for every vocabulary at
// hand.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "test_paths.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

using testing::DataFolder;
using testing::LoadTokenizer;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CHECK(in.good()) << "cannot open " << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> TextsOf(const std::string& content) {
  constexpr std::string_view kDivider = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  size_t at = 0;
  for (;;) {
    const size_t end = content.find(kDivider, at);
    if (end == std::string::npos) return texts;  // the text after the last divider is empty
    texts.push_back(content.substr(at, end - at));
    at = end + kDivider.size();
  }
}

std::vector<std::vector<TokenId>> IdLists(const std::string& content) {
  std::vector<std::vector<TokenId>> lists;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<TokenId>& ids = lists.emplace_back();
    for (TokenId id = 0; words >> id;) ids.push_back(id);
  }
  return lists;
}

TEST(VectorsTest, IdsEqualTheVectorsOfLlamaCpp) {
  const std::string folder = support::SourcePath("tests/third_party/llama.cpp-vocab/");
  int vocabularies = 0;
  for (const char* name :
       {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "falcon", "llama-spm",
        "bert-bge", "starcoder", "refact", "command-r", "mpt", "phi-3"}) {
    if (!testing::Exists(DataFolder() + "/vocab/" + name + ".json.gz")) continue;
    ++vocabularies;
    const auto tokenizer = LoadTokenizer(name);
    const std::vector<std::string> texts = TextsOf(ReadFile(folder + name + ".inp"));
    const auto expected = IdLists(ReadFile(folder + name + ".out"));
    ASSERT_GE(texts.size(), 40U) << name;
    ASSERT_EQ(texts.size(), expected.size()) << name;
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer->Encode(texts[i], {.add_special = false}), expected[i])
          << name << ", text " << i << ": " << texts[i];
    }
  }
  EXPECT_GE(vocabularies, 8);
}

}  // namespace
}  // namespace tutti::tokenizer
