// LetterChannel: messages that come in their order, each once, over letters that may be lost,
// doubled or late: numbered, acknowledged by the highest number that came without a gap, and all
// sent again from the first that is not ("go back N", as in Tanenbaum, Computer Networks, 3.4.2). A
// long message is cut into parts, each a letter.
//
// One end of it. Not thread-safe; knows no broker and no clock.
#pragma once

#include <tutti/v1/letter.pb.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tutti::remote {

class LetterChannel {
 public:
  static constexpr size_t kPartBytes = size_t{256} << 10;
  // Parts that are under way and not acknowledged; and bytes that wait, behind which there is no
  // room for a further message.
  static constexpr size_t kMostUnderWay = 64;
  static constexpr size_t kMostBytes = size_t{4} << 20;
  // Of one message; who sends keeps below (results of encoders: engine/options.h).
  static constexpr size_t kMostMessageBytes = size_t{1} << 30;
  // Until what is not acknowledged is sent again; doubled each time, up to the longest.
  static constexpr Duration kRepeat = std::chrono::seconds(1);
  static constexpr Duration kLongestRepeat = std::chrono::seconds(8);

  LetterChannel(std::string from, uint64_t session);

  uint64_t session() const { return session_; }
  // Whether a message may be sent now: else they wait where they are made, and become fewer.
  bool has_room() const;
  bool settled() const { return waiting_.empty(); }  // all that was sent has come
  uint64_t repeated() const { return repeated_; }    // parts, so far

  void Send(std::string message);
  // The way has been closed and is open again: nobody knows what has come.
  void SendAllAgain();
  // The next letter for the other side; false: none now.
  bool Next(TimePoint now, v1::Letter* letter);
  // Of this session; a number that nobody gave changes nothing. Messages that have come whole are
  // added. False: one is longer than any may be, and nothing more comes.
  bool Receive(const v1::Letter& letter, TimePoint now, std::vector<std::string>* messages);

 private:
  const std::string from_;
  const uint64_t session_;
  struct Part {
    std::string bytes;
    bool more = false;
  };
  std::deque<Part> waiting_;  // not acknowledged; the first has the number first_
  uint64_t first_ = 1;
  size_t sent_ = 0;       // of waiting_, since all were sent again
  uint64_t highest_ = 0;  // number that was ever sent
  size_t waiting_bytes_ = 0;
  uint64_t received_ = 0;
  std::string begun_;  // of a message that has come in part
  bool owes_ = false;  // an acknowledgement
  TimePoint again_ = TimePoint::max();
  Duration wait_ = kRepeat;
  uint64_t repeated_ = 0;
};

}  // namespace tutti::remote
