// ResponsesDialect: the Responses API over one WebSocket, with channels (one per stream_id) that
// are answered concurrently. Owned by its SocketHandler; used on the connection's thread, except
// Understand().
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/responses/socket_message.h"
#include "protocol/schema/checked_object.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/job_follow.h"
#include "server/http/handlers/response_feed.h"
#include "server/http/handlers/response_start.h"
#include "server/http/memory_budget.h"
#include "server/http/websocket/socket_host.h"

namespace tutti::http {

// Interface of a channel to its dialect and the other channels of the connection.
class ChannelHost {
 public:
  virtual void Send(std::string_view json) = 0;
  virtual void SendError(const Status& why, Connection::Origin origin,
                         std::string_view stream_id) = 0;
  virtual bool HasRoom() const = 0;  // whether more may be sent now
  // The items up to that response, if any channel remembers them; else null.
  virtual const ResponseStart::Messages* Remembered(const std::string& response_id) const = 0;
  virtual void ChannelIdle() = 0;

 protected:
  ~ChannelHost() = default;
};

// The messages of one stream_id over one WebSocket, answered in order, one at a time. The
// destructor cancels a running response that is not stored.
//
// Owned by its ResponsesDialect; used on the connection's thread.
class SocketChannel {
 public:
  // `stream_id`: empty for the unnamed channel.
  SocketChannel(Connection& connection, ChannelHost& host, std::string stream_id)
      : connection_(connection), host_(host), stream_id_(std::move(stream_id)) {}

  // Errors: session_queue_full.
  Status Add(protocol::SocketMessage message, BudgetShare share);
  void Next();  // begins the next message, if nothing runs
  // Sends a few events, if there are any and there is room. True: it sent something.
  bool Pump();
  bool idle() const { return !busy_ && waiting_.empty(); }
  TimePoint idle_since() const { return idle_since_; }
  const ResponseStart::Messages* Remembered(const std::string& response_id) const;

 private:
  struct Waiting {
    protocol::SocketMessage message;
    BudgetShare share;
  };
  void Begin(protocol::SocketMessage message);
  void Create(protocol::ResponsesCall call);
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

class ResponsesDialect final : private ChannelHost {
 public:
  using Tag = std::string;  // the stream_id; empty: none
  struct Understood {
    Tag tag;
    Result<protocol::SocketMessage> message = Internal("nothing was read");
  };
  static Understood Understand(std::string_view text, const protocol::ParseOptions& options);
  // The credential in the message; null if there is none.
  static const std::string* TokenOf(const protocol::SocketMessage& message);
  // Whether this refusal ends the connection at once.
  static bool EndsIt(const Status&) { return false; }

  ResponsesDialect(Connection& connection, SocketHost& host)
      : connection_(connection), host_(host) {}

  Status Open() { return OkStatus(); }        // called before the upgrade
  Status Identified() { return OkStatus(); }  // called when the caller is authenticated
  void Begin() {}                             // called when the socket is open

  void Take(protocol::SocketMessage message, Tag tag, BudgetShare share);
  void SendError(const Status& why, const Tag& tag) {
    SendError(why, Connection::Origin::kServer, tag);
  }
  // Sends a few events of each channel in turn, so that no channel waits for the end of another.
  void Pump();
  bool idle() const;

 private:
  void Cancel(const std::string& response_id);
  void Accept(protocol::SocketMessage message, BudgetShare share);
  // The channel of `stream_id`, made if needed; if there are too many, it replaces the channel that
  // was idle longest. Null: none is idle.
  SocketChannel* ChannelOf(const std::string& stream_id);

  // --- ChannelHost ---
  void Send(std::string_view json) override { host_.Send(json); }
  void SendError(const Status& why, Connection::Origin origin, std::string_view stream_id) override;
  bool HasRoom() const override { return host_.HasRoom(); }
  const ResponseStart::Messages* Remembered(const std::string& response_id) const override;
  void ChannelIdle() override { host_.Idle(); }

  Connection& connection_;
  SocketHost& host_;
  std::map<std::string, std::unique_ptr<SocketChannel>> channels_;
  std::string last_pumped_;
};

}  // namespace tutti::http
