// ReplyStream: sends one answer: reads the log of a response and publishes it in the form of a
// profile.
//
// The log is the buffer: while the port accepts no more, the stream stops reading and tries again
// later, so a subscriber that does not read costs no memory and blocks nothing. Deltas at QoS 0 are
// dropped instead. The last message is published until it is known to have arrived; if there is no
// subscriber twice in a row, only the last message is published. Belongs to the strand.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/profile/delta_coalescer.h"
#include "server/mqtt/profile/reply_form.h"
#include "services/responses/response.h"

namespace tutti::mqtt::profile {

class ReplyStream {
 public:
  // Like MessagePort::Publish; the result comes through OnPublished(), except for QoS 0.
  using Publish = std::function<Status(Message message, bool last)>;

  // Begins after event `starting_after`; `waker` is woken when the log grows. `patient`: a last
  // message without a subscriber does not count as arrived. Errors: those of
  // ResponseReader::Attach.
  static Result<std::unique_ptr<ReplyStream>> Open(std::shared_ptr<responses::Response> response,
                                                   int64_t starting_after,
                                                   std::shared_ptr<Waker> waker,
                                                   std::unique_ptr<ReplyForm> form,
                                                   const DeltaCoalescer::Options& coalescing,
                                                   Publish publish, bool patient = false);

  enum class Progress {
    kIdle,   // nothing to do until the log grows, due() comes or OnPublished is called
    kMore,   // there is more to read, but other streams have their turn first
    kEnded,  // everything is sent
  };
  // `may_end`: whether the last message may go out now.
  Progress Pump(TimePoint now, bool may_end);
  TimePoint due() const;

  void OnPublished(bool last, const Status& status, TimePoint now);
  // The subscriber has gone: only the last message is published from now on.
  void Detach() { detached_ = true; }

  const std::shared_ptr<responses::Response>& response() const { return response_; }
  // Whether the last message has arrived, as far as is known.
  bool delivered() const { return delivered_; }
  // Whether the last message was given to the port, and its result is still unknown.
  bool last_is_out() const { return last_.has_value() && !last_waits_ && !ended_; }

 private:
  ReplyStream(responses::ResponseReader reader, std::shared_ptr<Waker> waker,
              std::unique_ptr<ReplyForm> form, const DeltaCoalescer::Options& coalescing,
              Publish publish, bool patient);
  bool Refill(TimePoint now);  // false: nothing to read yet
  bool Take(TimePoint now, bool may_end);
  bool SendHeld(TimePoint now);
  bool SendEvent(const responses::LogEntry& entry, TimePoint now);
  bool Send(Message message, TimePoint now);
  void SendLast(TimePoint now);
  void Finish() { ended_ = true; }

  const std::shared_ptr<responses::Response> response_;
  std::optional<responses::ResponseReader> reader_;
  const std::shared_ptr<Waker> waker_;
  const std::unique_ptr<ReplyForm> form_;
  const Publish publish_;
  const bool patient_;
  DeltaCoalescer coalescer_;
  std::deque<responses::ResponseLog::Entry> entries_;  // read and not yet sent
  int64_t index_ = 0;                                  // messages of deltas sent
  int absences_ = 0;  // QoS 1 messages in a row without a subscriber
  bool detached_ = false;
  TimePoint blocked_until_{};  // the port accepts nothing before
  bool blocked_ = false;
  std::optional<Message> last_;  // sent, not known to have arrived
  bool last_waits_ = false;      // to be published again at blocked_until_
  int tries_ = 0;
  bool ended_ = false, delivered_ = false;
};

}  // namespace tutti::mqtt::profile
