#include "base/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/ascii.h"

namespace tutti {
namespace {

constexpr std::string_view kExample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, ReadsAndWritesTheExampleOfTheSpecification) {
  const TraceContext context = ReadTraceContext(kExample, "congo=t61rcWkgMzE");
  ASSERT_TRUE(context.valid());
  EXPECT_TRUE(context.sampled);
  EXPECT_EQ(ToHex(context.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(context.state, "congo=t61rcWkgMzE");
  EXPECT_EQ(TraceParent(context), kExample);
}

TEST(TraceContextTest, RefusesMalformedFields) {
  const std::string good(kExample);
  const auto with = [&](size_t at, char c) {
    std::string text = good;
    text[at] = c;
    return text;
  };
  const std::vector<std::string> malformed = {
      std::string(),
      good.substr(0, 54),
      good + "0",
      good + "-00",
      with(2, '_'),
      with(35, ' '),
      with(52, '_'),
      with(3, 'A'),
      with(40, 'g'),
      with(53, 'x'),
      "ff" + good.substr(2),
      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"};
  for (const std::string& text : malformed) {
    EXPECT_FALSE(ReadTraceContext(text).valid()) << text;
  }
}

TEST(TraceContextTest, LaterVersionsMayHaveMoreFields) {
  const std::string later = "01" + std::string(kExample.substr(2));
  EXPECT_TRUE(ReadTraceContext(later).valid());
  EXPECT_TRUE(ReadTraceContext(later + "-more").valid());
  EXPECT_FALSE(ReadTraceContext(later + "more").valid());
}

TEST(TraceContextTest, DropsAMalformedStateAlone) {
  for (const std::string& state : {std::string(513, 'a'), std::string("no equals sign"),
                                   std::string("a=\x01"), std::string("a=\xc3\xa4")}) {
    const TraceContext context = ReadTraceContext(kExample, state);
    EXPECT_TRUE(context.valid());
    EXPECT_EQ(context.state, "") << state;
  }
}

TEST(TraceContextTest, ChildrenHaveStableAndDifferentIds) {
  const SpanId parent = NewSpanId();
  std::set<SpanId> seen = {parent};
  for (uint64_t i = 0; i < 100; ++i) {
    const SpanId child = ChildSpanId(parent, i);
    EXPECT_EQ(child, ChildSpanId(parent, i));
    EXPECT_TRUE(seen.insert(child).second) << i;
  }
}

TEST(TraceContextTest, SamplesTheShareOfTraces) {
  int sampled = 0;
  for (int i = 0; i < 4000; ++i) {
    const TraceId id = NewTraceId();
    EXPECT_TRUE(InSample(id, 1));
    EXPECT_FALSE(InSample(id, 0));
    // What a smaller share has, a larger one has too.
    if (InSample(id, 0.25)) {
      ++sampled;
      EXPECT_TRUE(InSample(id, 0.5));
    }
  }
  EXPECT_NEAR(sampled, 1000, 150);
}

}  // namespace
}  // namespace tutti
