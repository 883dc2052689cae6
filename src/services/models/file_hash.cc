#include "services/models/file_hash.h"

#include <openssl/evp.h>

#include <algorithm>
#include <string_view>

#include "base/ascii.h"
#include "base/check.h"

namespace tutti::models {

struct FileHash::Context {
  EVP_MD_CTX* const hash = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(hash); }
};

FileHash::FileHash(HashKind kind, uint64_t size) : kind_(kind), size_(size), context_(new Context) {
  CHECK(context_->hash != nullptr);
  Restart();
}

FileHash::~FileHash() = default;

void FileHash::Restart() {
  const EVP_MD* const kind = kind_ == HashKind::kSha256 ? EVP_sha256() : EVP_sha1();
  CHECK(EVP_DigestInit_ex(context_->hash, kind, nullptr) == 1);
  if (kind_ != HashKind::kGitBlobSha1) return;
  std::string head = "blob " + std::to_string(size_);
  head += '\0';
  Update(std::as_bytes(std::span(head)));
}

void FileHash::Update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(context_->hash, bytes.data(), bytes.size()) == 1);
}

std::string FileHash::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  CHECK(EVP_DigestFinal_ex(context_->hash, digest, &length) == 1);
  return ToHex(std::span<const unsigned char>(digest, length));
}

bool IsHashText(HashKind kind, std::string_view text) {
  return text.size() == (kind == HashKind::kSha256 ? 64U : 40U) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace tutti::models
