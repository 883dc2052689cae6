#include "server/http/connection/response.h"

#include <time.h>

#include <charconv>

#include "base/check.h"

namespace tutti::http {
namespace {

// RFC 9110 5.6.7: Sun, 06 Nov 1994 08:49:37 GMT
std::string HttpDate() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const size_t size = strftime(text, sizeof text, "xxx, %d yyy %Y %H:%M:%S GMT", &parts);
  std::string date(text, size);
  date.replace(0, 3, kDays[parts.tm_wday]);
  date.replace(8, 3, kMonths[parts.tm_mon]);
  return date;
}

void AppendHeader(std::string_view name, std::string_view value, std::string* out) {
  CHECK(value.find_first_of("\r\n") == std::string_view::npos) << "a line break in header " << name;
  *out += name;
  *out += ": ";
  *out += value;
  *out += "\r\n";
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

std::string SerializeHead(const HeadSpec& head) {
  std::string out = "HTTP/1.1 " + std::to_string(head.status) + " ";
  out += ReasonPhrase(head.status);
  out += "\r\n";
  AppendHeader("Date", HttpDate(), &out);
  for (const auto& [name, value] : head.headers) AppendHeader(name, value, &out);
  switch (head.framing) {
    case BodyFraming::kLength:
      AppendHeader("Content-Length", std::to_string(head.length), &out);
      break;
    case BodyFraming::kChunked:
      AppendHeader("Transfer-Encoding", "chunked", &out);
      break;
    case BodyFraming::kUntilClose:
    case BodyFraming::kNone:
      break;
  }
  if (!head.keep_alive) {
    AppendHeader("Connection", "close", &out);
  } else if (head.http_1_0) {
    AppendHeader("Connection", "keep-alive", &out);
  }
  out += "\r\n";
  return out;
}

void AppendChunk(std::string_view data, std::string* out) {
  if (data.empty()) return;
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  out->append(size, end);
  *out += "\r\n";
  *out += data;
  *out += "\r\n";
}

}  // namespace tutti::http
