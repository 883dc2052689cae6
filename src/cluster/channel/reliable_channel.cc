#include "cluster/channel/reliable_channel.h"

#include <algorithm>
#include <utility>

namespace tutti::cluster {

ReliableChannel::ReliableChannel(std::string from, uint64_t session)
    : from_(std::move(from)), session_(session) {}

bool ReliableChannel::has_room() const {
  return waiting_.size() < kMaxUnderWay && waiting_bytes_ < kMaxBytes;
}

void ReliableChannel::Send(std::string message) {
  waiting_bytes_ += message.size();
  size_t begin = 0;
  for (; message.size() - begin > kPartBytes; begin += kPartBytes)
    waiting_.push_back({message.substr(begin, kPartBytes), true});
  waiting_.push_back({begin == 0 ? std::move(message) : message.substr(begin), false});
}

void ReliableChannel::SendAllAgain() {
  repeated_ += sent_;
  sent_ = 0;
  owes_ = true;  // what was acknowledged may not have come either
  wait_ = kRepeat;
}

bool ReliableChannel::Next(TimePoint now, v1::Packet* packet) {
  if (sent_ > 0 && now >= again_) {
    repeated_ += sent_;
    sent_ = 0;
    wait_ = std::min(wait_ * 2, kLongestRepeat);
  }
  const bool part = sent_ < std::min(waiting_.size(), kMaxUnderWay);
  if (!part && !owes_) return false;
  packet->set_from(from_);
  packet->set_session(session_);
  packet->set_received(received_);
  owes_ = false;
  if (!part) return true;
  if (sent_ == 0) again_ = now + wait_;
  packet->set_number(first_ + sent_);
  highest_ = std::max(highest_, packet->number());
  packet->set_part(waiting_[sent_].bytes);
  packet->set_more(waiting_[sent_].more);
  ++sent_;
  return true;
}

bool ReliableChannel::Receive(const v1::Packet& packet, TimePoint now,
                              std::vector<std::string>* messages) {
  // Ignores acknowledgements of packets that were never sent.
  if (packet.received() >= first_ && packet.received() <= highest_) {
    while (first_ <= packet.received()) {
      waiting_bytes_ -= waiting_.front().bytes.size();
      waiting_.pop_front();
      ++first_;
      if (sent_ > 0) --sent_;
    }
    wait_ = kRepeat;
    again_ = now + wait_;
  }
  if (packet.number() == 0) return true;
  owes_ = true;  // also of one that came before: its acknowledgement was lost
  if (packet.number() != received_ + 1) return true;
  ++received_;
  begun_ += packet.part();
  if (begun_.size() > kMaxMessageBytes) return false;
  if (!packet.more()) messages->push_back(std::exchange(begun_, {}));
  return true;
}

}  // namespace tutti::cluster
