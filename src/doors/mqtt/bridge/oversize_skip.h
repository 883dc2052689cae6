// OversizeSkip: reads over one PUBLISH that is larger than we take, for the packet id alone.
//
// In MQTT 3.1.1 a client cannot say how large packets may be. One that is too large would end each
// connection anew, as the broker sends it again on the next: whoever may publish could keep the
// server away from its broker with one message. So it is read, not kept, acknowledged and counted.
// Owned by the bridge's thread; holds a few bytes, whatever the packet's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::mqtt::bridge {

class OversizeSkip {
 public:
  // `fixed_header` is that of a whole packet: type and flags, remaining length. Nothing where it is
  // not that of a PUBLISH, or not whole.
  static std::optional<OversizeSkip> Of(std::string_view fixed_header);

  // Takes bytes that follow the header. Returns how many: all, unless the packet ends there.
  size_t Feed(std::string_view bytes);
  bool done() const { return left_ == 0; }
  // Needs done(). Nothing: QoS 0, or so broken that there is none.
  std::optional<uint16_t> packet_id() const;

 private:
  OversizeSkip(bool has_id, size_t left) : has_id_(has_id), left_(left) {}

  bool has_id_;
  size_t left_;        // of the packet
  std::string start_;  // its first two bytes, the length of the topic
  size_t topic_left_ = 0;
  std::string id_;  // the two bytes behind the topic
};

}  // namespace tutti::mqtt::bridge
