#include "chat_template/reasoning_syntax.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "api/token_stream.h"
#include "grammar/structure.h"
#include "grammar/testing/accepts.h"
#include "test_paths.h"

namespace tutti::chat_template {
namespace {

using api::ReasoningMode;

std::string TestFile(const std::string& path) {
  std::ifstream file(support::SourcePath(path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const ReasoningSyntax& SyntaxOf(std::string_view name) {
  for (const ReasoningSyntax& syntax : ReasoningSyntaxes()) {
    if (syntax.name == name) return syntax;
  }
  ADD_FAILURE() << "no syntax " << name;
  return ReasoningSyntaxes().front();
}

struct ReasoningRead {
  std::string text, reasoning;
  int reasoning_tokens = 0;
  friend std::ostream& operator<<(std::ostream& out, const ReasoningRead& read) {
    return out << "text '" << read.text << "' reasoning '" << read.reasoning << "'";
  }
};

// As the gateway reads an answer whose tokens are the text's pieces.
ReasoningRead ReadReasoning(const ReasoningSyntax& syntax, ReasoningMode mode, bool inside,
                            std::string_view text, const std::vector<size_t>& cuts) {
  const auto stream = std::make_shared<api::TokenStream>(nullptr);
  stream->FilterReasoning(mode,
                          {.open = std::string(syntax.open),
                           .close = std::string(syntax.close),
                           .begins_inside = inside},
                          1);
  if (!syntax.answer_open.empty() && mode != ReasoningMode::kKeep) {
    std::vector<std::unique_ptr<api::OutputParser>> parsers;
    parsers.push_back(std::make_unique<AnswerTagParser>(
        AnswerTagParser::Tags{std::string(syntax.answer_open), std::string(syntax.answer_close)},
        nullptr));
    stream->ParseOutput(std::move(parsers));
  }
  const auto append = [&](std::string_view piece, api::StreamEvent::Kind kind) {
    api::StreamEvent event;
    event.kind = kind;
    event.text = piece;
    stream->Append(std::move(event));
  };
  size_t begin = 0;
  for (const size_t cut : cuts) {
    append(text.substr(begin, cut - begin), api::StreamEvent::Kind::kToken);
    begin = cut;
  }
  append(text.substr(begin), api::StreamEvent::Kind::kToken);
  append("", api::StreamEvent::Kind::kChoiceEnd);
  stream->Finish(OkStatus(), {}, {});
  ReasoningRead read;
  api::Generation generation(stream, nullptr);
  while (const api::StreamEvent* event = generation.Next()) {
    read.text += event->text;
    read.reasoning += event->reasoning;
    if (event->kind == api::StreamEvent::Kind::kEnd)
      read.reasoning_tokens = event->usage.reasoning_tokens;
    generation.Consumed(event->text.size());
  }
  return read;
}

TEST(ReasoningStreams, AreSplitEquallyWholeAndAtEveryCut) {
  namespace json = boost::json;
  const json::value file = json::parse(TestFile("src/chat_template/testing/reasoning.json"));
  size_t formats = 0;
  for (const json::value& format : file.as_array()) {
    const ReasoningSyntax& syntax = SyntaxOf(std::string(format.at("format").as_string()));
    SCOPED_TRACE(syntax.name);
    ++formats;
    for (const json::value& answer : format.at("cases").as_array()) {
      SCOPED_TRACE(std::string(answer.at("name").as_string()));
      const std::string text(answer.at("text").as_string());
      const std::string content(answer.at("content").as_string());
      const std::string reasoning(answer.at("reasoning").as_string());
      const bool inside = answer.at("inside").as_bool();
      for (size_t cut = 0; cut < text.size() + 1; ++cut) {
        const std::vector<size_t> cuts = cut == 0 ? std::vector<size_t>() : std::vector{cut};
        const auto separate = ReadReasoning(syntax, ReasoningMode::kSeparate, inside, text, cuts);
        ASSERT_EQ(separate.text, content) << "cut at " << cut;
        ASSERT_EQ(separate.reasoning, reasoning) << "cut at " << cut;
        const auto hidden = ReadReasoning(syntax, ReasoningMode::kHide, inside, text, cuts);
        ASSERT_EQ(hidden.text, content) << "cut at " << cut;
        ASSERT_EQ(hidden.reasoning, "");
        const auto kept = ReadReasoning(syntax, ReasoningMode::kKeep, inside, text, cuts);
        ASSERT_EQ(kept.text, text);
      }
      std::vector<size_t> bytes;
      for (size_t at = 1; at < text.size(); ++at) bytes.push_back(at);
      const auto single = ReadReasoning(syntax, ReasoningMode::kSeparate, inside, text, bytes);
      EXPECT_EQ(single.text, content);
      EXPECT_EQ(single.reasoning, reasoning);
      // Every byte is a token here.
      const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
      EXPECT_LE(single.reasoning_tokens, static_cast<int>(reasoning.size()));
      EXPECT_GE(single.reasoning_tokens,
                static_cast<int>(reasoning.size()) -
                    std::count_if(reasoning.begin(), reasoning.end(), blank));
    }
  }
  EXPECT_EQ(formats, ReasoningSyntaxes().size());
}

TEST(ReasoningSyntax, IsDetectedInPublishedTemplates) {
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"qwen-3", "think"},
      {"qwen-3.5", "think"},
      {"deepseek-r1", "think"},
      {"deepseek-v3.1", "think"},
      {"glm-4.6", "think"},
      {"smollm3-3b", "think"},
      {"granite-3.3", "granite"},
      {"gemma-4", "gemma"},
      {"command-r7b", "command"},
      {"gpt-oss", ""},
      {"smollm2", ""},
      {"llama-3.1", ""},
      {"mistral-nemo", ""},
      {"gemma-2", ""},
      {"command-r-plus", ""},
  };
  for (const auto& [file, name] : expected) {
    const auto compiled = tokenizer::ChatTemplate::Compile(
        TestFile(std::string("tests/third_party/chat_templates/") + file + ".jinja"), {});
    ASSERT_TRUE(compiled.ok()) << file << compiled.status();
    const ReasoningSyntax* const found = DetectReasoning(*compiled);
    EXPECT_EQ(found == nullptr ? "" : found->name, name) << file;
  }
}

// By the tags themselves, for families whose templates are not among the test data.
TEST(ReasoningSyntax, EachIsDetectedByItsTags) {
  for (const ReasoningSyntax& syntax : ReasoningSyntaxes()) {
    std::string source = "{#";
    for (const std::string_view tag :
         {syntax.open, syntax.close, syntax.answer_open, syntax.answer_close})
      source += std::string(tag) + " ";
    const auto compiled = tokenizer::ChatTemplate::Compile(source + "#}x", {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const ReasoningSyntax* const found = DetectReasoning(*compiled);
    ASSERT_NE(found, nullptr) << syntax.name;
    EXPECT_EQ(found->name, syntax.name);
  }
}

// A constrained answer begins behind the reasoning, whether its tags are text or special tokens.
TEST(ReasoningSyntax, ConstraintsBeginBehindTheClosingTag) {
  using grammar::Structure;
  const Structure yes_or_no{.kind = Structure::Kind::kChoice, .texts = {"yes", "no"}};
  for (const ReasoningSyntax& syntax : ReasoningSyntaxes()) {
    for (const bool special : {false, true}) {
      SCOPED_TRACE(std::string(syntax.name) + (special ? ", special tokens" : ""));
      SpecialTokenTexts all = {{"<|unrelated|>", 299}};
      TokenId next = 300;
      for (const std::string_view tag :
           {syntax.open, syntax.close, syntax.answer_open, syntax.answer_close}) {
        // As Gemma's vocabulary has them: the channel's name is no part of the token.
        const std::string token(tag.substr(0, tag.find("thought\n")));
        if (special && !token.empty()) all.emplace_back(token, next++);
      }
      const SpecialTokenTexts tokens = ReasoningTokens(syntax, all);
      EXPECT_EQ(tokens.size(), all.size() - 1);
      const auto bytes = [&](std::string_view text) { return TagBytes(text, tokens); };
      const std::string open(syntax.open), close(syntax.close);
      const std::string answer_open(syntax.answer_open), answer_close(syntax.answer_close);
      for (const bool inside : {false, true}) {
        const Structure answer = BehindReasoning(
            syntax, tokens, BetweenTags(AnswerTagsOf(syntax, tokens), yes_or_no), inside,
            /*keep_space=*/false);
        const auto accepts = [&](const std::string& text) {
          return grammar::testing::Accepts(answer, bytes((inside ? "" : open) + text));
        };
        EXPECT_TRUE(accepts("Hm. no?" + close + "yes"));
        EXPECT_TRUE(accepts("a\nb" + close + "\n\n" + answer_open + "no" + answer_close));
        EXPECT_TRUE(accepts(std::string(syntax.forced_close) + "yes"));
        EXPECT_FALSE(accepts("Hm." + close + "maybe"));
        EXPECT_FALSE(accepts("Hm."));
        EXPECT_FALSE(accepts("Hm. yes"));
        EXPECT_EQ(grammar::testing::Accepts(answer, bytes("yes")), !inside);
        EXPECT_EQ(grammar::testing::Accepts(answer, bytes(answer_open + "yes" + answer_close)),
                  !inside);
      }
    }
  }
}

// A string of JSON lost a closing tag.
TEST(AnswerTagParser, AClosingTagWithTextBehindItIsText) {
  for (const std::string text : {"{\"s\": \"</response>\"}", "a </response> </response> b"}) {
    AnswerTagParser parser({"<response>", "</response>"}, nullptr);
    api::StreamEvent event;
    for (const char c : "<response>" + text + "\n</response>\n") parser.Push({&c, 1}, &event);
    parser.Finish(&event);
    EXPECT_EQ(event.text, text);
  }
}

TEST(AnswerTagParser, AnAnswerThatThePromptHasBegunLosesItsEnd) {
  AnswerTagParser parser({"<response>", "</response>", /*opened=*/true}, nullptr);
  api::StreamEvent event;
  parser.Push(" two, three</respon", &event);
  parser.Push("se>", &event);
  parser.Finish(&event);
  EXPECT_EQ(event.text, " two, three");
}

TEST(AnswerTagParser, KeepsSpaceThatBelongsToTheAnswer) {
  for (const bool keep : {false, true}) {
    AnswerTagParser parser({"<response>", "</response>", /*opened=*/false, keep}, nullptr);
    api::StreamEvent event;
    for (const char c : std::string("<response> a\n</response>")) parser.Push({&c, 1}, &event);
    parser.Finish(&event);
    EXPECT_EQ(event.text, keep ? " a\n" : "a");
  }
}

TEST(ReasoningSyntax, SpaceOfTheAnswerIsNoSpaceOfTheTags) {
  const grammar::Structure choice{.kind = grammar::Structure::Kind::kChoice, .texts = {" a"}};
  for (const ReasoningSyntax& syntax : ReasoningSyntaxes()) {
    SCOPED_TRACE(syntax.name);
    AnswerTags tags = AnswerTagsOf(syntax, {});
    tags.keep_space = true;
    const grammar::Structure answer = BehindReasoning(syntax, {}, BetweenTags(tags, choice),
                                                      /*inside=*/true, /*keep_space=*/true);
    const std::string close = "Hm." + std::string(syntax.close);
    const std::string open(syntax.answer_open), end(syntax.answer_close);
    EXPECT_TRUE(grammar::testing::Accepts(answer, close + open + " a" + end));
    EXPECT_FALSE(grammar::testing::Accepts(answer, close + "  a"));
    if (open.empty()) continue;
    EXPECT_FALSE(grammar::testing::Accepts(answer, close + open + "  a" + end));
    EXPECT_FALSE(grammar::testing::Accepts(answer, close + open + " a " + end));
  }
}

}  // namespace
}  // namespace tutti::chat_template
