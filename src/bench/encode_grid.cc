#include "bench/encode_grid.h"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "app/config/options.h"
#include "base/random.h"
#include "base/text_file.h"
#include "bench/encode_load.h"
#include "bench/plot.h"

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

constexpr char kSchema[] = "tutti.bench.grid.v1";

// Finished measurements, by cell.
using Results = std::map<std::string, boost::json::value>;

std::string PlaceOf(const GridPlan& plan, const GridCell& cell) {
  return fmt::format("{}{}; {}; ", plan.model, plan.url, cell.Name());
}
std::string AmountsOf(const GridPlan& plan) {
  return fmt::format("{} requests after {}, seed {}", plan.requests, plan.warmup, plan.seed);
}
// Cells with other request counts or seeds are different measurements.
std::string KeyOf(const GridPlan& plan, const GridCell& cell) {
  return PlaceOf(plan, cell) + AmountsOf(plan);
}

// The counts of an earlier measurement of the cell, if they differ from the plan's; else "".
std::string OtherAmounts(const GridPlan& plan, const GridCell& cell, const Results& results) {
  const std::string place = PlaceOf(plan, cell);
  if (results.contains(place + AmountsOf(plan))) return "";
  const auto found = results.lower_bound(place);
  return found != results.end() && found->first.starts_with(place)
             ? found->first.substr(place.size())
             : "";
}

// A line about cells that the file has with other counts than the plan's; or "".
std::string MeasuredAgain(const GridPlan& plan, const Results& results, const std::string& path) {
  size_t count = 0;
  std::string before;
  for (const GridCell& cell : plan.cells) {
    const std::string other = OtherAmounts(plan, cell, results);
    if (other.empty()) continue;
    ++count;
    if (before.empty()) before = other;
  }
  if (count == 0) return "";
  return fmt::format(
      "{} of {} cells are measured again: {} has them with {}, and {} are asked for; what it has "
      "stays in it",
      count, plan.cells.size(), path, before, AmountsOf(plan));
}

Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return OkStatus();
  const std::string temporary = path + ".part";
  std::error_code made;  // the write below fails if the folder is missing
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, made);
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    if (!(file << text).flush()) return Unavailable("io_error", "cannot write " + temporary);
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  return error ? Unavailable("io_error", "cannot write " + path + ": " + error.message())
               : OkStatus();
}

constexpr uint64_t kMaxResultBytes = uint64_t{256} << 20;

// Results of an earlier run; empty if there is no such file.
Result<Results> ReadResults(const std::string& path, std::string* target) {
  Results results;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return results;
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxResultBytes, "invalid_value"));
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(text, failed);
  const boost::json::value* schema = failed ? nullptr : json.find_pointer("/schema", failed);
  const boost::json::value* cells = failed ? nullptr : json.find_pointer("/cells", failed);
  if (schema == nullptr || *schema != kSchema || cells == nullptr || !cells->is_array()) {
    return InvalidArgument("invalid_value",
                           path + " is there and holds no results of a grid; move it away");
  }
  const boost::json::value* told = json.find_pointer("/target", failed);
  if (told != nullptr && told->is_string()) *target = std::string(told->get_string());
  for (const boost::json::value& cell : cells->get_array()) {
    const boost::json::value* key = cell.find_pointer("/key", failed);
    if (key != nullptr && key->is_string())
      results[std::string(key->get_string())] = cell.get_object();
  }
  return results;
}

double NumberAt(const boost::json::value& cell, const char* pointer) {
  boost::system::error_code failed;
  const boost::json::value* value = cell.find_pointer(pointer, failed);
  if (value == nullptr || !value->is_number()) return 0;
  return value->to_number<double>();
}

std::vector<double> NumbersAt(const boost::json::value& cell, const char* pointer) {
  boost::system::error_code failed;
  const boost::json::value* value = cell.find_pointer(pointer, failed);
  std::vector<double> numbers;
  if (value == nullptr || !value->is_array()) return numbers;
  for (const boost::json::value& number : value->get_array())
    numbers.push_back(number.is_number() ? number.to_number<double>() : 0);
  return numbers;
}

