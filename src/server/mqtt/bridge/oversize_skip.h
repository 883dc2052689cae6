// OversizeSkip: skips one PUBLISH that exceeds the size limit, and extracts its packet id.
//
// In MQTT 3.1.1 a client cannot announce a maximum packet size. If an oversized packet ended the
// connection, the broker would send the packet again on the next one: one message of any publisher
// could keep the server away from its broker. So the packet is read without being stored,
// acknowledged and counted. Owned by the bridge's thread; holds a few bytes for a packet of any
// size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::mqtt::bridge {

class OversizeSkip {
 public:
  // `fixed_header`: a complete fixed header (type and flags, remaining length). Nothing if it is
  // incomplete or not that of a PUBLISH.
  static std::optional<OversizeSkip> Of(std::string_view fixed_header);

  // Consumes bytes after the header. Returns their number: all, unless the packet ends among them.
  size_t Feed(std::string_view bytes);
  bool done() const { return left_ == 0; }
  // Needs done(). Nothing: QoS 0, or the packet is too malformed to have an id.
  std::optional<uint16_t> packet_id() const;

 private:
  OversizeSkip(bool has_id, size_t left) : has_id_(has_id), left_(left) {}

  bool has_id_;
  size_t left_;        // bytes left of the packet
  std::string start_;  // first two bytes: the length of the topic
  size_t topic_left_ = 0;
  std::string id_;  // the two bytes after the topic
};

}  // namespace tutti::mqtt::bridge
