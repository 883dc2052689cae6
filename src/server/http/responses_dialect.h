// ResponsesDialect: the Responses API over one WebSocket, with channels (one per stream_id) that
// are answered concurrently. Owned by its SocketHandler; used on the connection's thread, except
// Understand().
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "server/http/connection.h"
#include "server/http/memory_budget.h"
#include "server/http/socket_channel.h"
#include "server/http/socket_host.h"
#include "wire/request_placement.h"
#include "wire/socket_message.h"

namespace tutti::http {

class ResponsesDialect final : private ChannelHost {
 public:
  using Tag = std::string;  // the stream_id; empty: none
  struct Understood {
    Tag tag;
    Result<wire::SocketMessage> message = Internal("nothing was read");
  };
  static Understood Understand(std::string_view text, const wire::ParseOptions& options);
  // The credential in the message; null if there is none.
  static const std::string* TokenOf(const wire::SocketMessage& message);
  // Whether this refusal ends the connection at once.
  static bool EndsIt(const Status&) { return false; }

  ResponsesDialect(Connection& connection, SocketHost& host)
      : connection_(connection), host_(host) {}

  Status Open() { return OkStatus(); }        // called before the upgrade
  Status Identified() { return OkStatus(); }  // called when the caller is authenticated
  void Begin() {}                             // called when the socket is open

  void Take(wire::SocketMessage message, Tag tag, BudgetShare share);
  void SayError(const Status& why, const Tag& tag) {
    SayError(why, Connection::Origin::kServer, tag);
  }
  // Sends a few events of each channel in turn, so that no channel waits for the end of another.
  void Pump();
  bool idle() const;

 private:
  void Cancel(const std::string& response_id);
  void Accept(wire::SocketMessage message, BudgetShare share);
  // The channel of `stream_id`, made if needed; if there are too many, it replaces the channel that
  // was idle longest. Null: none is idle.
  SocketChannel* ChannelOf(const std::string& stream_id);

  // --- ChannelHost ---
  void Say(std::string_view json) override { host_.Say(json); }
  void SayError(const Status& why, Connection::Origin origin, std::string_view stream_id) override;
  bool HasRoom() const override { return host_.HasRoom(); }
  const ResponseStart::Messages* Remembered(const std::string& response_id) const override;
  void ChannelIdle() override { host_.Idle(); }

  Connection& connection_;
  SocketHost& host_;
  std::map<std::string, std::unique_ptr<SocketChannel>> channels_;
  std::string last_pumped_;
};

}  // namespace tutti::http
