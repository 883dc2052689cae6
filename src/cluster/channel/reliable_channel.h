// ReliableChannel: a reliable, ordered channel over packets, which a broker may lose, duplicate or
// delay. Packets are numbered and acknowledged by the highest number received without a gap; after
// a timeout everything from the first unacknowledged packet on is sent again ("go back N",
// Tanenbaum, Computer Networks, 3.4.2). A long message is cut into parts of one packet each.
//
// An object is one end of the channel. Not thread-safe; independent of broker and clock.
#pragma once

#include <tutti/v1/packet.pb.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tutti::cluster {

class ReliableChannel {
 public:
  static constexpr size_t kPartBytes = size_t{256} << 10;
  // Maximum number of parts that are sent and not acknowledged; and the number of waiting bytes
  // beyond which has_room() is false.
  static constexpr size_t kMaxUnderWay = 64;
  static constexpr size_t kMaxBytes = size_t{4} << 20;
  // Maximum length of one message; the sender must keep below it (for results of encoders:
  // engine/options.h).
  static constexpr size_t kMaxMessageBytes = size_t{1} << 30;
  // Timeout after which unacknowledged parts are sent again; doubled each time, up to the longest.
  static constexpr Duration kRepeat = std::chrono::seconds(1);
  static constexpr Duration kLongestRepeat = std::chrono::seconds(8);

  ReliableChannel(std::string from, uint64_t session);

  uint64_t session() const { return session_; }
  // Whether a message may be sent now. If not, messages wait at their source, where they can be
  // merged into fewer.
  bool has_room() const;
  bool settled() const { return waiting_.empty(); }  // everything that was sent is acknowledged
  uint64_t repeated() const { return repeated_; }    // number of parts sent again so far

  void Send(std::string message);
  // Sends all unacknowledged parts again, after the connection to the broker was closed and
  // reopened: it is unknown what arrived.
  void SendAllAgain();
  // Writes the next packet for the other end; false: there is none now.
  bool Next(TimePoint now, v1::Packet* packet);
  // Takes a packet of this session; an acknowledgement of a number that was never sent is ignored.
  // Appends complete messages to `messages`. False: a message is longer than kMaxMessageBytes, and
  // the channel is of no further use.
  bool Receive(const v1::Packet& packet, TimePoint now, std::vector<std::string>* messages);

 private:
  const std::string from_;
  const uint64_t session_;
  struct Part {
    std::string bytes;
    bool more = false;
  };
  std::deque<Part> waiting_;  // not acknowledged; the first part has the number first_
  uint64_t first_ = 1;
  size_t sent_ = 0;       // parts of waiting_ sent since the last restart
  uint64_t highest_ = 0;  // highest number ever sent
  size_t waiting_bytes_ = 0;
  uint64_t received_ = 0;
  std::string begun_;  // received parts of an incomplete message
  bool owes_ = false;  // an acknowledgement is due
  TimePoint again_ = TimePoint::max();
  Duration wait_ = kRepeat;
  uint64_t repeated_ = 0;
};

}  // namespace tutti::cluster