// Batching gain for a single caller, and the share of that rate which one text reaches by itself
// (U06): a line for each length and set of options with both cells.
std::string BatchGains(const GridPlan& plan, const Results& results) {
  std::string text;
  for (const GridCell& one : plan.cells) {
    if (one.shape.clients != 1 || one.shape.texts != 1) continue;
    const GridCell* most = nullptr;
    for (const GridCell& cell : plan.cells) {
      const bool alike = cell.shape.clients == 1 && cell.shape.tokens == one.shape.tokens &&
                         cell.options == one.options && results.contains(KeyOf(plan, cell));
      if (alike && cell.shape.texts > (most == nullptr ? 1 : most->shape.texts)) most = &cell;
    }
    const auto found = results.find(KeyOf(plan, one));
    if (most == nullptr || found == results.end()) continue;
    const double alone = NumberAt(found->second, "/texts_s");
    const double together = NumberAt(results.at(KeyOf(plan, *most)), "/texts_s");
    if (alone <= 0 || together <= 0) continue;
    text += fmt::format(
        "\nOne caller, {} tokens: {} texts a request bring {:.2f} x the rate of one; one text "
        "alone "
        "runs at {:.0f} % of it.\n",
        one.shape.tokens, most->shape.texts, together / alone, alone / together * 100);
  }
  return text;
}

std::string Markdown(const GridPlan& plan, const Results& results, const std::string& summary) {
  std::string text = fmt::format(
      "# {}\n\n{} requests a cell after {} of warm-up.\n\n"
      "| cell | texts/s | p50 ms | p95 ms | p99 ms | in flight | texts a forward pass | busy |\n"
      "|---|---|---|---|---|---|---|---|\n",
      summary, plan.requests, plan.warmup);
  for (const GridCell& cell : plan.cells) {
    const auto found = results.find(KeyOf(plan, cell));
    if (found == results.end()) continue;
    const boost::json::value& r = found->second;
    text += fmt::format("| {} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {:.0f} % |\n",
                        cell.Name(), NumberAt(r, "/texts_s"), NumberAt(r, "/latency_ms/p50"),
                        NumberAt(r, "/latency_ms/p95"), NumberAt(r, "/latency_ms/p99"),
                        NumberAt(r, "/in_flight"), NumberAt(r, "/forward_batch"),
                        NumberAt(r, "/busy") * 100);
  }
  return text + BatchGains(plan, results);
}

// Plot of throughput against median latency: one line per setting, marks labelled by concurrency.
std::string Picture(const GridPlan& plan, const Results& results) {
  const std::string title = (plan.model.empty() ? plan.url : plan.model) + ", clients at each mark";
  Plot plot{title, "texts a second", "median latency, ms", {}};
  std::map<std::string, size_t> lines;
  std::vector<const GridCell*> cells;
  for (const GridCell& cell : plan.cells) cells.push_back(&cell);
  std::sort(cells.begin(), cells.end(), [](const GridCell* a, const GridCell* b) {
    return std::tie(a->shape.texts, a->shape.clients) < std::tie(b->shape.texts, b->shape.clients);
  });
  for (const GridCell* cell : cells) {
    const auto found = results.find(KeyOf(plan, *cell));
    if (found == results.end()) continue;
    std::string name = fmt::format("batch {}", cell->shape.texts);
    for (const auto& [key, value] : cell->options) name += fmt::format(", {} {}", key, value);
    const auto [line, fresh] = lines.try_emplace(name, plot.series.size());
    if (fresh) plot.series.push_back({name, {}});
    plot.series[line->second].points.push_back(
        {NumberAt(found->second, "/texts_s"), NumberAt(found->second, "/latency_ms/p50"),
         fmt::format("{}", cell->shape.clients), NumbersAt(found->second, "/parts/texts_s"),
         NumbersAt(found->second, "/parts/latency_ms")});
  }
  return ToSvg(plot);
}

