#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/batches/input_check.h"

namespace tutti::batches {
namespace {

using SeenLines = std::vector<std::string>;  // "number@offset:text", "!" where it is too long

SeenLines Split(const std::string& text, size_t piece, size_t most = 5) {
  LineSplitter splitter(most);
  SeenLines seen;
  const auto sink = [&](const LineSplitter::Line& line) {
    seen.push_back(std::to_string(line.number) + "@" + std::to_string(line.offset) + ":" +
                   (line.too_long ? "!" : std::string(line.text)));
  };
  for (size_t at = 0; at < text.size(); at += piece)
    splitter.Feed(std::string_view(text).substr(at, piece), sink);
  splitter.End(sink);
  return seen;
}

TEST(LineSplitterTest, LinesAndTheirPlacesWhateverThePieces) {
  const std::string text = "ab\n\ncd\r\n12345\n12345\r\n123456\n1234567890123\r\nx";
  const SeenLines expected = {"1@0:ab",     "2@3:",   "3@4:cd", "4@8:12345",
                              "5@14:12345", "6@21:!", "7@28:!", "8@43:x"};
  for (size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_EQ(Split(text, piece), expected) << piece;
  EXPECT_EQ(Split("", 1), SeenLines());
  EXPECT_EQ(Split("a\n", 1), SeenLines{"1@0:a"});
}

std::string TextLine(const std::string& id, const std::string& body = R"({"model":"m"})") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/embeddings","body":)" + body +
         "}\n";
}

InputCheck CheckOf(const std::string& text, size_t* good = nullptr) {
  InputCheck check("/v1/embeddings", [](const std::string& model) {
    return model == "m" ? OkStatus() : NotFound("model_not_found", "no such model");
  });
  size_t lines = check.Feed(text).size();
  lines += check.End().size();
  if (good != nullptr) *good = lines;
  return check;
}

TEST(InputCheckTest, FaultsAreToldByTheirLines) {
  size_t good = 0;
  const InputCheck check = CheckOf(TextLine("a") + "\n{\n" + TextLine("b", R"({"model":"n"})") +
                                       TextLine("c") + std::string((1 << 20) + 2, 'x'),
                                   &good);
  EXPECT_EQ(good, 2u);
  EXPECT_EQ(check.first_model(), "m");
  ASSERT_EQ(check.errors().size(), 3u);
  EXPECT_EQ(check.errors()[0].code, "invalid_json_line");
  EXPECT_EQ(check.errors()[0].line, 3);
  EXPECT_EQ(check.errors()[1].code, "model_not_found");
  EXPECT_EQ(check.errors()[1].param, "body.model");
  EXPECT_EQ(check.errors()[2].code, "line_too_long");
  EXPECT_EQ(check.errors()[2].line, 6);
}

TEST(InputCheckTest, NoLinesAreAFault) {
  for (const char* text : {"", "\n", " \r\n\t\n"}) {
    const InputCheck check = CheckOf(text);
    ASSERT_EQ(check.errors().size(), 1u);
    EXPECT_EQ(check.errors()[0].code, "empty_file");
  }
}

TEST(InputCheckTest, AHundredFaultsAreToldAtMost) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "x\n";
  EXPECT_EQ(CheckOf(text).errors().size(), InputCheck::kMaxErrors);
}

TEST(InputCheckTest, InputsAndLinesAreLimited) {
  std::string inputs = R"({"model":"m","input":["a")";
  for (int i = 1; i < 1000; ++i) inputs += ",\"a\"";
  inputs += "]}";
  std::string text;
  for (int i = 0; i < 50; ++i) text += TextLine(std::to_string(i), inputs);
  EXPECT_TRUE(CheckOf(text).errors().empty());
  const InputCheck more = CheckOf(text + TextLine("last", R"({"model":"m","input":"a"})"));
  ASSERT_EQ(more.errors().size(), 1u);
  EXPECT_EQ(more.errors()[0].code, "too_many_inputs");
  EXPECT_TRUE(more.hopeless());

  text.clear();
  for (int i = 0; i < protocol::kMaxBatchLines; ++i) text += TextLine(std::to_string(i));
  EXPECT_TRUE(CheckOf(text).errors().empty());
  const InputCheck lines = CheckOf(text + TextLine("last") + TextLine("another"));
  ASSERT_EQ(lines.errors().size(), 1u);
  EXPECT_EQ(lines.errors()[0].code, "too_many_lines");
  EXPECT_EQ(lines.errors()[0].line, protocol::kMaxBatchLines + 1);
}

}  // namespace
}  // namespace tutti::batches
