// Which compression a body has and an answer may have: the fields Content-Encoding and
// Accept-Encoding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "doors/http/memory_budget.h"
#include "wire/compression.h"

namespace tutti::http {

struct ContentCoding {
  std::optional<wire::Coding> coding;  // none: as it is
};

// Of Content-Encoding; nothing where it is neither identity, gzip nor deflate.
std::optional<ContentCoding> ParseCoding(std::string_view content_encoding);

// The first of gzip and deflate that Accept-Encoding names and does not weigh with 0.
std::optional<wire::Coding> AcceptedCoding(std::string_view accept_encoding);

std::string_view NameOf(wire::Coding coding);  // "gzip", "deflate"

// A body's text: as it came, or inflated into `storage`. The inflated one has at most
// kMaxInflateRatio times its bytes and `most_bytes`, and counts in `share`.
inline constexpr size_t kMaxInflateRatio = 20;
Result<std::string_view> BodyText(const ContentCoding& coding, std::string_view body,
                                  size_t most_bytes, BudgetShare* share, std::string* storage);

}  // namespace tutti::http
