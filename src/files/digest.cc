#include "files/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace tutti::files {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* const hash = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(hash); }
};

Sha256::Sha256() : context_(new Context) {
  CHECK(context_->hash != nullptr && EVP_DigestInit_ex(context_->hash, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(context_->hash, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  CHECK(EVP_DigestFinal_ex(context_->hash, digest, &length) == 1);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

Result<std::string> DigestFront(const Source& source, uint64_t end) {
  Sha256 hash;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(end, kChunkBytes)));
  for (uint64_t at = 0; at < end; at += buffer.size()) {
    const std::span<std::byte> chunk(buffer.data(), std::min<uint64_t>(buffer.size(), end - at));
    RETURN_IF_ERROR(source.ReadAt(at, chunk));
    hash.Update(chunk);
  }
  return hash.FinishHex();
}

}  // namespace tutti::files
