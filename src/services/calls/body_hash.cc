#include "services/calls/body_hash.h"

#include <openssl/sha.h>

#include "wire/json.h"

namespace tutti::calls {

std::string CanonicalBodyHash(std::string_view body) {
  const Result<wire::JsonDocument> document = wire::ParseJson(body);
  const std::string text = document.ok() ? wire::PrintJson(document->root()) : std::string(body);
  std::string print(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(print.data()));
  return print;
}

}  // namespace tutti::calls
