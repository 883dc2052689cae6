#include "server/mqtt/bridge/oversize_skip.h"

#include <algorithm>

#include "mqtt/reason_code.h"

namespace tutti::mqtt::bridge {
namespace {

uint16_t Number(const std::string& two) {
  return static_cast<uint16_t>(static_cast<uint8_t>(two[0]) << 8 | static_cast<uint8_t>(two[1]));
}

}  // namespace

std::optional<OversizeSkip> OversizeSkip::Of(std::string_view fixed_header) {
  if (fixed_header.size() < 2 || fixed_header.size() > 5) return std::nullopt;
  const auto first = static_cast<uint8_t>(fixed_header[0]);
  if (first >> 4 != static_cast<int>(PacketType::kPublish)) return std::nullopt;
  size_t length = 0;
  for (size_t i = 1; i < fixed_header.size(); ++i) {
    const auto byte = static_cast<uint8_t>(fixed_header[i]);
    length |= static_cast<size_t>(byte & 0x7F) << (7 * (i - 1));
    const bool last = i + 1 == fixed_header.size();
    if (last != ((byte & 0x80) == 0)) return std::nullopt;
  }
  return OversizeSkip((first & 0x06) != 0, length);
}

size_t OversizeSkip::Feed(std::string_view bytes) {
  bytes = bytes.substr(0, left_);
  left_ -= bytes.size();
  const size_t taken = bytes.size();
  const auto fill = [&bytes](std::string& two) {
    const size_t part = std::min(bytes.size(), 2 - two.size());
    two += bytes.substr(0, part);
    bytes.remove_prefix(part);
    return two.size() == 2;
  };
  if (start_.size() < 2) {
    if (!fill(start_)) return taken;
    topic_left_ = Number(start_);
  }
  const size_t of_topic = std::min(bytes.size(), topic_left_);
  topic_left_ -= of_topic;
  bytes.remove_prefix(of_topic);
  if (topic_left_ == 0 && id_.size() < 2) fill(id_);
  return taken;
}

std::optional<uint16_t> OversizeSkip::packet_id() const {
  if (!has_id_ || id_.size() < 2 || Number(id_) == 0) return std::nullopt;
  return Number(id_);
}

}  // namespace tutti::mqtt::bridge
