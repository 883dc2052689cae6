#include "server/http/websocket/socket_upgrade.h"

#include <openssl/sha.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "protocol/json/base64.h"
#include "protocol/schema/query_parameters.h"

namespace tutti::http {
namespace {

// Whether the comma-separated tokens of all fields of that name hold `token`, in any case.
bool HasToken(const HttpRequest& request, std::string_view name, std::string_view token) {
  for (const auto& [field, value] : request.fields) {
    if (field != name) continue;
    for (const std::string_view part : SplitAt(value, ',')) {
      if (AsciiLower(Trimmed(part)) == token) return true;
    }
  }
  return false;
}

// 16 bytes in Base64: 22 characters and the padding.
bool IsKey(std::string_view key) {
  const auto known = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
  };
  return key.size() == 24 && key.ends_with("==") && std::all_of(key.begin(), key.end() - 2, known);
}

bool HoldsCredential(std::string_view target) {
  const size_t mark = std::min(target.find('?'), target.size());
  const auto parameters = protocol::DecodeQuery(target.substr(std::min(mark + 1, target.size())));
  if (!parameters.ok()) return false;
  return std::any_of(parameters->begin(), parameters->end(), [](const auto& parameter) {
    const std::string name = AsciiLower(parameter.first);
    return name == "api_key" || name == "key" || name == "token" || name == "access_token" ||
           name == "authorization";
  });
}

}  // namespace

bool WantsSocket(const HttpRequest& request) {
  return request.method == "GET" && !request.http_1_0 &&
         HasToken(request, "connection", "upgrade") && HasToken(request, "upgrade", "websocket");
}

Status CheckUpgrade(const HttpRequest& request) {
  const auto unimplemented = [](std::string_view message) {
    return Status(StatusCode::kUnimplemented, "upgrade_required", std::string(message));
  };
  if (HoldsCredential(request.target)) {
    return Status(StatusCode::kUnauthenticated, "invalid_api_key",
                  "a key in the URL ends in logs: send it in the field Authorization, or in the "
                  "first message");
  }
  if (!WantsSocket(request))
    return unimplemented(
        "GET opens a WebSocket here: send Connection: Upgrade and Upgrade: websocket");
  const std::string* version = request.Find("sec-websocket-version");
  if (version == nullptr || *version != "13" || request.Count("sec-websocket-version") > 1)
    return unimplemented("of WebSocket version 13 is spoken");
  const std::string* key = request.Find("sec-websocket-key");
  if (key == nullptr || !IsKey(*key) || request.Count("sec-websocket-key") > 1)
    return InvalidArgument("invalid_value", "Sec-WebSocket-Key must be 16 bytes in Base64");
  if (!request.body.empty())
    return InvalidArgument("invalid_value", "a request for a WebSocket has no body");
  return OkStatus();
}

HeaderList UpgradeHeaders(const HttpRequest& request) {
  const std::string seed =
      *request.Find("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(seed.data()), seed.size(), digest);
  std::string accept;
  protocol::AppendBase64({reinterpret_cast<const char*>(digest), sizeof digest}, &accept);
  return {{"Upgrade", "websocket"},
          {"Connection", "Upgrade"},
          {"Sec-WebSocket-Accept", std::move(accept)}};
}

}  // namespace tutti::http
