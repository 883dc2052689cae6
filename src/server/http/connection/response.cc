#include "server/http/connection/response.h"

#include <time.h>

#include <algorithm>
#include <array>
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

void AddIgnored(const std::vector<std::string>& names, HeaderList* headers) {
  if (names.empty()) return;
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  headers->emplace_back("x-tutti-ignored", std::move(joined));
}

HeaderList JsonHeaders(const std::vector<std::string>& ignored) {
  HeaderList headers = {{"Content-Type", "application/json"}};
  AddIgnored(ignored, &headers);
  return headers;
}

std::string_view ReasonPhrase(int status) {
  static constexpr auto kPhrases = std::to_array<std::pair<int, std::string_view>>({
      {101, "Switching Protocols"},
      {200, "OK"},
      {202, "Accepted"},
      {204, "No Content"},
      {304, "Not Modified"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  });
  const auto* const found = std::find_if(kPhrases.begin(), kPhrases.end(),
                                         [status](const auto& row) { return row.first == status; });
  return found == kPhrases.end() ? "Status" : found->second;
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
