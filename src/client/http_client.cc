#include "client/http_client.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/url.h"
#include "client/http_connection.h"
#include "client/socket.h"
#include "client/stream_response.h"

namespace tutti::client {
namespace {

// The server's words; where it has none that are known, the body's start.
std::string ErrorOf(const std::string& body) {
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(body, failed);
  const std::string text = failed ? "" : ErrorText(json);
  return text.empty() ? body.substr(0, 300) : text;
}

StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 400:
    case 413:
    case 422:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 405:
    case 501:
      return StatusCode::kUnimplemented;
    case 429:
      return StatusCode::kResourceExhausted;
    default:
      return StatusCode::kUnavailable;
  }
}

Status Exchange(const Server& server, const std::string& request,
                std::chrono::milliseconds patience, StreamResponse& response,
                const std::function<void(std::string_view, TimePoint)>& on_event,
                const std::function<bool()>& stopped) {
  ASSIGN_OR_RETURN(const Socket socket, Connect(server));
  RETURN_IF_ERROR(SendAll(server, socket, request));
  RETURN_IF_ERROR(ReadStream(server, socket, patience, response, on_event, stopped));
  return StreamStatus(response);
}

std::string TextOf(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
}

}  // namespace

Result<Server> ParseServer(std::string_view url) {
  if (url.starts_with("https://")) {
    return InvalidArgument(
        "invalid_value",
        "--url: https is not offered; reach a server behind TLS through a local proxy");
  }
  Url parts;
  const UrlFault fault = ParseUrl(url, &parts);
  if (parts.scheme.has_value() && parts.scheme != "http")
    return InvalidArgument("invalid_value", "--url must begin with http://");
  for (const char c : url) {
    if (static_cast<unsigned char>(c) <= ' ')
      return InvalidArgument("invalid_value", "--url holds a blank or a control character");
  }
  // An IPv6 address may also be without brackets, if a port follows.
  if ((fault != UrlFault::kNone && fault != UrlFault::kColons) || parts.user.has_value() ||
      (fault == UrlFault::kColons && parts.port == 0))
    return InvalidArgument("invalid_value", "--url needs a host and a port from 1 to 65535");
  Server server{.host = std::string(parts.host),
                .port = parts.port != 0 ? std::string(parts.port_digits) : "80",
                .base = std::string(parts.path) + std::string(parts.rest)};
  while (server.base.ends_with('/')) server.base.pop_back();
  // Accepts the base URL of OpenAI clients, which ends in /v1; all paths here begin with /v1.
  if (server.base.ends_with("/v1")) server.base.resize(server.base.size() - 3);
  return server;
}

std::string RequestHead(std::string_view method, const Server& server, std::string_view path,
                        const std::string& api_key, bool close) {
  std::string head(method);
  head.append(" ").append(server.base).append(path).append(" HTTP/1.1\r\nHost: ");
  head.append(server.host).append(":").append(server.port).append("\r\n");
  if (close) head += "Connection: close\r\n";
  if (!api_key.empty()) head.append("Authorization: Bearer ").append(api_key).append("\r\n");
  return head;
}

Status AnswerError(int http_status, const std::string& body) {
  return Status(CodeOf(http_status), "http_status",
                "HTTP " + std::to_string(http_status) + " " + ErrorOf(body));
}

Status PostStream(const Server& server, const std::string& path, const std::string& body,
                  const std::string& api_key, std::chrono::milliseconds patience,
                  const std::function<void(std::string_view data, TimePoint when)>& on_event,
                  const std::function<bool()>& stopped) {
  StreamResponse response;
  RETURN_IF_ERROR(Exchange(server,
                           RequestHead("POST", server, path, api_key, /*close=*/true) +
                               "Content-Type: application/json\r\nContent-Length: " +
                               std::to_string(body.size()) + "\r\n\r\n" + body,
                           patience, response, on_event, stopped));
  if (!response.is_event_stream()) on_event(response.body(), SteadyClock().Now());
  return OkStatus();
}

Result<std::string> Get(const Server& server, const std::string& path, const std::string& api_key,
                        std::chrono::milliseconds patience) {
  StreamResponse response;
  RETURN_IF_ERROR(Exchange(
      server, RequestHead("GET", server, path, api_key, /*close=*/true) + "\r\n", patience,
      response, [](std::string_view, TimePoint) {}, nullptr));
  return response.body();
}

std::string ErrorText(const boost::json::value& answer) {
  if (!answer.is_object()) return "";
  const boost::json::object& object = answer.get_object();
  if (const boost::json::value* error = object.if_contains("error");
      error != nullptr && !error->is_null()) {
    const boost::json::value* message =
        error->is_object() ? error->get_object().if_contains("message") : nullptr;
    return TextOf(message != nullptr ? *message : *error);
  }
  // Answers have choices or data; {"object": "error", "message"} and {"detail"} have neither.
  if (object.contains("choices") || object.contains("data")) return "";
  for (const std::string_view name : {"message", "detail"}) {
    const boost::json::value* text = object.if_contains(name);
    if (text != nullptr && !text->is_null()) return TextOf(*text);
  }
  return "";
}

}  // namespace tutti::client
