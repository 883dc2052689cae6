// The compression of request bodies and of answers: the fields Content-Encoding and
// Accept-Encoding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/http1/compression.h"
#include "server/http/memory_budget.h"

namespace tutti::http {

struct ContentCoding {
  std::optional<protocol::Coding> coding;  // none: identity
};

// Parses Content-Encoding; nothing if it is neither identity, gzip nor deflate.
std::optional<ContentCoding> ParseCoding(std::string_view content_encoding);

// The first of gzip and deflate in Accept-Encoding with a weight other than 0.
std::optional<protocol::Coding> AcceptedCoding(std::string_view accept_encoding);

std::string_view NameOf(protocol::Coding coding);  // "gzip", "deflate"

// The text of a body: unchanged, or inflated into `storage`. The inflated text has at most
// kMaxInflateRatio times the size of the body, and at most `max_bytes`; it counts in `share`.
inline constexpr size_t kMaxInflateRatio = 20;
Result<std::string_view> BodyText(const ContentCoding& coding, std::string_view body,
                                  size_t max_bytes, BudgetShare* share, std::string* storage);

}  // namespace tutti::http
