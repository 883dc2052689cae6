// The JSON Schema test suite, drafts 7 and 2020-12 (tests/data/grammar): each schema either gives
// every instance the suite's verdict, or is refused by the path of what cannot be enforced.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amount.h"
#include "grammar/state_sets.h"
#include "grammar/testing/accepts.h"
#include "test_paths.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::grammar {
namespace {

namespace json = boost::json;

enum class Verdict { kRight, kRefused, kWrong };

struct SuiteResult {
  int right = 0, refused = 0, wrong = 0;
  std::map<std::string, int> keywords;  // of refusals

  int schemas() const { return right + refused + wrong; }
  double refused_percent() const { return 100.0 * refused / schemas(); }
};

// The instance's texts are the same value with its members in different orders.
bool AcceptsInstance(const std::shared_ptr<const Automaton>& automaton, const json::array& texts) {
  return std::any_of(texts.begin(), texts.end(), [&](const json::value& text) {
    return testing::Accepts(automaton, std::string_view(text.as_string()));
  });
}

Verdict JudgeRefusal(const Status& status, const json::object& group, SuiteResult& result) {
  const json::array& instances = group.at("instances").as_array();
  const bool all_invalid =
      std::none_of(instances.begin(), instances.end(),
                   [](const json::value& instance) { return instance.at("valid").as_bool(); });
  // A schema that no text satisfies has nothing to generate.
  if (status.reason() == "grammar_empty" && all_invalid) return Verdict::kRight;
  EXPECT_TRUE(status.reason() == "schema_unsupported" || status.reason() == "schema_reference")
      << group.at("schema") << ": " << status;
  EXPECT_FALSE(status.param().empty()) << group.at("schema") << ": " << status;
  EXPECT_FALSE(status.message().empty());
  const std::string keyword = status.param().substr(status.param().rfind('.') + 1);
  ++result.keywords[keyword];
  return Verdict::kRefused;
}

Verdict Judge(const json::object& group, SuiteResult& result) {
  const std::string where = std::string(group.at("file").as_string()) + ": " +
                            std::string(group.at("description").as_string());
  const auto automaton = Compile({.kind = Structure::Kind::kJsonSchema,
                                  .text = std::string(group.at("schema").as_string()),
                                  .open_objects = true});
  if (!automaton.ok()) return JudgeRefusal(automaton.status(), group, result);
  Verdict verdict = Verdict::kRight;
  for (const json::value& instance : group.at("instances").as_array()) {
    const bool valid = instance.at("valid").as_bool();
    if (AcceptsInstance(*automaton, instance.at("texts").as_array()) == valid) continue;
    verdict = Verdict::kWrong;
    ADD_FAILURE() << where << ", " << instance.at("description") << ": expected "
                  << (valid ? "valid" : "invalid") << " of " << instance.at("texts").at(0)
                  << " under " << group.at("schema");
  }
  return verdict;
}

SuiteResult RunSuite() {
  const json::value data = tokenizer::testing::ReadJson(
      support::SourcePath("tests/data/grammar/json_schema_suite.json.gz"));
  const json::array& groups = data.at("groups").as_array();
  SuiteResult result;
  const auto step = static_cast<size_t>(support::Amount(1, 16));
  for (size_t i = 0; i < groups.size(); i += step) {
    switch (Judge(groups[i].as_object(), result)) {
      case Verdict::kRight:
        ++result.right;
        break;
      case Verdict::kRefused:
        ++result.refused;
        break;
      case Verdict::kWrong:
        ++result.wrong;
        break;
    }
  }
  return result;
}

std::string Percent(int part, int whole) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * part / whole);
  return text;
}

// The table of docs/structured-output.md, the keyword with the most refusals first.
std::string SuiteTable(const SuiteResult& result) {
  const auto row = [&](std::string_view what, int count) {
    return "| " + std::string(what) + " | " + std::to_string(count) + " | " +
           Percent(count, result.schemas()) + " |\n";
  };
  std::string table = "| | schemas | share |\n|---|---|---|\n";
  table += row("every instance gets the suite's verdict", result.right);
  table += row("an instance gets another verdict", result.wrong);
  table += row("refused", result.refused);
  std::vector<std::pair<std::string, int>> keywords(result.keywords.begin(), result.keywords.end());
  std::stable_sort(keywords.begin(), keywords.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [keyword, count] : keywords) table += row("refused at `" + keyword + "`", count);
  return table;
}

std::string TableOfPage() {
  std::ifstream file(support::SourcePath("docs/structured-output.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view kBegin = "<!-- json-schema-suite: begin -->\n";
  const size_t begin = page.find(kBegin), end = page.find("<!-- json-schema-suite: end -->");
  if (begin == std::string::npos || end == std::string::npos) return "";
  return page.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

TEST(JsonSchemaSuite, KeepsOrRefusesEverySchema) {
  const SuiteResult result = RunSuite();
  ASSERT_GT(result.schemas(), 0);
  EXPECT_EQ(result.wrong, 0);
  if (support::ShortRun()) return;  // a part of the suite
  EXPECT_EQ(result.schemas(), 627);
  EXPECT_LE(result.refused_percent(), 35.0);
  EXPECT_EQ(TableOfPage(), SuiteTable(result)) << "the table of docs/structured-output.md must be\n"
                                               << SuiteTable(result);
}

}  // namespace
}  // namespace tutti::grammar
