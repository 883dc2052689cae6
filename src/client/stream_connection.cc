#include "client/stream_connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace tutti::client {

Status ReadStream(const Server& server, const Socket& socket, std::chrono::milliseconds patience,
                  StreamResponse& response, const OnEvent& on_event,
                  const std::function<bool()>& stopped) {
  const SteadyClock clock;
  std::array<char, 16384> buffer;
  std::vector<std::string> events;
  while (!response.complete()) {
    RETURN_IF_ERROR(AwaitBytes(server, socket, patience, stopped));
    const ssize_t got = recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreachable(server, std::strerror(errno));
    const TimePoint now = clock.Now();
    events.clear();
    const Status status = got == 0
                              ? response.End(events)
                              : response.Feed({buffer.data(), static_cast<size_t>(got)}, events);
    for (const std::string& event : events) on_event(event, now);
    RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

Status StreamStatus(const StreamResponse& response) {
  if (response.status_code() == 200) return OkStatus();
  Status error = AnswerError(response.status_code(), response.body());
  if (!response.retry_after().has_value()) return error;
  return std::move(error).WithRetryAfter(*response.retry_after());
}

Status StreamConnection::Exchange(const std::string& request, StreamResponse& response,
                                  const OnEvent& on_event) {
  RETURN_IF_ERROR(SendAll(server_, *socket_, request));
  return ReadStream(server_, *socket_, patience_, response, on_event, nullptr);
}

Status StreamConnection::Post(const std::string& path, std::string_view body,
                              const OnEvent& on_event) {
  std::string request = RequestHead("POST", server_, path, api_key_, /*close=*/false);
  request += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\n\r\n";
  request += body;
  const SteadyClock clock;
  while (true) {
    const bool reused = socket_.has_value();
    if (!reused) {
      ASSIGN_OR_RETURN(Socket socket, Connect(server_));
      socket_.emplace(std::move(socket));
    }
    StreamResponse response;
    const TimePoint sent = clock.Now();
    const Status status = Exchange(request, response, on_event);
    if (!response.complete() || !response.keeps_connection()) socket_.reset();
    // A server may close a connection on which nothing came for a while; then nothing was answered.
    const bool closed = !status.ok() && clock.Now() - sent < patience_;
    if (closed && reused && response.status_code() == 0) continue;
    RETURN_IF_ERROR(status);
    return StreamStatus(response);
  }
}

}  // namespace tutti::client
