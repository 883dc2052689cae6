// ReplyStream: one answer on its way out: it reads a response's log and publishes it in a form.
//
// The log is its buffer: where the port takes no more, it reads no further and tries again, so a
// subscriber that does not read costs nothing here, and nothing waits for it. Deltas at QoS 0 are
// dropped instead. The last message is published again until it is known to have arrived; and where
// nobody listens (twice in a row), only the last one is. Belongs to the strand.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/status.h"
#include "doors/mqtt/profile/delta_coalescer.h"
#include "doors/mqtt/profile/reply_form.h"
#include "mqtt/message_port.h"
#include "services/responses/response.h"

namespace tutti::mqtt::profile {

class ReplyStream {
 public:
  // As MessagePort::Publish; what became of it comes back through OnPublished, but of QoS 0.
  using Publish = std::function<Status(Message message, bool last)>;

  // Begins behind event `starting_after`; `waker` is told when the log grows. `patient`: that
  // nobody listens is no arrival of the last message. Errors: those of ResponseReader::Attach.
  static Result<std::unique_ptr<ReplyStream>> Open(std::shared_ptr<responses::Response> response,
                                                   int64_t starting_after,
                                                   std::shared_ptr<api::StreamWaker> waker,
                                                   std::unique_ptr<ReplyForm> form,
                                                   const DeltaCoalescer::Options& coalescing,
                                                   Publish publish, bool patient = false);

  enum class Progress {
    kIdle,   // nothing to do until the log grows, due() comes or OnPublished is called
    kMore,   // there is more to read, but others have their turn first
    kEnded,  // all is said
  };
  // `may_end`: whether the last message may go out now.
  Progress Pump(TimePoint now, bool may_end);
  TimePoint due() const;

  void OnPublished(bool last, const Status& status, TimePoint now);
  // Whoever listened has gone: only the last message is published from now on.
  void Detach() { detached_ = true; }

  const std::shared_ptr<responses::Response>& response() const { return response_; }
  // The last message has arrived, as far as anybody can know.
  bool delivered() const { return delivered_; }
  // The last message was given to the port, which has not said yet what became of it.
  bool last_is_out() const { return last_.has_value() && !last_waits_ && !ended_; }

 private:
  ReplyStream(responses::ResponseReader reader, std::shared_ptr<api::StreamWaker> waker,
              std::unique_ptr<ReplyForm> form, const DeltaCoalescer::Options& coalescing,
              Publish publish, bool patient);
  bool Refill(TimePoint now);  // false: nothing is there yet
  bool Take(TimePoint now, bool may_end);
  bool SendHeld(TimePoint now);
  bool SendEvent(const responses::LogEntry& entry, TimePoint now);
  bool Send(Message message, TimePoint now);
  void SendLast(TimePoint now);
  void Finish() { ended_ = true; }

  const std::shared_ptr<responses::Response> response_;
  std::optional<responses::ResponseReader> reader_;
  const std::shared_ptr<api::StreamWaker> waker_;
  const std::unique_ptr<ReplyForm> form_;
  const Publish publish_;
  const bool patient_;
  DeltaCoalescer coalescer_;
  std::deque<responses::ResponseLog::Entry> entries_;  // read and not yet sent
  int64_t index_ = 0;                                  // messages of deltas that were sent
  int absences_ = 0;                                   // QoS 1 in a row that nobody wanted
  bool detached_ = false;
  TimePoint blocked_until_{};  // the port takes nothing before
  bool blocked_ = false;
  std::optional<Message> last_;  // sent, and not known to have arrived
  bool last_waits_ = false;      // it is to be published again at blocked_until_
  int tries_ = 0;
  bool ended_ = false, delivered_ = false;
};

}  // namespace tutti::mqtt::profile
