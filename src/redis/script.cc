#include "redis/script.h"

#include <openssl/evp.h>

#include <array>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/check.h"

namespace tutti::redis {
namespace {

// Name of a script in Redis.
std::string Sha1Hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) == 1)
      << "no SHA-1";
  return ToHex(std::span<const unsigned char>(digest).first(size));
}

}  // namespace

Script::Script(std::string text) : text_(std::move(text)), sha1_(Sha1Hex(text_)) {}

Result<Reply> Script::Call(Connection& connection, std::span<const std::string_view> keys,
                           std::span<const std::string_view> arguments, TimePoint until) const {
  for (const As as : {As::kName, As::kWhole}) {
    RETURN_IF_ERROR(Send(connection, as, keys, arguments, until));
    ASSIGN_OR_RETURN(Reply reply, connection.Receive(until));
    if (as == As::kName && IsUnknown(reply)) continue;
    if (reply.is_error()) return RefusedBy(reply);
    return reply;
  }
  CHECK(false) << "a whole script is known";
  __builtin_unreachable();
}

Status Script::Send(Connection& connection, As as, std::span<const std::string_view> keys,
                    std::span<const std::string_view> arguments, TimePoint until) const {
  const std::string count = std::to_string(keys.size());
  std::vector<std::string_view> words = {"EVALSHA", sha1_, count};
  if (as == As::kWhole) words = {"EVAL", text_, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return connection.Send(words, until);
}

bool Script::IsUnknown(const Reply& reply) {
  return reply.is_error() && reply.text.starts_with("NOSCRIPT");
}

}  // namespace tutti::redis
