#include "bench/report_page.h"

#include <gmock/gmock.h>

#include "bench/report.h"

namespace tutti::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figure Kernel(const char* metric, const char* series, double at, double ops_per_byte) {
  Figure figure = TokenRate(metric, series, "rows", at, {90, 100, 110});
  figure.unit = "GOPS";
  figure.limit = 200;
  figure.ops_per_byte = ops_per_byte;
  return figure;
}

boost::json::object KernelsReport() {
  Report report;
  report.json = {
      {"schema", "tutti.bench.kernels.v1"},
      {"machine", {{"cpu", "X <1>"}, {"read_gb_s", 20}}},
      {"gemm",
       boost::json::array{boost::json::object{
           {"format", "Q4_1"}, {"gops", 100}, {"fraction_of_peak", 0.1}, {"us", {{"p50", 1.5}}}}}}};
  report.figures = {Kernel("matrix product", "Q4_1 8 x 8", 1, 4),
                    Kernel("matrix product", "Q4_1 8 x 8", 8, 32)};
  report.failures = {"a | b"};
  return ReportJson(report);
}

TEST(ReportPageTest, FiguresSurviveTheirJson) {
  const auto figures = FiguresFromJson(KernelsReport());
  ASSERT_TRUE(figures.ok());
  ASSERT_EQ(figures->size(), 2u);
  EXPECT_EQ((*figures)[1].Name(), "matrix product, Q4_1 8 x 8, rows 8");
  EXPECT_EQ((*figures)[1].samples, (std::vector<double>{90, 100, 110}));
  EXPECT_EQ((*figures)[1].limit, 200);
  EXPECT_EQ((*figures)[1].ops_per_byte, 32);
  EXPECT_TRUE((*figures)[1].more_is_better);
}

TEST(ReportPageTest, KernelsBeginWithTheirRoofline) {
  const auto plots = PlotsOf(KernelsReport());
  ASSERT_TRUE(plots.ok());
  ASSERT_EQ(plots->size(), 2u);
  const Plot& roofline = plots->front();
  EXPECT_TRUE(roofline.logarithmic);
  ASSERT_EQ(roofline.series.size(), 2u);
  EXPECT_EQ(roofline.series[0].name, "Q4_1");
  ASSERT_EQ(roofline.series[0].points.size(), 2u);
  EXPECT_EQ(roofline.series[0].points[0].ys.size(), 3u);
  // 100 GOPS are a tenth of the peak: the roof rises with 20 GB/s to 1,000 GOPS at 50 per byte.
  const std::vector<PlotPoint>& roof = roofline.series[1].points;
  ASSERT_EQ(roof.size(), 3u);
  EXPECT_EQ(roof[0].x, 4);
  EXPECT_EQ(roof[0].y, 80);
  EXPECT_EQ(roof[1].x, 50);
  EXPECT_EQ(roof[1].y, 1000);
}

TEST(ReportPageTest, OtherReportsHaveAPlotForEachMetricWithLimitAndBaseline) {
  Report report;
  report.json = {{"schema", "tutti.bench.engine.v1"}};
  report.figures = {TokenRate("prefill rate", "", "sequences", 1, {1, 2, 3}),
                    TokenRate("decode rate", "", "sequences", 1, {1, 2, 3}),
                    TokenRate("decode rate", "", "sequences", 8, {1, 2, 3})};
  report.figures[1].limit = 5;
  const boost::json::object json = ReportJson(report);
  const auto plots = PlotsOf(json, &json);
  ASSERT_TRUE(plots.ok());
  ASSERT_EQ(plots->size(), 2u);
  EXPECT_EQ((*plots)[0].series.size(), 2u) << "now and baseline";
  ASSERT_EQ((*plots)[1].series.size(), 3u) << "and the limit";
  EXPECT_EQ((*plots)[1].series[0].points.size(), 2u);
}

TEST(ReportPageTest, TextsAreEscaped) {
  const auto html = HtmlOf(KernelsReport());
  ASSERT_TRUE(html.ok());
  EXPECT_THAT(*html, HasSubstr("X &lt;1&gt;"));
  EXPECT_THAT(*html, Not(HasSubstr("X <1>")));
  EXPECT_THAT(*html, HasSubstr("FAILED: a | b"));
  const auto markdown = MarkdownOf(KernelsReport());
  ASSERT_TRUE(markdown.ok());
  EXPECT_THAT(*markdown, HasSubstr("# tutti bench kernels\n"));
  EXPECT_THAT(*markdown, HasSubstr("| format | gops | fraction_of_peak | us p50 |"));
  EXPECT_THAT(*markdown, HasSubstr("| Q4_1 | 100 | 0.1 | 1.5 |"));
}

TEST(ReportPageTest, PartsAreEqualRunsOfTheValues) {
  const auto count = [](std::span<const double> part) { return static_cast<double>(part.size()); };
  EXPECT_EQ(PartsOf(std::vector<double>(12, 1), count), (std::vector<double>{2, 2, 3, 2, 3}));
  EXPECT_EQ(PartsOf(std::vector<double>(3, 1), count), (std::vector<double>{1, 1, 1}));
  EXPECT_TRUE(PartsOf({}, count).empty());
}

}  // namespace
}  // namespace tutti::bench
