#include "client/http_connection.h"

#include <sys/socket.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
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

namespace {

constexpr size_t kMaxHead = size_t{64} << 10;
constexpr size_t kMaxBody = size_t{256} << 20;

// The value of Content-Length in a head, if it is there and a number.
std::optional<size_t> LengthOf(std::string head) {
  for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view kField = "\r\ncontent-length:";
  const size_t at = head.find(kField);
  if (at == std::string::npos) return std::nullopt;
  size_t from = at + kField.size();
  while (from < head.size() && head[from] == ' ') ++from;
  size_t length = 0;
  const auto [end, error] = std::from_chars(head.data() + from, head.data() + head.size(), length);
  if (error != std::errc() || end == head.data() + from) return std::nullopt;
  return length;
}

}  // namespace

HttpConnection::HttpConnection(Server server, std::string api_key,
                               std::chrono::milliseconds patience, Socket socket)
    : server_(std::move(server)),
      api_key_(std::move(api_key)),
      patience_(patience),
      socket_(std::move(socket)) {}

Result<HttpConnection> HttpConnection::Open(const Server& server, std::string api_key,
                                            std::chrono::milliseconds patience) {
  ASSIGN_OR_RETURN(Socket socket, Connect(server));
  return HttpConnection(server, std::move(api_key), patience, std::move(socket));
}

Status HttpConnection::ReadMore() {
  RETURN_IF_ERROR(AwaitBytes(server_, socket_, patience_, nullptr));
  std::array<char, 65536> buffer;
  const ssize_t got = recv(socket_.fd(), buffer.data(), buffer.size(), 0);
  if (got < 0 && errno == EINTR) return OkStatus();
  if (got < 0) return Unreachable(server_, std::strerror(errno));
  if (got == 0) return Unreachable(server_, "the server closed the connection");
  input_.append(buffer.data(), static_cast<size_t>(got));
  return OkStatus();
}

Result<HttpConnection::Answer> HttpConnection::Post(const std::string& path, std::string_view body,
                                                    std::string_view fields) {
  std::string request =
      "POST " + server_.base + path + " HTTP/1.1\r\nHost: " + server_.host + ":" + server_.port +
      "\r\n" + (fields.starts_with("Content-Type: ") ? "" : "Content-Type: application/json\r\n") +
      (api_key_.empty() ? "" : "Authorization: Bearer " + api_key_ + "\r\n") +
      "Content-Length: " + std::to_string(body.size()) + "\r\n";
  request += fields;
  request += "\r\n";
  request += body;
  RETURN_IF_ERROR(SendAll(server_, socket_, request));
  size_t head = 0;
  while ((head = input_.find("\r\n\r\n")) == std::string::npos) {
    if (input_.size() > kMaxHead) return Unreachable(server_, "the answer's head has no end");
    RETURN_IF_ERROR(ReadMore());
  }
  const std::optional<size_t> length = LengthOf(input_.substr(0, head + 2));
  if (!input_.starts_with("HTTP/1.1 ") || !length.has_value() || *length > kMaxBody)
    return Unreachable(server_, "the answer is not HTTP/1.1, or does not state its length");
  Answer answer;
  std::from_chars(input_.data() + 9, input_.data() + head, answer.status);
  const size_t end = head + 4 + *length;
  while (input_.size() < end) RETURN_IF_ERROR(ReadMore());
  answer.body = input_.substr(head + 4, *length);
  input_.erase(0, end);
  return answer;
}

}  // namespace tutti::client
