// A case of the conformance tables: bytes of one packet, and the packet or the fault they are.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "mqtt/codec.h"

// The tables name only the fields that a case is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tutti::mqtt::testing {

struct ConformanceCase {
  const char* name;
  std::string bytes;  // with the fixed header
  std::variant<Packet, ReasonCode> expected;
  // Whether encoding the packet gives the same bytes; not where they can be written shorter.
  bool canonical = true;
};

inline std::string Hex(std::initializer_list<unsigned> bytes) {
  std::string all;
  for (const unsigned byte : bytes) all += static_cast<char>(byte);
  return all;
}

// With its two-byte length in front.
inline std::string Str(std::string_view text) {
  return Hex({static_cast<unsigned>(text.size() >> 8), static_cast<unsigned>(text.size() & 255)}) +
         std::string(text);
}

inline std::string VarInt(size_t value) {
  std::string all;
  do {
    all += static_cast<char>((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value > 0);
  return all;
}

// Properties, with their length in front.
inline std::string Props(std::string_view list) { return VarInt(list.size()) + std::string(list); }

// A packet: its first byte, the remaining length, the body.
inline std::string Pkt(unsigned first, std::string_view body = "") {
  return Hex({first}) + VarInt(body.size()) + std::string(body);
}

// The first packet of `bytes`, or the fault that shows. Nothing at all: the bytes end within it.
inline std::optional<Decoded> Read(Version version, std::string_view bytes, size_t piece) {
  FrameSplitter splitter{FrameLimits()};
  while (!bytes.empty() && !splitter.done() && !splitter.fault()) {
    bytes.remove_prefix(splitter.Feed(bytes.substr(0, piece)));
  }
  if (splitter.fault()) return Decoded{Packet(), splitter.fault()};
  if (!splitter.done()) return std::nullopt;
  return Decode(version, splitter.Take());
}

}  // namespace tutti::mqtt::testing
