// A plot of throughput against latency, as SVG 1.1: one line for each series, one mark for each
// point, axes from 0 with round steps. Pure; any thread.
#pragma once

#include <string>
#include <vector>

namespace tutti::bench {

struct PlotPoint {
  double x = 0, y = 0;
  std::string label;  // printed next to the mark
};
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // joined in this order
};
struct Plot {
  std::string title, x_axis, y_axis;
  std::vector<PlotSeries> series;
};

std::string ToSvg(const Plot& plot);

// The smallest of 1, 2, 2.5 and 5 x 10^k that divides 0..`most` into at most `parts` steps; 1 for
// an empty range.
double RoundStep(double most, int parts);

}  // namespace tutti::bench
