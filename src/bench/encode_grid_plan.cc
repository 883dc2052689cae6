#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "app/config/options.h"
#include "base/random.h"
#include "base/text_file.h"
#include "bench/encode_grid.h"

namespace tutti::bench {
namespace {

constexpr size_t kMaxCells = 10'000;

Status BadKey(const std::string& key, const std::string& what) {
  return InvalidArgument("invalid_value", key + ": " + what).WithParam(key);
}

// A number, or a list of them, each within [least, most].
Result<std::vector<int>> Numbers(const toml::table& table, const std::string& key,
                                 std::vector<int> fallback, int least, int most) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fallback;
  std::vector<int> numbers;
  const auto add = [&](const toml::node& item) {
    const auto number = item.value_exact<int64_t>();
    if (!number.has_value() || *number < least || *number > most) return false;
    numbers.push_back(static_cast<int>(*number));
    return true;
  };
  bool good = true;
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& item : *list) good = good && add(item);
  } else {
    good = add(*node);
  }
  if (!good || numbers.empty())
    return BadKey(key, fmt::format("whole numbers from {} to {} are wanted", least, most));
  return numbers;
}

Result<int> Number(const toml::table& table, const std::string& key, int fallback, int least,
                   int most) {
  ASSIGN_OR_RETURN(const std::vector<int> numbers, Numbers(table, key, {fallback}, least, most));
  if (numbers.size() != 1) return BadKey(key, "one number is wanted");
  return numbers[0];
}

Result<std::string> Text(const toml::table& table, const std::string& key,
                         const std::string& fallback) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fallback;
  if (!node->is_string()) return BadKey(key, "a text is wanted");
  return **node->as_string();
}

std::string Plain(const toml::node& node) {
  if (const auto* text = node.as_string()) return **text;
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

using Options = std::map<std::string, std::string>;

// Every combination of the values that [options] lists.
Result<std::vector<Options>> Combinations(const toml::table& table) {
  std::vector<Options> all = {{}};
  const toml::node* node = table.get("options");
  if (node == nullptr) return all;
  if (!node->is_table()) return BadKey("options", "a table is wanted");
  for (const auto& [key, value] : *node->as_table()) {
    const std::string name(key.str());
    const app::OptionSpec* option = app::FindOption(name);
    if (option == nullptr || option->group != app::OptionGroup::kModel)
      return BadKey("options." + name, "no such option of the model side");
    std::vector<std::string> values;
    if (const toml::array* list = value.as_array()) {
      for (const toml::node& item : *list) values.push_back(Plain(item));
    } else {
      values.push_back(Plain(value));
    }
    std::vector<Options> more;
    for (const Options& options : all) {
      for (const std::string& text : values) {
        RETURN_IF_ERROR(app::CheckOptionValue(*option, text));
        more.push_back(options);
        more.back()[option->key] = text;
      }
    }
    all = std::move(more);
    if (all.empty() || all.size() > kMaxCells)
      return BadKey("options." + name, "an empty list, or too many combinations");
  }
  return all;
}

Status CheckKeys(const toml::table& table) {
  const std::vector<std::string> known = {"model",    "url",    "batch", "concurrency", "tokens",
                                          "requests", "warmup", "order", "seed",        "options"};
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = app::Suggestion(name, known);
    return BadKey(name, "no such key" + (meant.empty() ? "" : "; did you mean " + meant + "?"));
  }
  return OkStatus();
}

Status Arrange(std::vector<GridCell>& cells, const std::string& order, uint64_t seed) {
  if (order == "given") return OkStatus();
  if (order == "reversed") {
    std::reverse(cells.begin(), cells.end());
    return OkStatus();
  }
  if (order != "shuffled") return BadKey("order", "given, reversed or shuffled");
  Random random(seed);
  for (size_t i = cells.size(); i > 1; --i) {
    const auto other = static_cast<size_t>(random.Uniform() * static_cast<double>(i));
    std::swap(cells[i - 1], cells[std::min(other, i - 1)]);
  }
  return OkStatus();
}

}  // namespace

std::string GridCell::Name() const {
  std::string name =
      fmt::format("batch {}, concurrency {}, tokens {}", shape.texts, shape.clients, shape.tokens);
  for (const auto& [key, value] : options) name += fmt::format(", {} {}", key, value);
  return name;
}

Result<GridPlan> ParseGridPlan(const std::string& text, const std::string& name) {
  toml::table table;
  try {  // the library reports by exception; none leaves this function
    table = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    return InvalidArgument(
        "invalid_value",
        fmt::format("{}: line {}: {}", name, error.source().begin.line, error.description()));
  }
  RETURN_IF_ERROR(CheckKeys(table));
  GridPlan plan;
  ASSIGN_OR_RETURN(plan.model, Text(table, "model", ""));
  ASSIGN_OR_RETURN(plan.url, Text(table, "url", ""));
  if (plan.model.empty() && plan.url.empty())
    return BadKey("model", "the file names neither a model nor the url of a server");
  ASSIGN_OR_RETURN(const auto batches,
                   Numbers(table, "batch", {1, 8, 32}, 1, api::kMaxEncodeInputs));
  ASSIGN_OR_RETURN(const auto clients, Numbers(table, "concurrency", {1, 4, 8}, 1, 1024));
  ASSIGN_OR_RETURN(const auto tokens, Numbers(table, "tokens", {16}, 3, 1 << 16));
  ASSIGN_OR_RETURN(plan.requests, Number(table, "requests", 500, 1, 1 << 24));
  ASSIGN_OR_RETURN(plan.warmup, Number(table, "warmup", 50, 0, 1 << 24));
  ASSIGN_OR_RETURN(const int seed, Number(table, "seed", 1, 0, 1 << 30));
  plan.seed = static_cast<uint64_t>(seed);
  ASSIGN_OR_RETURN(const auto combinations, Combinations(table));
  if (!plan.url.empty() && !combinations.front().empty())
    return BadKey("options." + combinations.front().begin()->first,
                  "is of a model in here; the server at url has its options already");
  for (const Options& options : combinations) {
    for (const int t : tokens)
      for (const int b : batches)
        for (const int c : clients) plan.cells.push_back({{c, b, t}, options});
  }
  if (plan.cells.size() > kMaxCells) return BadKey("batch", "too many combinations");
  ASSIGN_OR_RETURN(const std::string order, Text(table, "order", "shuffled"));
  RETURN_IF_ERROR(Arrange(plan.cells, order, plan.seed));
  return plan;
}

constexpr uint64_t kMaxPlanBytes = 1 << 20;

Result<GridPlan> ReadGridPlan(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxPlanBytes, "io_error"));
  return ParseGridPlan(text, path);
}

}  // namespace tutti::bench
