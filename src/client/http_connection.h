// Requests one after the other over one connection: with a streamed answer (StreamConnection), or
// with one that is read whole (HttpConnection). One thread at a time; blocking.
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

// Streamed requests one after the other over one connection, as clients with a pool of connections
// send them.
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

// Requests one after the other over one kept connection, each answer read whole. For benches, where
// opening a connection would be in the timing.
//
// Written against servers that state the length of their answers; bounded against any other.
class HttpConnection {
 public:
  struct Answer {
    int status = 0;
    std::string body;
  };

  // `patience`: longest silence of the server.
  static Result<HttpConnection> Open(const Server& server, std::string api_key,
                                     std::chrono::milliseconds patience);

  // Posts JSON, or what `fields` says first by a "Content-Type: " of its own. `fields`: more of the
  // head, each with its line end. Errors: unavailable (closed, silent, an answer without length or
  // above 256 MiB); the connection is of no use then. Any status is an answer.
  Result<Answer> Post(const std::string& path, std::string_view body, std::string_view fields = {});

 private:
  HttpConnection(Server server, std::string api_key, std::chrono::milliseconds patience,
                 Socket socket);
  Status ReadMore();

  const Server server_;
  const std::string api_key_;
  const std::chrono::milliseconds patience_;
  Socket socket_;
  std::string input_;  // read and not used yet
};

}  // namespace tutti::client
