// ResponsesDialect: the Responses API over one WebSocket: lanes, which are answered side by side,
// and what is asked of them. Owned by its SocketExchange; its thread, but for Understand().
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "doors/http/connection.h"
#include "doors/http/memory_budget.h"
#include "doors/http/socket_host.h"
#include "doors/http/socket_lane.h"
#include "wire/request_placement.h"
#include "wire/socket_message.h"

namespace tutti::http {

class ResponsesDialect final : private LaneHost {
 public:
  using Tag = std::string;  // the stream_id; empty: none
  struct Understood {
    Tag tag;
    Result<wire::SocketMessage> message = Internal("nothing was read");
  };
  static Understood Understand(std::string_view text, const wire::ParseOptions& options);
  // Null where it says nothing of who asks.
  static const std::string* TokenOf(const wire::SocketMessage& message);
  // Whether what was refused with that ends the connection at once.
  static bool EndsIt(const Status&) { return false; }

  ResponsesDialect(Connection& connection, SocketHost& host)
      : connection_(connection), host_(host) {}

  Status Open() { return OkStatus(); }        // before the upgrade
  Status Identified() { return OkStatus(); }  // who asks is known
  void Begin() {}                             // and there is a socket

  void Take(wire::SocketMessage message, Tag tag, BudgetShare share);
  void SayError(const Status& why, const Tag& tag) {
    SayError(why, Connection::Origin::kDoor, tag);
  }
  // Lane by lane, a few events each, so that none waits for another's to end.
  void Pump();
  bool idle() const;

 private:
  void Cancel(const std::string& response_id);
  void Accept(wire::SocketMessage message, BudgetShare share);
  // A new one in place of the one that has been idle longest, if there are too many; null: none is.
  SocketLane* LaneOf(const std::string& stream_id);

  // --- LaneHost ---
  void Say(std::string_view json) override { host_.Say(json); }
  void SayError(const Status& why, Connection::Origin origin, std::string_view stream_id) override;
  bool HasRoom() const override { return host_.HasRoom(); }
  const ResponseStart::Messages* Remembered(const std::string& response_id) const override;
  void LaneIdle() override { host_.Idle(); }

  Connection& connection_;
  SocketHost& host_;
  std::map<std::string, std::unique_ptr<SocketLane>> lanes_;
  std::string last_pumped_;
};

}  // namespace tutti::http
