// SocketChannel: the messages of one stream_id over one WebSocket, answered in order, one at a
// time. The destructor cancels a running response that is not stored.
//
// Owned by its ResponsesDialect; used on the connection's thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "server/http/connection.h"
#include "server/http/job_follow.h"
#include "server/http/memory_budget.h"
#include "server/http/response_cursor.h"
#include "server/http/response_start.h"
#include "wire/socket_message.h"

namespace tutti::http {

// What a channel needs of its dialect and of the other channels of the connection.
class ChannelHost {
 public:
  virtual void Say(std::string_view json) = 0;
  virtual void SayError(const Status& why, Connection::Origin origin,
                        std::string_view stream_id) = 0;
  virtual bool HasRoom() const = 0;  // whether more may be sent now
  // The items up to that response, if any channel remembers them; else null.
  virtual const ResponseStart::Messages* Remembered(const std::string& response_id) const = 0;
  virtual void ChannelIdle() = 0;

 protected:
  ~ChannelHost() = default;
};

class SocketChannel {
 public:
  // `stream_id`: empty for the unnamed channel.
  SocketChannel(Connection& connection, ChannelHost& host, std::string stream_id)
      : connection_(connection), host_(host), stream_id_(std::move(stream_id)) {}

  // Errors: session_queue_full.
  Status Add(wire::SocketMessage message, BudgetShare share);
  void Next();  // begins the next message, if nothing runs
  // Sends a few events, if there are any and there is room. True: it sent something.
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
  void FollowJob(const std::string& id, int64_t version);  // its states after `version`
  void Show(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  void Fail(const Status& why, Connection::Origin origin = Connection::Origin::kServer);
  void End();
  void Remember();

  Connection& connection_;
  ChannelHost& host_;
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
