// Runs the conformance tables, and what follows from them: no packet cut short is the packet.
#include <gtest/gtest.h>

#include <set>

#include "mqtt/testing/conformance_tables.h"

namespace tutti::mqtt::testing {
namespace {

struct Table {
  Version version;
  std::vector<ConformanceCase> cases;
};

std::vector<Table> Tables() { return {{Version::k311, Cases311()}, {Version::k5, Cases5()}}; }

// The packet with `cut` bytes removed from the end of its body, and the remaining length adjusted.
std::string CutBody(const std::string& bytes, size_t cut) {
  size_t header = 1;
  while ((bytes[header] & 0x80) != 0) ++header;
  const std::string body = bytes.substr(header + 1);
  return Pkt(static_cast<uint8_t>(bytes[0]), body.substr(0, body.size() - cut));
}

size_t BodyBytes(const std::string& bytes) {
  size_t header = 1;
  while ((bytes[header] & 0x80) != 0) ++header;
  return bytes.size() - header - 1;
}

TEST(ConformanceTest, EveryCaseIsThePacketOrTheFaultThatTheStandardSays) {
  for (const Table& table : Tables()) {
    for (const ConformanceCase& each : table.cases) {
      SCOPED_TRACE(std::string(each.name) + (table.version == Version::k5 ? " (5)" : " (3.1.1)"));
      for (const size_t piece : {size_t{1}, size_t{3}, each.bytes.size()}) {
        const std::optional<Decoded> decoded = Read(table.version, each.bytes, piece);
        ASSERT_TRUE(decoded.has_value()) << "the bytes end within the packet";
        if (const auto* code = std::get_if<ReasonCode>(&each.expected)) {
          ASSERT_FALSE(decoded->ok());
          EXPECT_EQ(static_cast<int>(decoded->fault->code), static_cast<int>(*code))
              << decoded->fault->why;
          EXPECT_FALSE(decoded->fault->why.empty());
        } else {
          ASSERT_TRUE(decoded->ok()) << decoded->fault->why;
          EXPECT_TRUE(decoded->packet == std::get<Packet>(each.expected));
        }
      }
    }
  }
}

TEST(ConformanceTest, TheTablesHoldEveryTypeOfBothVersionsWellFormedAndMalformed) {
  size_t cases = 0;
  for (const Table& table : Tables()) {
    std::set<PacketType> accepted, refused;
    for (const ConformanceCase& each : table.cases) {
      const auto type = static_cast<PacketType>(static_cast<uint8_t>(each.bytes[0]) >> 4);
      (each.expected.index() == 0 ? accepted : refused).insert(type);
    }
    cases += table.cases.size();
    const size_t types = table.version == Version::k5 ? 15 : 14;
    EXPECT_EQ(accepted.size(), types);
    EXPECT_EQ(refused.size(), 16u) << "with AUTH of 3.1.1 and type 0";
  }
  EXPECT_GE(cases, 240u);
}

TEST(ConformanceTest, AcceptedPacketsAreWrittenAsTheyCame) {
  for (const Table& table : Tables()) {
    for (const ConformanceCase& each : table.cases) {
      if (each.expected.index() != 0) continue;
      SCOPED_TRACE(each.name);
      const Result<std::string> encoded = Encode(table.version, std::get<Packet>(each.expected));
      ASSERT_TRUE(encoded.ok()) << encoded.status();
      if (each.canonical) {
        EXPECT_EQ(*encoded, each.bytes);
      } else {
        EXPECT_LT(encoded->size(), each.bytes.size());
      }
    }
  }
}

TEST(ConformanceTest, AStreamThatEndsAtAnyByteOfAPacketHasNoPacketYet) {
  for (const Table& table : Tables()) {
    for (const ConformanceCase& each : table.cases) {
      if (each.expected.index() != 0) continue;
      for (size_t size = 0; size < each.bytes.size(); ++size) {
        EXPECT_FALSE(Read(table.version, each.bytes.substr(0, size), size + 1).has_value())
            << each.name << " at " << size;
      }
    }
  }
}

TEST(ConformanceTest, CutBodyIsFaultOrShorterPacket) {
  int faults = 0, others = 0;
  for (const Table& table : Tables()) {
    for (const ConformanceCase& each : table.cases) {
      if (each.expected.index() != 0) continue;
      for (size_t cut = 1; cut <= BodyBytes(each.bytes); ++cut) {
        SCOPED_TRACE(std::string(each.name) + " less " + std::to_string(cut));
        const auto decoded = Read(table.version, CutBody(each.bytes, cut), 1 << 20);
        ASSERT_TRUE(decoded.has_value());
        if (!decoded->ok()) {
          ++faults;
          continue;
        }
        // The packet is still valid: its payload, list or optional last field is shorter.
        ++others;
        EXPECT_FALSE(decoded->packet == std::get<Packet>(each.expected) && each.canonical);
        const Result<std::string> encoded = Encode(table.version, decoded->packet);
        ASSERT_TRUE(encoded.ok()) << encoded.status();
        const auto again = Read(table.version, *encoded, 1 << 20);
        ASSERT_TRUE(again.has_value() && again->ok());
        EXPECT_TRUE(again->packet == decoded->packet);
      }
    }
  }
  EXPECT_GT(faults, 400);
  EXPECT_GT(others, 20);
}

TEST(ConformanceTest, ChangedByteIsFaultOrRoundTrips) {
  for (const Table& table : Tables()) {
    for (const ConformanceCase& each : table.cases) {
      if (each.expected.index() != 0) continue;
      for (size_t at = 0; at < each.bytes.size(); ++at) {
        for (const unsigned flip : {0x01u, 0x80u, 0xFFu}) {
          std::string bytes = each.bytes;
          bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
          const auto decoded = Read(table.version, bytes, bytes.size());
          if (!decoded || !decoded->ok()) continue;
          const Result<std::string> encoded = Encode(table.version, decoded->packet);
          ASSERT_TRUE(encoded.ok()) << each.name << " at " << at << ": " << encoded.status();
          const auto again = Read(table.version, *encoded, encoded->size());
          ASSERT_TRUE(again.has_value() && again->ok()) << each.name << " at " << at;
          EXPECT_TRUE(again->packet == decoded->packet) << each.name << " at " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::mqtt::testing
