// Encoding and decoding random packets of both versions gives the same packets.
#include <gtest/gtest.h>

#include "mqtt/codec.h"
#include "mqtt/testing/random_packets.h"

namespace tutti::mqtt::testing {
namespace {

constexpr int kPackets = 20'000;  // of each version

TEST(RoundTripTest, WhatIsEncodedIsDecodedAlikeHoweverTheBytesAreCut) {
  for (const Version version : {Version::k311, Version::k5}) {
    Random random(static_cast<uint64_t>(version));
    int of_type[16] = {};
    std::string stream;
    std::vector<Packet> sent;
    for (int i = 0; i < kPackets; ++i) {
      sent.push_back(RandomPacket(version, random));
      ++of_type[static_cast<int>(TypeOf(sent.back()))];
      const Result<std::string> encoded = Encode(version, sent.back());
      ASSERT_TRUE(encoded.ok()) << encoded.status();
      stream += *encoded;
    }
    FrameSplitter splitter{FrameLimits()};
    std::string_view rest = stream;
    for (size_t i = 0; i < sent.size();) {
      rest.remove_prefix(splitter.Feed(rest.substr(0, 1 + random.Below(200))));
      ASSERT_FALSE(splitter.fault()) << splitter.fault()->why;
      if (!splitter.done()) continue;
      const Decoded decoded = Decode(version, splitter.Take());
      ASSERT_TRUE(decoded.ok()) << i << ": " << decoded.fault->why;
      ASSERT_TRUE(decoded.packet == sent[i]) << PacketTypeName(TypeOf(sent[i])) << ", packet " << i;
      ++i;
    }
    EXPECT_TRUE(rest.empty());
    for (int type = 1; type <= (version == Version::k5 ? 15 : 14); ++type) {
      EXPECT_GT(of_type[type], kPackets / 50) << type;
    }
  }
}

TEST(RoundTripTest, RandomBytesAreAFaultOrAPacketThatIsWrittenAndReadAlike) {
  Random random(7);
  int packets = 0;
  for (int i = 0; i < 200'000; ++i) {
    const Version version = random.Chance(0.5) ? Version::k311 : Version::k5;
    Frame frame;
    frame.type = static_cast<PacketType>(1 + random.Below(15));
    if (frame.type == PacketType::kPublish) frame.flags = static_cast<uint8_t>(random.Below(16));
    for (uint64_t left = random.Below(12); left > 0; --left) {
      frame.body += static_cast<char>(random.Below(random.Chance(0.7) ? 6 : 256));
    }
    const Decoded decoded = Decode(version, frame);
    if (!decoded.ok()) continue;
    ++packets;
    const Result<std::string> encoded = Encode(version, decoded.packet);
    ASSERT_TRUE(encoded.ok()) << PacketTypeName(frame.type) << encoded.status();
  }
  EXPECT_GT(packets, 1000);
}

}  // namespace
}  // namespace tutti::mqtt::testing
