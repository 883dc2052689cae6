// StreamConnection: streamed requests one after the other over one connection, as clients with a
// pool of connections send them. One thread at a time; blocking.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "client/http_client.h"
#include "client/socket.h"
#include "client/stream_response.h"

namespace tutti::client {

using OnEvent = std::function<void(std::string_view data, TimePoint when)>;

class StreamConnection {
 public:
  StreamConnection(Server server, std::string api_key, std::chrono::milliseconds patience)
      : server_(std::move(server)), api_key_(std::move(api_key)), patience_(patience) {}

  // Like PostStream(), but reuses the connection of the previous request if the server left it
  // open. A connection that the server closed is opened again.
  Status Post(const std::string& path, std::string_view body, const OnEvent& on_event);

 private:
  Status Exchange(const std::string& request, StreamResponse& response, const OnEvent& on_event);

  const Server server_;
  const std::string api_key_;
  const std::chrono::milliseconds patience_;
  std::optional<Socket> socket_;
};

// Reads one answer from the connection. Errors: PostStream()'s, except those of the answer.
Status ReadStream(const Server& server, const Socket& socket, std::chrono::milliseconds patience,
                  StreamResponse& response, const OnEvent& on_event,
                  const std::function<bool()>& stopped);

// The status of a complete answer: OK, or AnswerError() with its Retry-After.
Status StreamStatus(const StreamResponse& response);

}  // namespace tutti::client
