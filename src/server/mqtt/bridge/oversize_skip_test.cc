#include <gtest/gtest.h>

#include <string>

#include "mqtt/codec.h"
#include "server/mqtt/bridge/inbox.h"

namespace tutti::mqtt::bridge {
namespace {

// A PUBLISH and the length of its fixed header.
std::pair<std::string, size_t> Large(uint8_t qos, uint16_t id, size_t payload) {
  Publish packet;
  packet.topic = "llm/v1/anna/s1/in";
  packet.payload.assign(payload, 'x');
  packet.qos = qos;
  packet.packet_id = id;
  const std::string bytes = *Encode(Version::k311, Packet(packet));
  size_t header = 2;
  while ((bytes[header - 1] & 0x80) != 0) ++header;
  return {bytes, header};
}

TEST(OversizeSkip, FindsTheIdAndTheEndHoweverTheBytesAreCut) {
  for (const size_t payload : {100u, 1000u, 100'000u, 3'000'000u}) {
    const auto [bytes, header] = Large(1, 0xABCD, payload);
    const std::string behind = bytes.substr(header) + "next packet";
    for (const size_t cut : {1u, 2u, 3u, 7u, 16'384u}) {
      auto skip = OversizeSkip::Of(std::string_view(bytes).substr(0, header));
      ASSERT_TRUE(skip.has_value());
      size_t at = 0;
      while (!skip->done()) at += skip->Feed(std::string_view(behind).substr(at, cut));
      EXPECT_EQ(behind.substr(at), "next packet");
      EXPECT_EQ(skip->packet_id(), 0xABCD);
    }
  }
}

TEST(OversizeSkip, QosZeroHasNoId) {
  const auto [bytes, header] = Large(0, 0, 1000);
  auto skip = OversizeSkip::Of(std::string_view(bytes).substr(0, header));
  ASSERT_TRUE(skip.has_value());
  EXPECT_EQ(skip->Feed(std::string_view(bytes).substr(header)), bytes.size() - header);
  EXPECT_TRUE(skip->done());
  EXPECT_EQ(skip->packet_id(), std::nullopt);
}

TEST(OversizeSkip, TopicLengthBeyondPacketHidesOnlyTheId) {
  auto skip = OversizeSkip::Of("\x32\x05");
  ASSERT_TRUE(skip.has_value());
  EXPECT_EQ(skip->Feed("\xFF\xFF"
                       "abcdef"),
            5u);
  EXPECT_TRUE(skip->done());
  EXPECT_EQ(skip->packet_id(), std::nullopt);
}

TEST(OversizeSkip, OtherPacketsAndHalfHeadersAreNone) {
  for (const std::string_view header : {"", "\x32", "\x42\x7F", "\x20\x7F", "\x32\x80",
                                        "\x32\x7F\x01", "\x32\x80\x80\x80\x80\x01"}) {
    EXPECT_FALSE(OversizeSkip::Of(header).has_value());
  }
}

}  // namespace
}  // namespace tutti::mqtt::bridge
