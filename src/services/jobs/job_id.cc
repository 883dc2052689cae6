#include "services/jobs/job_id.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/ascii.h"
#include "base/check.h"
#include "base/random.h"

namespace tutti::jobs {
namespace {

constexpr std::string_view kIdPrefix = "job_";
using Block = std::array<unsigned char, 16>;

// One direction under one key. Making it costs more than using it, and a store has one key.
class BlockCipher {
 public:
  explicit BlockCipher(bool seals) : seals_(seals) {}

  Block operator()(store::Blob key, const Block& block) {
    if (key_.size() != key.size() || !std::equal(key.begin(), key.end(), key_.begin())) Take(key);
    Block out;
    int length = 0;
    CHECK(EVP_CipherUpdate(context_.get(), out.data(), &length, block.data(),
                           static_cast<int>(block.size())) == 1 &&
          length == static_cast<int>(out.size()))
        << "AES";
    return out;
  }

 private:
  void Take(store::Blob key) {
    CHECK(key.size() == sizeof(Block)) << "a key of " << key.size() << " bytes";
    key_.assign(key.begin(), key.end());
    CHECK(EVP_CipherInit_ex(context_.get(), EVP_aes_128_ecb(), nullptr,
                            reinterpret_cast<const unsigned char*>(key.data()), nullptr,
                            seals_ ? 1 : 0) == 1 &&
          EVP_CIPHER_CTX_set_padding(context_.get(), 0) == 1)
        << "AES";
  }

  const bool seals_;
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_{
      EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free};
  std::vector<std::byte> key_;
};

// Big endian, from byte `at` on.
void PutNumber(uint64_t value, size_t at, Block* block) {
  for (size_t i = 0; i < 8; ++i)
    (*block)[at + i] = static_cast<unsigned char>(value >> (56 - 8 * i));
}

}  // namespace

std::string SealedId(store::Blob key, int64_t number) {
  Block block;
  PutNumber(static_cast<uint64_t>(number), 0, &block);
  PutNumber(RandomBits(), 8, &block);
  thread_local BlockCipher sealing(/*seals=*/true);
  return std::string(kIdPrefix) + ToHex(sealing(key, block));
}

std::optional<int64_t> NumberIn(store::Blob key, std::string_view id) {
  if (!id.starts_with(kIdPrefix)) return std::nullopt;
  id.remove_prefix(kIdPrefix.size());
  Block block{};
  if (id.size() != 2 * block.size()) return std::nullopt;
  constexpr std::string_view kDigits = "0123456789abcdef";  // no capitals: an id has one spelling
  for (size_t i = 0; i < id.size(); ++i) {
    const size_t digit = kDigits.find(id[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    block[i / 2] = static_cast<unsigned char>(block[i / 2] << 4 | digit);
  }
  uint64_t number = 0;
  thread_local BlockCipher opening(/*seals=*/false);
  const Block open = opening(key, block);
  for (size_t i = 0; i < 8; ++i) number = number << 8 | open[i];
  if (number > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace tutti::jobs
