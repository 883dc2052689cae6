// A stream of MQTT packets: where packets end does not depend on how the bytes were cut, and what
// is decoded can be encoded and is then decoded alike. Input: one byte (version and how to cut),
// then the stream.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "fuzz_input.h"
#include "mqtt/codec.h"
#include "mqtt/topics.h"

namespace {

using namespace tutti::mqtt;

constexpr size_t kPacketBytes = 4096;

struct Outcome {
  std::vector<Frame> frames;
  size_t taken = 0;
  int fault = 0;
};

Outcome Split(std::string_view bytes, size_t piece) {
  FrameSplitter splitter(FrameLimits{kPacketBytes, std::nullopt});
  Outcome outcome;
  while (outcome.taken < bytes.size() && !splitter.fault()) {
    const std::string_view part = bytes.substr(outcome.taken, piece);
    const size_t taken = splitter.Feed(part);
    CHECK(taken > 0 && taken <= part.size());
    outcome.taken += taken;
    CHECK_LE(splitter.held_bytes(), 2 * kPacketBytes);
    if (splitter.done()) outcome.frames.push_back(splitter.Take());
  }
  if (splitter.fault()) outcome.fault = static_cast<int>(splitter.fault()->code);
  return outcome;
}

void CheckSame(const Outcome& a, const Outcome& b) {
  CHECK_EQ(a.taken, b.taken);
  CHECK_EQ(a.fault, b.fault);
  CHECK_EQ(a.frames.size(), b.frames.size());
  for (size_t i = 0; i < a.frames.size(); ++i) {
    CHECK(a.frames[i].body == b.frames[i].body && a.frames[i].flags == b.frames[i].flags);
  }
}

void CheckTopics(const Packet& packet) {
  const auto* subscribe = std::get_if<Subscribe>(&packet);
  if (subscribe == nullptr) return;
  for (const Subscription& each : subscribe->subscriptions) {
    CHECK(IsTopicFilter(each.filter));
    if (!SharedFilterOf(each.filter)) CHECK(FilterCovers(each.filter, each.filter));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t first = input.Byte();
  Version version = (first & 0x80) != 0 ? Version::k311 : Version::k5;
  const std::string_view bytes = input.Rest();
  const Outcome whole = Split(bytes, std::max<size_t>(bytes.size(), 1));
  CheckSame(whole, Split(bytes, 1));
  CheckSame(whole, Split(bytes, (first & 0x3F) + 1));
  for (const Frame& frame : whole.frames) {
    const Decoded decoded = Decode(version, frame);
    if (!decoded.ok()) {
      CHECK(IsFailure(decoded.fault->code) && !decoded.fault->why.empty());
      continue;
    }
    CheckTopics(decoded.packet);
    if (const auto* connect = std::get_if<Connect>(&decoded.packet)) version = connect->version;
    const tutti::Result<std::string> encoded = Encode(version, decoded.packet);
    CHECK(encoded.ok()) << encoded.status();
    FrameSplitter splitter(FrameLimits{2 * kPacketBytes, std::nullopt});
    CHECK_EQ(splitter.Feed(*encoded), encoded->size());
    const Decoded again = Decode(version, splitter.Take());
    CHECK(again.ok() && again.packet == decoded.packet) << "it reads otherwise when written again";
  }
  return 0;
}
