#include "bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tutti::bench {
namespace {

constexpr double kPlotWidth = 840, kPlotHeight = 460;
constexpr double kLeft = 70, kRight = 230, kTop = 40, kBottom = 55;
constexpr std::array kColours = {"#1b6ca8", "#c8553d", "#3a7d44", "#7d4f9e",
                                 "#a67c00", "#444444", "#00868b", "#b03a76"};
constexpr char kDashColour[] = "#888888";

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, EscapeMarkup(text));
}

// One axis: values least..most on pixels from..to.
struct Axis {
  double least, most, from, to;
  std::vector<double> ticks;
  bool logarithmic;
  double At(double value) const {
    const auto place = [&](double v) { return logarithmic ? std::log10(v) : v; };
    return from + (to - from) * (place(value) - place(least)) / (place(most) - place(least));
  }
};

Axis LinearAxis(double most, double from, double to) {
  const double step = RoundStep(most, 6);
  Axis axis{0, step * std::max(1.0, std::ceil(most / step)), from, to, {}, false};
  for (double v = 0; v <= axis.most * 1.0001; v += step) axis.ticks.push_back(v);
  return axis;
}

// From a power of ten to a power of ten, with ticks at each.
Axis LogarithmicAxis(double least, double most, double from, double to) {
  const double first = std::floor(std::log10(least));
  const double last = std::max(first + 1, std::ceil(std::log10(most)));
  Axis axis{std::pow(10, first), std::pow(10, last), from, to, {}, true};
  for (double power = first; power <= last; ++power) axis.ticks.push_back(std::pow(10, power));
  return axis;
}

std::string Grid(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double v : x.ticks) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"#dddddd\"/>\n",
        x.At(v), y.from, y.to);
    svg += Text(x.At(v), y.from + 18, "middle", fmt::format("{:g}", v));
  }
  for (const double v : y.ticks) {
    svg += fmt::format(
        "<line x1=\"{1:.1f}\" y1=\"{0:.1f}\" x2=\"{2:.1f}\" y2=\"{0:.1f}\" "
        "stroke=\"#dddddd\"/>\n",
        y.At(v), x.from, x.to);
    svg += Text(x.from - 8, y.At(v) + 4, "end", fmt::format("{:g}", v));
  }
  svg += Text((x.from + x.to) / 2, kPlotHeight - 14, "middle", plot.x_axis);
  const double middle = (y.from + y.to) / 2;
  svg += Text(18, middle, "middle", plot.y_axis,
              fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
  return svg;
}

std::vector<double> Shown(const std::vector<double>& values, bool logarithmic) {
  std::vector<double> shown;
  for (const double value : values) {
    if (!logarithmic || value > 0) shown.push_back(value);
  }
  return shown;
}

// The samples of a point as small dots, and lines from the least to the most of them.
std::string SpreadMarks(const PlotPoint& point, const char* colour, const Axis& x, const Axis& y) {
  std::string svg;
  const auto line = [&](double x1, double y1, double x2, double y2) {
    svg += fmt::format(
        "<line class=\"spread\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
        "stroke=\"{}\" "
        "stroke-width=\"1.5\" stroke-opacity=\"0.7\"/>\n",
        x1, y1, x2, y2, colour);
  };
  const auto dot = [&](double px, double py) {
    svg += fmt::format(
        "<circle class=\"sample\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.8\" fill=\"none\" "
        "stroke=\"{}\"/>\n",
        px, py, colour);
  };
  const double px = x.At(point.x), py = y.At(point.y);
  const std::vector<double> xs = Shown(point.xs, x.logarithmic),
                            ys = Shown(point.ys, y.logarithmic);
  if (!xs.empty()) {
    const auto [low, high] = std::minmax_element(xs.begin(), xs.end());
    line(x.At(*low), py, x.At(*high), py);
    for (const double value : xs) dot(x.At(value), py);
  }
  if (!ys.empty()) {
    const auto [low, high] = std::minmax_element(ys.begin(), ys.end());
    line(px, y.At(*low), px, y.At(*high));
    for (const double value : ys) dot(px, y.At(value));
  }
  return svg;
}

std::string Series(const PlotSeries& series, const char* colour, const Axis& x, const Axis& y) {
  using Style = PlotSeries::Style;
  std::string path, marks;
  for (const PlotPoint& point : series.points) {
    if (x.logarithmic && !(point.x > 0 && point.y > 0)) continue;
    const double px = x.At(point.x), py = y.At(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", px, py);
    if (series.style != Style::kDashes) {
      marks += SpreadMarks(point, colour, x, y);
      marks += fmt::format(
          "<circle class=\"point\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}: "
          "{:g}, {:.4g}"
          "</title></circle>\n",
          px, py, colour, EscapeMarkup(series.name), point.x, point.y);
    }
    if (!point.label.empty()) marks += Text(px + 7, py - 6, "start", point.label);
  }
  if (series.style == Style::kMarks || path.empty()) return marks;
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path,
                     colour, series.style == Style::kDashes ? " stroke-dasharray=\"5 4\"" : "") +
         marks;
}

// The least (above 0) and the most of all values that a plot shows, of x or of y.
struct Range {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  void Add(double value) {
    if (value > 0) least = std::min(least, value);
    most = std::max(most, value);
  }
  Axis On(bool logarithmic, double from, double to) const {
    return logarithmic && most > 0 ? LogarithmicAxis(least, most, from, to)
                                   : LinearAxis(most, from, to);
  }
};

// What is inside the <svg> element of a plot.
std::string Body(const Plot& plot) {
  Range xs, ys;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      xs.Add(point.x);
      ys.Add(point.y);
      for (const double value : point.xs) xs.Add(value);
      for (const double value : point.ys) ys.Add(value);
    }
  }
  const Axis x = xs.On(plot.logarithmic, kLeft, kPlotWidth - kRight);
  const Axis y = ys.On(plot.logarithmic, kPlotHeight - kBottom, kTop);
  std::string svg = fmt::format("<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
                                kPlotWidth, kPlotHeight);
  svg += Text(kLeft, 24, "start", plot.title, " font-size=\"15\"");
  svg += Grid(plot, x, y);
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const bool dashed = plot.series[s].style == PlotSeries::Style::kDashes;
    const char* const colour = dashed ? kDashColour : kColours[s % kColours.size()];
    svg += Series(plot.series[s], colour, x, y);
    const double row = kTop + 18 * static_cast<double>(s);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"{}\" fill=\"{}\"/>\n",
                       kPlotWidth - kRight + 16, dashed ? row + 5 : row, dashed ? 2 : 12, colour);
    svg += Text(kPlotWidth - kRight + 34, row + 11, "start", plot.series[s].name);
  }
  return svg;
}

}  // namespace

std::string EscapeMarkup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

double RoundStep(double most, int parts) {
  if (!(most > 0) || parts < 1) return 1;
  const double least = most / parts;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= least * 0.999999) return factor * power;
  }
  return 10 * power;
}

std::string ToSvg(const Plot& plot) { return ToSvg(std::vector<Plot>{plot}); }

std::string ToSvg(const std::vector<Plot>& plots) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n",
      kPlotWidth, kPlotHeight * static_cast<double>(plots.size()));
  for (size_t i = 0; i < plots.size(); ++i) {
    svg +=
        fmt::format("<g transform=\"translate(0 {:g})\">\n", kPlotHeight * static_cast<double>(i)) +
        Body(plots[i]) + "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::bench
