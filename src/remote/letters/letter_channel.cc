#include "remote/letters/letter_channel.h"

#include <algorithm>
#include <utility>

namespace tutti::remote {

LetterChannel::LetterChannel(std::string from, uint64_t session)
    : from_(std::move(from)), session_(session) {}

bool LetterChannel::has_room() const {
  return waiting_.size() < kMaxUnderWay && waiting_bytes_ < kMaxBytes;
}

void LetterChannel::Send(std::string message) {
  waiting_bytes_ += message.size();
  size_t begin = 0;
  for (; message.size() - begin > kPartBytes; begin += kPartBytes)
    waiting_.push_back({message.substr(begin, kPartBytes), true});
  waiting_.push_back({begin == 0 ? std::move(message) : message.substr(begin), false});
}

void LetterChannel::SendAllAgain() {
  repeated_ += sent_;
  sent_ = 0;
  owes_ = true;  // what was acknowledged may not have come either
  wait_ = kRepeat;
}

bool LetterChannel::Next(TimePoint now, v1::Letter* letter) {
  if (sent_ > 0 && now >= again_) {
    repeated_ += sent_;
    sent_ = 0;
    wait_ = std::min(wait_ * 2, kLongestRepeat);
  }
  const bool part = sent_ < std::min(waiting_.size(), kMaxUnderWay);
  if (!part && !owes_) return false;
  letter->set_from(from_);
  letter->set_session(session_);
  letter->set_received(received_);
  owes_ = false;
  if (!part) return true;
  if (sent_ == 0) again_ = now + wait_;
  letter->set_number(first_ + sent_);
  highest_ = std::max(highest_, letter->number());
  letter->set_part(waiting_[sent_].bytes);
  letter->set_more(waiting_[sent_].more);
  ++sent_;
  return true;
}

bool LetterChannel::Receive(const v1::Letter& letter, TimePoint now,
                            std::vector<std::string>* messages) {
  // Only what was sent at all can have come.
  if (letter.received() >= first_ && letter.received() <= highest_) {
    while (first_ <= letter.received()) {
      waiting_bytes_ -= waiting_.front().bytes.size();
      waiting_.pop_front();
      ++first_;
      if (sent_ > 0) --sent_;
    }
    wait_ = kRepeat;
    again_ = now + wait_;
  }
  if (letter.number() == 0) return true;
  owes_ = true;  // also of one that came before: its acknowledgement was lost
  if (letter.number() != received_ + 1) return true;
  ++received_;
  begun_ += letter.part();
  if (begun_.size() > kMaxMessageBytes) return false;
  if (!letter.more()) messages->push_back(std::exchange(begun_, {}));
  return true;
}

}  // namespace tutti::remote
