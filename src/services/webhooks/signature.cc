#include "services/webhooks/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <vector>

#include "protocol/json/base64.h"

namespace tutti::webhooks {

Result<std::string> ReadSecret(std::string_view text) {
  constexpr std::string_view kPrefix = "whsec_";
  const auto bad = [] {
    return InvalidArgument("invalid_value",
                           "a webhook's secret is whsec_ and base64 of 24 to 64 bytes, as "
                           "`echo whsec_$(openssl rand -base64 32)` makes it");
  };
  if (!text.starts_with(kPrefix)) return bad();
  text.remove_prefix(kPrefix.size());
  if (text.empty() || text.size() % 4 != 0 || text.size() > 88) return bad();
  std::vector<uint8_t> bytes(text.size());
  const int decoded = EVP_DecodeBlock(bytes.data(), reinterpret_cast<const uint8_t*>(text.data()),
                                      static_cast<int>(text.size()));
  if (decoded < 0) return bad();
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t size = static_cast<size_t>(decoded) - padding;
  if (size < 24 || size > 64) return bad();
  return std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

std::string Sign(std::span<const std::string> secrets, std::string_view id, int64_t unix_s,
                 std::string_view body) {
  std::string content(id);
  content += '.' + std::to_string(unix_s) + '.';
  content += body;
  std::string signatures;
  for (const std::string& secret : secrets) {
    std::array<uint8_t, EVP_MAX_MD_SIZE> mac{};
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const uint8_t*>(content.data()), content.size(), mac.data(), &size);
    if (!signatures.empty()) signatures += ' ';
    signatures += "v1,";
    protocol::AppendBase64({reinterpret_cast<const char*>(mac.data()), size}, &signatures);
  }
  return signatures;
}

}  // namespace tutti::webhooks
