// Response heads: header fields that many answers have, and heads as bytes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::http {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// Adds x-tutti-ignored with the names of unknown fields: "a, b".
void AddIgnored(const std::vector<std::string>& names, HeaderList* headers);
// Head fields of an answer in JSON.
HeaderList JsonHeaders(const std::vector<std::string>& ignored);

enum class BodyFraming { kLength, kChunked, kUntilClose, kNone };

struct HeadSpec {
  int status = 200;
  HeaderList headers;  // ours: no line breaks (checked)
  BodyFraming framing = BodyFraming::kLength;
  size_t length = 0;  // kLength
  bool keep_alive = true;
  bool http_1_0 = false;  // of the request: then keep-alive needs a header
};

std::string SerializeHead(const HeadSpec& head);
std::string_view ReasonPhrase(int status);
void AppendChunk(std::string_view data, std::string* out);  // nothing for empty data
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace tutti::http
