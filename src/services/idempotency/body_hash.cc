#include "services/idempotency/body_hash.h"

#include <openssl/sha.h>

#include "protocol/json/json.h"

namespace tutti::idempotency {

std::string CanonicalBodyHash(std::string_view body) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(body);
  const std::string text =
      document.ok() ? protocol::PrintJson(document->root()) : std::string(body);
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

Status CheckSameBody(std::string_view first_hash, std::string_view hash) {
  if (first_hash == hash) return OkStatus();
  return InvalidArgument("idempotency_key_mismatch",
                         "this Idempotency-Key was given to a request with another body");
}

}  // namespace tutti::idempotency
