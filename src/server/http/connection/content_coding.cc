#include "server/http/connection/content_coding.h"

#include <algorithm>

#include "base/ascii.h"

namespace tutti::http {
namespace {

// Whether the parameters of an element say that it is not wanted: "q=0", "q=0.000" (RFC 9110
// 12.4.2).
bool Unwanted(std::string_view parameters) {
  parameters = Trimmed(parameters);
  if (parameters.size() < 3 || !SameLetters(parameters.substr(0, 2), "q=")) return false;
  return parameters.find_first_not_of("0.", 2) == std::string_view::npos;
}

}  // namespace

std::optional<ContentCoding> ParseCoding(std::string_view content_encoding) {
  if (SameLetters(content_encoding, "identity")) return ContentCoding{};
  for (const protocol::Coding coding : {protocol::Coding::kGzip, protocol::Coding::kDeflate}) {
    if (SameLetters(content_encoding, NameOf(coding))) return ContentCoding{coding};
  }
  return std::nullopt;
}

std::optional<protocol::Coding> AcceptedCoding(std::string_view accept_encoding) {
  for (const std::string_view element : SplitAt(accept_encoding, ',')) {
    const size_t semicolon = std::min(element.find(';'), element.size());
    const std::string_view name = Trimmed(element.substr(0, semicolon));
    if (semicolon < element.size() && Unwanted(element.substr(semicolon + 1))) continue;
    for (const protocol::Coding coding : {protocol::Coding::kGzip, protocol::Coding::kDeflate}) {
      if (SameLetters(name, NameOf(coding))) return coding;
    }
  }
  return std::nullopt;
}

std::string_view NameOf(protocol::Coding coding) {
  return coding == protocol::Coding::kGzip ? "gzip" : "deflate";
}

Result<std::string_view> BodyText(const ContentCoding& coding, std::string_view body,
                                  size_t max_bytes, BudgetShare* share, std::string* storage) {
  if (!coding.coding.has_value()) return body;
  const size_t most = std::min(max_bytes, body.size() * kMaxInflateRatio);
  if (!share->GrowTo(static_cast<int64_t>(most)))
    return Unavailable("overloaded", "too many large requests are being read");
  ASSIGN_OR_RETURN(*storage, protocol::Inflate(*coding.coding, body, most));
  share->ShrinkTo(static_cast<int64_t>(storage->size()));
  return std::string_view(*storage);
}

}  // namespace tutti::http