// The figures of the plan's cells that are measured. Cells in files of earlier versions have no
// parts, and so no figures.
std::vector<Figure> FiguresOf(const GridPlan& plan, const Results& results) {
  std::vector<Figure> figures;
  for (const GridCell& cell : plan.cells) {
    const auto found = results.find(KeyOf(plan, cell));
    if (found == results.end() || !found->second.get_object().contains("parts")) continue;
    std::string series;
    for (const auto& [key, value] : cell.options)
      series += fmt::format("{}{} {}", series.empty() ? "" : ", ", key, value);
    const std::vector<Figure> own = EncodeFigures(found->second.get_object(), series);
    figures.insert(figures.end(), own.begin(), own.end());
  }
  return figures;
}

// The target of a cell: the server, or the model loaded anew with the cell's options.
Result<std::unique_ptr<EncodeTarget>> TargetOf(const GridPlan& plan, const GridCell& cell,
                                               const std::string& api_key) {
  if (plan.url.empty()) return LoadEncodeTarget(plan.model, cell.options);
  ASSIGN_OR_RETURN(const client::Server server, client::ParseServer(plan.url));
  return HttpEncodeTarget(server, plan.model, api_key);
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

Result<Report> BenchGrid(const GridPlan& plan, const GridOutputs& outputs,
                         const std::string& api_key, const Progress& progress) {
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  std::string summary = plan.model.empty() ? plan.url : plan.model;
  ASSIGN_OR_RETURN(Results results, ReadResults(outputs.json, &summary));
  const auto document = [&] {
    boost::json::array cells;
    for (const auto& [key, cell] : results) cells.push_back(cell);
    return boost::json::object{{"schema", kSchema},
                               {"target", summary},
                               {"cells", cells},
                               {"figures", FiguresJson(FiguresOf(plan, results))}};
  };
  // A path that cannot be written is reported before any measurement.
  RETURN_IF_ERROR(WriteFile(outputs.json, boost::json::serialize(document()) + "\n"));
  if (const std::string again = MeasuredAgain(plan, results, outputs.json); !again.empty())
    say(again);
  say(EncodeTableHead());
  size_t number = 0;
  for (const GridCell& cell : plan.cells) {
    ++number;
    const std::string key = KeyOf(plan, cell);
    if (results.contains(key)) {
      say(fmt::format("[{}/{}] {}: measured before", number, plan.cells.size(), cell.Name()));
      continue;
    }
    const std::string before = OtherAmounts(plan, cell, results);
    say(fmt::format("[{}/{}] {}{}", number, plan.cells.size(), cell.Name(),
                    before.empty() ? "" : ": measured again, before with " + before));
    ASSIGN_OR_RETURN(const std::unique_ptr<EncodeTarget> target, TargetOf(plan, cell, api_key));
    if (!plan.model.empty() && plan.url.empty()) summary = plan.model + ": " + target->summary();
    const Result<std::string> cut = Greet(*target, cell.shape);
    if (!cut.ok()) {  // measured again by the next run
      report.failures.push_back(cell.Name() + ": " + cut.status().ToString());
      continue;
    }
    if (!cut->empty()) say(*cut);
    const EncodeRun run = RunEncodeLoad(*target, cell.shape, plan.requests, plan.warmup, plan.seed);
    say(EncodeTableRow(run));
    for (const std::string& failure : run.failures)
      report.failures.push_back(cell.Name() + ": " + failure);
    if (!run.failures.empty()) continue;  // measured again by the next run
    boost::json::object measured = EncodeRunJson(run);
    measured["key"] = key;
    for (const auto& [name, value] : cell.options) measured[name] = value;
    results[key] = std::move(measured);
    RETURN_IF_ERROR(WriteFile(outputs.json, boost::json::serialize(document()) + "\n"));
  }
  RETURN_IF_ERROR(WriteFile(outputs.markdown, Markdown(plan, results, summary)));
  RETURN_IF_ERROR(WriteFile(outputs.svg, Picture(plan, results)));
  report.json = document();
  report.figures = FiguresOf(plan, results);
  report.json["passed"] = report.failures.empty();
  return report;
}

}  // namespace tutti::bench
