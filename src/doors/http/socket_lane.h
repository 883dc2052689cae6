// SocketLane: the messages of one stream_id over one WebSocket, answered in order, each when the
// one before has ended. What runs goes with it: what is not stored is cancelled.
//
// Owned by its ResponsesDialect; its thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "doors/http/connection.h"
#include "doors/http/job_follow.h"
#include "doors/http/memory_budget.h"
#include "doors/http/response_cursor.h"
#include "doors/http/response_start.h"
#include "wire/socket_message.h"

namespace tutti::http {

// What a lane needs of those beside it.
class LaneHost {
 public:
  virtual void Say(std::string_view json) = 0;
  virtual void SayError(const Status& why, Connection::Origin origin,
                        std::string_view stream_id) = 0;
  virtual bool HasRoom() const = 0;  // for more to be said now
  // What was said up to that response, in any lane, if it is remembered; else null.
  virtual const ResponseStart::Messages* Remembered(const std::string& response_id) const = 0;
  virtual void LaneIdle() = 0;

 protected:
  ~LaneHost() = default;
};

class SocketLane {
 public:
  // `stream_id`: empty: the lane without a name.
  SocketLane(Connection& connection, LaneHost& host, std::string stream_id)
      : connection_(connection), host_(host), stream_id_(std::move(stream_id)) {}

  // Errors: mailbox_full.
  Status Add(wire::SocketMessage message, BudgetShare share);
  void Next();  // begins what waits, if nothing runs
  // Tells a few events, if there are some and there is room; true: it told any.
  bool Pump();
  bool idle() const { return !busy_ && waiting_.empty(); }
  TimePoint idle_since() const { return idle_since_; }
  const ResponseStart::Messages* Remembered(const std::string& response_id) const;

 private:
  struct Waiting {
    wire::SocketMessage message;
    BudgetShare share;
  };
  void Begin(wire::SocketMessage message);
  void Create(wire::ResponsesCall call);
  void Subscribe(const std::string& response_id, int64_t starting_after);
  void FollowJob(const std::string& id, int64_t version);  // its states behind that one
  void Show(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  void Fail(const Status& why, Connection::Origin origin = Connection::Origin::kDoor);
  void End();
  void Remember();

  Connection& connection_;
  LaneHost& host_;
  const std::string stream_id_;
  std::deque<Waiting> waiting_;
  // --- what is being answered ---
  bool busy_ = false, beginning_ = false;
  BudgetShare share_;
  std::shared_ptr<ResponseStart> start_;
  std::optional<ResponseCursor> cursor_;
  std::shared_ptr<JobFollow> job_;
  // --- the last answer here that was not stored ---
  std::string remembered_id_;
  ResponseStart::Messages remembered_;
  TimePoint idle_since_;
};

}  // namespace tutti::http
