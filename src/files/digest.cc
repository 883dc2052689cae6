#include "files/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "base/ascii.h"
#include "base/check.h"

namespace tutti::files {
namespace {

// The specification's five primes.
constexpr uint64_t kPrimes[] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                                0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5};

template <typename T>
T LittleEndianAt(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t Mix(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrimes[1], 31) * kPrimes[0];
}

uint64_t Fold(uint64_t hash, uint64_t lane) {
  return (hash ^ Mix(0, lane)) * kPrimes[0] + kPrimes[3];
}

constexpr uint64_t kChunkBytes = 1 << 20;

}  // namespace

uint64_t Xxh64(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = kPrimes[4];
  if (left >= 32) {
    uint64_t lanes[4] = {kPrimes[0] + kPrimes[1], kPrimes[1], 0, 0 - kPrimes[0]};
    for (; left >= 32; at += 32, left -= 32) {
      for (size_t i = 0; i < 4; ++i) lanes[i] = Mix(lanes[i], LittleEndianAt<uint64_t>(at + 8 * i));
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
    for (const uint64_t lane : lanes) hash = Fold(hash, lane);
  }
  hash += bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    hash = std::rotl(hash ^ Mix(0, LittleEndianAt<uint64_t>(at)), 27) * kPrimes[0] + kPrimes[3];
  }
  if (left >= 4) {
    hash =
        std::rotl(hash ^ (LittleEndianAt<uint32_t>(at) * kPrimes[0]), 23) * kPrimes[1] + kPrimes[2];
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) {
    hash = std::rotl(hash ^ (std::to_integer<uint64_t>(*at) * kPrimes[4]), 11) * kPrimes[0];
  }
  hash = (hash ^ (hash >> 33)) * kPrimes[1];
  hash = (hash ^ (hash >> 29)) * kPrimes[2];
  return hash ^ (hash >> 32);
}

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
  return ToHex(std::span<const unsigned char>(digest, length));
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
