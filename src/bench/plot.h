// Plots as SVG 1.1: one line for each series, one mark for each point with the spread of its
// samples, axes from 0 with round steps or logarithmic ones. No scripts, fonts or references. Pure;
// any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::bench {

struct PlotPoint {
  double x = 0, y = 0;
  std::string label;  // printed next to the mark
  // Samples of x and y: each gets a dot, and a line from the least to the most.
  std::vector<double> xs = {}, ys = {};
};
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;                                     // joined in this order
  enum class Style { kLine, kMarks, kDashes } style = Style::kLine;  // dashes have no marks
};
struct Plot {
  std::string title, x_axis, y_axis;
  std::vector<PlotSeries> series;
  bool logarithmic = false;  // both axes; points that are not above 0 are left out
};

std::string ToSvg(const Plot& plot);
// All plots in one file, one below the other.
std::string ToSvg(const std::vector<Plot>& plots);
// `text` for XML and HTML, in elements and in attributes.
std::string EscapeMarkup(std::string_view text);

// The smallest of 1, 2, 2.5 and 5 x 10^k that divides 0..`most` into at most `parts` steps; 1 for
// an empty range.
double RoundStep(double most, int parts);

}  // namespace tutti::bench
