#include "bench/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <set>

#include "bench/report.h"

namespace tutti::bench {
namespace {

using Json = boost::json::value;
using JsonObject = boost::json::object;

struct Table {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

std::string NumberText(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string CellText(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_bool()) return value.get_bool() ? "yes" : "no";
  if (value.is_number()) return NumberText(value.to_number<double>());
  if (value.is_string()) return std::string(value.get_string());
  return boost::json::serialize(value);
}

// Adds the members of an object as cells; those of an object in it as "outer inner". Lists are left
// out: the figures have the samples.
void AddCells(const JsonObject& object, const std::string& prefix,
              std::vector<std::pair<std::string, std::string>>* cells) {
  for (const auto& [key, value] : object) {
    const std::string name = prefix.empty() ? std::string(key) : prefix + " " + std::string(key);
    if (value.is_object()) {
      AddCells(value.get_object(), name, cells);
    } else if (!value.is_array()) {
      cells->emplace_back(name, CellText(value));
    }
  }
}

// A list of objects as a table; a column for each member of any of them.
Table TableOf(const std::string& title, const boost::json::array& list) {
  Table table{title, {}, {}};
  std::vector<std::map<std::string, std::string>> rows;
  for (const Json& item : list) {
    std::vector<std::pair<std::string, std::string>> cells;
    AddCells(item.get_object(), "", &cells);
    for (const auto& [name, text] : cells) {
      if (std::find(table.head.begin(), table.head.end(), name) == table.head.end())
        table.head.push_back(name);
    }
    rows.emplace_back(cells.begin(), cells.end());
  }
  for (const auto& row : rows) {
    std::vector<std::string>& texts = table.rows.emplace_back();
    for (const std::string& name : table.head) {
      const auto found = row.find(name);
      texts.push_back(found == row.end() ? "" : found->second);
    }
  }
  return table;
}

bool IsListOfObjects(const Json& value) {
  return value.is_array() && !value.get_array().empty() &&
         std::all_of(value.get_array().begin(), value.get_array().end(),
                     [](const Json& item) { return item.is_object(); });
}

Table FigureTable(const std::vector<Figure>& figures) {
  Table table{"Figures",
              {"figure", "unit", "median", "minimum", "maximum", "samples", "% of the limit"},
              {}};
  for (const Figure& figure : figures) {
    const Spread spread = SpreadOf(figure.samples);
    table.rows.push_back(
        {figure.Name(), figure.unit, NumberText(spread.median), NumberText(spread.min),
         NumberText(spread.max), fmt::format("{}", figure.samples.size()),
         figure.limit > 0 ? fmt::format("{:.0f}", 100 * spread.median / figure.limit) : ""});
  }
  return table;
}

std::string TextAt(const JsonObject& json, const char* key) {
  const Json* value = json.if_contains(key);
  return value == nullptr ? "" : CellText(*value);
}

// "tutti bench engine" of the schema "tutti.bench.engine.v1".
std::string TitleOf(const JsonObject& report) {
  std::string name = TextAt(report, "schema");
  if (const size_t version = name.rfind(".v"); version != std::string::npos) name.resize(version);
  std::replace(name.begin(), name.end(), '.', ' ');
  return name;
}

std::string CreatedText(const JsonObject& report) {
  const Json* value = report.if_contains("created");
  if (value == nullptr || !value->is_int64()) return "";
  const std::time_t time = value->get_int64();
  std::tm parts{};
  char text[32];
  return gmtime_r(&time, &parts) != nullptr &&
                 std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts) > 0
             ? text
             : "";
}

// The scalars of the report and of its machine.
Table SettingsTable(const JsonObject& report) {
  Table table{"Settings", {"setting", "value"}, {}};
  if (const std::string created = CreatedText(report); !created.empty())
    table.rows.push_back({"created", created});
  std::vector<std::pair<std::string, std::string>> cells;
  for (const auto& [key, value] : report) {
    if (key == "created" || key == "passed" || value.is_array()) continue;
    if (!value.is_object()) cells.emplace_back(key, CellText(value));
    if (key == "machine" && value.is_object()) AddCells(value.get_object(), "machine", &cells);
  }
  for (const auto& [name, text] : cells) table.rows.push_back({name, text});
  return table;
}

Result<std::vector<Table>> TablesOf(const JsonObject& report) {
  std::vector<Table> tables = {SettingsTable(report)};
  ASSIGN_OR_RETURN(const std::vector<Figure> figures, FiguresFromJson(report));
  if (!figures.empty()) tables.push_back(FigureTable(figures));
  const Json* comparison = report.if_contains("comparison");
  if (comparison != nullptr && comparison->is_object()) {
    const Json* rows = comparison->get_object().if_contains("figures");
    if (rows != nullptr && IsListOfObjects(*rows)) {
      tables.push_back(TableOf("Compared with " + TextAt(comparison->get_object(), "baseline"),
                               rows->get_array()));
    }
  }
  for (const auto& [key, value] : report) {
    if (key != "figures" && IsListOfObjects(value))
      tables.push_back(TableOf(std::string(key), value.get_array()));
  }
  return tables;
}

// "passed", or the failures.
std::vector<std::string> VerdictOf(const JsonObject& report) {
  std::vector<std::string> lines;
  const Json* failures = report.if_contains("failures");
  if (failures != nullptr && failures->is_array()) {
    for (const Json& failure : failures->get_array())
      lines.push_back("FAILED: " + CellText(failure));
  }
  if (lines.empty() && TextAt(report, "passed") == "yes") lines.push_back("passed");
  return lines;
}

std::string MarkdownCell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string MarkdownTable(const Table& table) {
  std::string text = fmt::format("\n## {}\n\n|", table.title);
  for (const std::string& name : table.head) text += fmt::format(" {} |", MarkdownCell(name));
  text += "\n|";
  for (size_t i = 0; i < table.head.size(); ++i) text += "---|";
  for (const auto& row : table.rows) {
    text += "\n|";
    for (const std::string& cell : row) text += fmt::format(" {} |", MarkdownCell(cell));
  }
  return text + "\n";
}

std::string HtmlTable(const Table& table) {
  std::string html =
      fmt::format("<h2>{}</h2>\n<div class=\"wide\"><table>\n<tr>", EscapeMarkup(table.title));
  for (const std::string& name : table.head) html += "<th>" + EscapeMarkup(name) + "</th>";
  html += "</tr>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += "<td>" + EscapeMarkup(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

// Adds the figures to the plots of their metrics, whose names are in `places`.
void AddFigures(const std::vector<Figure>& figures, const std::string& whose, bool limits,
                std::vector<Plot>* plots, std::map<std::string, size_t>* places) {
  std::map<std::string, size_t> lines;  // indices of plot.series, by metric, axis and series
  for (const Figure& figure : figures) {
    if (figure.samples.empty()) continue;
    const auto [place, fresh] =
        places->try_emplace(figure.metric + "\n" + figure.axis, plots->size());
    if (fresh)
      plots->push_back({figure.metric, figure.axis, figure.metric + ", " + figure.unit, {}});
    Plot& plot = (*plots)[place->second];
    const auto line_of = [&](const std::string& name, PlotSeries::Style style) -> PlotSeries& {
      const auto [line, first] = lines.try_emplace(place->first + "\n" + name, plot.series.size());
      if (first) plot.series.push_back({name, {}, style});
      return plot.series[line->second];
    };
    PlotPoint point{figure.at, Percentile(figure.samples, 50), ""};
    point.ys = figure.samples;
    line_of(whose + figure.series, PlotSeries::Style::kLine).points.push_back(std::move(point));
    if (limits && figure.limit > 0) {
      line_of("limit, " + figure.series, PlotSeries::Style::kDashes)
          .points.push_back({figure.at, figure.limit, ""});
    }
  }
}

double NumberOf(const JsonObject& json, const char* key) {
  const Json* value = json.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

// The rooflines of kernels: rates against operations for each byte that is read, a mark for each
// figure of `metric`. The roof of a peak is the lower of the peak and of what the read rate allows;
// a mark on its roof has attained the machine's limit. `rows` is the bench's table of that metric,
// which has the peaks.
Plot Roofline(const std::string& metric, const std::vector<Figure>& figures,
              const boost::json::array& rows, double read_gb_s) {
  Plot plot{metric + ": attained rate and the machine's limits",
            "operations per byte read",
            "GOPS",
            {},
            true};
  std::map<std::string, size_t> lines;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Figure& figure : figures) {
    if (figure.metric != metric || figure.ops_per_byte <= 0) continue;
    const std::string format = figure.series.substr(0, figure.series.find_first_of(" ,"));
    const auto [line, fresh] = lines.try_emplace(format, plot.series.size());
    if (fresh) plot.series.push_back({format, {}, PlotSeries::Style::kMarks});
    PlotPoint point{figure.ops_per_byte, Percentile(figure.samples, 50), ""};
    point.ys = figure.samples;
    plot.series[line->second].points.push_back(std::move(point));
    least = std::min(least, figure.ops_per_byte);
    most = std::max(most, figure.ops_per_byte);
  }
  std::set<double> peaks;
  for (const Json& row : rows) {
    const double share = NumberOf(row.get_object(), "fraction_of_peak");
    if (share > 0) peaks.insert(std::round(NumberOf(row.get_object(), "gops") / share));
  }
  for (const double peak : peaks) {
    const double ridge = peak / read_gb_s;  // where the read rate no longer limits
    const double first = std::min(least, ridge);
    plot.series.push_back(
        {fmt::format("{:.0f} GOPS, {:.0f} GB/s", peak, read_gb_s),
         {{first, first * read_gb_s, ""}, {ridge, peak, ""}, {std::max(most, ridge), peak, ""}},
         PlotSeries::Style::kDashes});
  }
  return plot;
}

constexpr char kStyle[] =
    "body{font-family:sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;font-size:13px}"
    "td,th{border:1px solid #ccc;padding:3px 8px;text-align:right;white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left}"
    ".wide{overflow-x:auto}.failed{color:#b00020}.passed{color:#2e6b2e}"
    "svg{max-width:100%;height:auto}pre{font-size:11px;white-space:pre-wrap;overflow-wrap:"
    "anywhere}";

}  // namespace

Result<std::vector<Plot>> PlotsOf(const JsonObject& report, const JsonObject* baseline) {
  std::vector<Plot> plots;
  const Json* machine = report.if_contains("machine");
  const double read =
      machine != nullptr && machine->is_object() ? NumberOf(machine->get_object(), "read_gb_s") : 0;
  ASSIGN_OR_RETURN(const std::vector<Figure> figures, FiguresFromJson(report));
  for (const auto& [key, metric] :
       {std::pair{"gemm", "matrix product"}, {"attention", "attention"}}) {
    const Json* rows = report.if_contains(key);
    if (rows != nullptr && IsListOfObjects(*rows) && read > 0)
      plots.push_back(Roofline(metric, figures, rows->get_array(), read));
  }
  std::map<std::string, size_t> places;
  AddFigures(figures, "", plots.empty(), &plots, &places);
  if (baseline != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<Figure> old_figures, FiguresFromJson(*baseline));
    AddFigures(old_figures, "baseline: ", false, &plots, &places);
  }
  return plots;
}

Result<std::string> MarkdownOf(const JsonObject& report) {
  ASSIGN_OR_RETURN(const std::vector<Table> tables, TablesOf(report));
  std::string text = fmt::format("# {}\n", TitleOf(report));
  for (const std::string& line : VerdictOf(report)) text += "\n" + line + "\n";
  for (const Table& table : tables) text += MarkdownTable(table);
  return text;
}

Result<std::string> HtmlOf(const JsonObject& report, const JsonObject* baseline) {
  ASSIGN_OR_RETURN(const std::vector<Table> tables, TablesOf(report));
  ASSIGN_OR_RETURN(const std::vector<Plot> plots, PlotsOf(report, baseline));
  const std::string title = EscapeMarkup(TitleOf(report));
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, kStyle);
  for (const std::string& line : VerdictOf(report)) {
    html += fmt::format("<p class=\"{}\">{}</p>\n", line == "passed" ? "passed" : "failed",
                        EscapeMarkup(line));
  }
  if (!plots.empty()) {
    html +=
        "<p>A mark is the median of the samples of a figure, the line through it their spread, and "
        "each small circle a sample. Dashed lines are the limits of the machine.</p>\n";
  }
  for (const Plot& plot : plots) html += "<figure>\n" + ToSvg(plot) + "</figure>\n";
  for (const Table& table : tables) html += HtmlTable(table);
  html += "<details><summary>The report as JSON</summary>\n<pre>" +
          EscapeMarkup(boost::json::serialize(report)) + "</pre></details>\n</body>\n</html>\n";
  return html;
}

}  // namespace tutti::bench
