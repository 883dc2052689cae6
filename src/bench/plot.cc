#include "bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tutti::bench {
namespace {

constexpr double kPlotWidth = 760, kPlotHeight = 460;
constexpr double kLeft = 70, kRight = 150, kTop = 40, kBottom = 55;
constexpr std::array kColours = {"#1b6ca8", "#c8553d", "#3a7d44", "#7d4f9e", "#a67c00", "#444444"};

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, Escaped(text));
}

// One axis: values 0..most on pixels from..to.
struct Axis {
  double most, step, from, to;
  double At(double value) const { return from + (to - from) * value / most; }
};

Axis AxisFor(double most, double from, double to) {
  const double step = RoundStep(most, 6);
  return {step * std::max(1.0, std::ceil(most / step)), step, from, to};
}

std::string Grid(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (double v = 0; v <= x.most * 1.0001; v += x.step) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"#dddddd\"/>\n",
        x.At(v), y.from, y.to);
    svg += Text(x.At(v), y.from + 18, "middle", fmt::format("{:g}", v));
  }
  for (double v = 0; v <= y.most * 1.0001; v += y.step) {
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

std::string Line(const PlotSeries& series, const std::string& colour, const Axis& x,
                 const Axis& y) {
  std::string path, marks;
  for (const PlotPoint& point : series.points) {
    const double px = x.At(point.x), py = y.At(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", px, py);
    marks +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", px, py, colour);
    if (!point.label.empty()) marks += Text(px + 7, py - 6, "start", point.label);
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                     colour) +
         marks;
}

}  // namespace

double RoundStep(double most, int parts) {
  if (!(most > 0) || parts < 1) return 1;
  const double least = most / parts;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= least * 0.999999) return factor * power;
  }
  return 10 * power;
}

std::string ToSvg(const Plot& plot) {
  double max_x = 0, max_y = 0;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      max_x = std::max(max_x, point.x);
      max_y = std::max(max_y, point.y);
    }
  }
  const Axis x = AxisFor(max_x, kLeft, kPlotWidth - kRight);
  const Axis y = AxisFor(max_y, kPlotHeight - kBottom, kTop);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
      kPlotWidth, kPlotHeight);
  svg += Text(kLeft, 24, "start", plot.title, " font-size=\"15\"");
  svg += Grid(plot, x, y);
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const char* const colour = kColours[s % kColours.size()];
    svg += Line(plot.series[s], colour, x, y);
    const double row = kTop + 18 * static_cast<double>(s);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                       kPlotWidth - kRight + 16, row, colour);
    svg += Text(kPlotWidth - kRight + 34, row + 11, "start", plot.series[s].name);
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::bench
