#include <gtest/gtest.h>

#include "mqtt/codec.h"
#include "mqtt/testing/conformance_case.h"

namespace tutti::mqtt {
namespace {

using testing::Hex;
using testing::Pkt;

TEST(FrameSplitterTest, TakesNoMoreThanOnePacket) {
  FrameSplitter splitter{FrameLimits()};
  const std::string two = Pkt(0x30, "first") + Pkt(0x32, "second");
  EXPECT_EQ(splitter.Feed(two), 7u);
  ASSERT_TRUE(splitter.done());
  EXPECT_EQ(splitter.Feed("more"), 0u) << "until it was taken";
  const Frame first = splitter.Take();
  EXPECT_EQ(first.type, PacketType::kPublish);
  EXPECT_EQ(first.flags, 0);
  EXPECT_EQ(first.body, "first");
  EXPECT_EQ(splitter.Feed(std::string_view(two).substr(7)), 8u);
  EXPECT_EQ(splitter.Take().flags, 2);
}

TEST(FrameSplitterTest, ReadsRemainingLengthsOfOneToFourBytes) {
  for (const size_t length : {0u, 127u, 128u, 16'383u, 16'384u, 2'097'151u, 2'097'152u}) {
    FrameSplitter splitter{FrameLimits{.packet_bytes = 4 << 20, .only = {}}};
    const std::string packet = Pkt(0x30, std::string(length, 'x'));
    EXPECT_EQ(splitter.Feed(packet), packet.size());
    ASSERT_TRUE(splitter.done()) << length;
    const Frame frame = splitter.Take();
    EXPECT_EQ(frame.body.size(), length);
    EXPECT_TRUE(frame.minimal_length);
  }
}

TEST(FrameSplitterTest, TheLimitCountsTheWholePacketAndShowsBeforeItsBodyCame) {
  const FrameLimits limits{.packet_bytes = 12, .only = {}};
  FrameSplitter fits{limits}, not_quite{limits};
  fits.Feed(Pkt(0x30, std::string(10, 'x')));
  EXPECT_TRUE(fits.done());
  not_quite.Feed(Hex({0x30, 11}));
  ASSERT_TRUE(not_quite.fault());
  EXPECT_EQ(not_quite.fault()->code, ReasonCode::kPacketTooLarge);
  EXPECT_EQ(not_quite.Feed("x"), 0u) << "nothing is read behind a fault";
  EXPECT_EQ(not_quite.held_bytes(), std::string().capacity());
}

TEST(FrameSplitterTest, AnAnnouncedBodyTakesMemoryOnlyAsItComes) {
  FrameSplitter splitter{FrameLimits{.packet_bytes = 64 << 20, .only = {}}};
  splitter.Feed(Hex({0x30, 0xFF, 0xFF, 0xFF, 0x0F}));  // 32 MiB
  splitter.Feed(std::string(100, 'x'));
  EXPECT_FALSE(splitter.done());
  EXPECT_TRUE(splitter.within());
  EXPECT_LT(splitter.held_bytes(), 1024u);
}

TEST(FrameSplitterTest, ATypeThatMayNotComeShowsAtItsFirstByte) {
  FrameSplitter splitter{FrameLimits{.only = PacketType::kConnect}};
  EXPECT_EQ(splitter.Feed(Pkt(0xC0) + Pkt(0xC0)), 1u);
  ASSERT_TRUE(splitter.fault());
  EXPECT_EQ(splitter.fault()->code, ReasonCode::kProtocolError);
}

TEST(FrameSplitterTest, LimitsMayChangeBetweenPackets) {
  FrameSplitter splitter{FrameLimits{.packet_bytes = 4, .only = PacketType::kPingreq}};
  splitter.Feed(Pkt(0xC0));
  splitter.Take();
  splitter.set_limits(FrameLimits());
  splitter.Feed(Pkt(0x30, "longer"));
  EXPECT_TRUE(splitter.done());
}

TEST(FrameSplitterTest, OnlyPublishHasFlagsOfItsOwn) {
  for (unsigned type = 1; type <= 15; ++type) {
    int allowed = 0;
    for (unsigned flags = 0; flags < 16; ++flags) {
      FrameSplitter splitter{FrameLimits()};
      splitter.Feed(Hex({type << 4 | flags}));
      allowed += splitter.fault() ? 0 : 1;
    }
    EXPECT_EQ(allowed, type == 3 ? 16 : 1) << type;
  }
}

}  // namespace
}  // namespace tutti::mqtt
