#include "services/auth/jwt_key.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::auth {
namespace {

constexpr size_t kLeastSecretBytes = 32, kMaxKeyBytes = 16384;
constexpr int kLeastRsaBits = 2048, kMaxRsaBits = 8192;

constexpr std::array<std::pair<JwtAlgorithm, std::string_view>, 4> kNames = {
    {{JwtAlgorithm::kHs256, "HS256"},
     {JwtAlgorithm::kRs256, "RS256"},
     {JwtAlgorithm::kEs256, "ES256"},
     {JwtAlgorithm::kEdDsa, "EdDSA"}}};

Status Bad(JwtAlgorithm algorithm, std::string_view why) {
  ERR_clear_error();
  return InvalidArgument(
      "invalid_value",
      "the key for " + std::string(JwtAlgorithmName(algorithm)) + " " + std::string(why));
}

// Requirement for the public key of an algorithm, as the second half of an error message.
std::string_view KeyRequirement(JwtAlgorithm algorithm) {
  if (algorithm == JwtAlgorithm::kRs256) return "must be an RSA key of 2048 to 8192 bits";
  if (algorithm == JwtAlgorithm::kEs256) return "must be a key on the curve P-256";
  return "must be an Ed25519 key";
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

bool FitsAlgorithm(JwtAlgorithm algorithm, EVP_PKEY* key) {
  switch (algorithm) {
    case JwtAlgorithm::kHs256:
      return false;
    case JwtAlgorithm::kRs256:
      return EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) >= kLeastRsaBits &&
             EVP_PKEY_get_bits(key) <= kMaxRsaBits;
    case JwtAlgorithm::kEs256: {
      std::array<char, 64> curve{};
      return EVP_PKEY_is_a(key, "EC") == 1 &&
             EVP_PKEY_get_group_name(key, curve.data(), curve.size(), nullptr) == 1 &&
             std::string_view(curve.data()) == SN_X9_62_prime256v1;
    }
    case JwtAlgorithm::kEdDsa:
      return EVP_PKEY_is_a(key, "ED25519") == 1;
  }
  return false;
}

// A token has r and s as 32 bytes each; OpenSSL takes them as a DER sequence.
std::string EcdsaAsDer(std::string_view signature) {
  if (signature.size() != 64) return "";
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> pair(ECDSA_SIG_new(),
                                                                   &ECDSA_SIG_free);
  BIGNUM* const r = BN_bin2bn(Bytes(signature), 32, nullptr);
  BIGNUM* const s = BN_bin2bn(Bytes(signature.substr(32)), 32, nullptr);
  if (pair == nullptr || ECDSA_SIG_set0(pair.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return "";
  }
  std::string der(static_cast<size_t>(std::max(i2d_ECDSA_SIG(pair.get(), nullptr), 0)), '\0');
  auto* out = reinterpret_cast<unsigned char*>(der.data());
  return i2d_ECDSA_SIG(pair.get(), &out) > 0 ? der : "";
}

bool VerifiesHmac(const std::string& secret, std::string_view message, std::string_view signature) {
  std::array<unsigned char, 32> own{};
  unsigned size = 0;
  if (signature.size() != own.size() ||
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), Bytes(message),
           message.size(), own.data(), &size) == nullptr)
    return false;
  return CRYPTO_memcmp(own.data(), signature.data(), own.size()) == 0;
}

}  // namespace

std::string_view JwtAlgorithmName(JwtAlgorithm algorithm) {
  for (const auto& [each, name] : kNames) {
    if (each == algorithm) return name;
  }
  return {};
}

std::optional<JwtAlgorithm> FindJwtAlgorithm(std::string_view name) {
  for (const auto& [algorithm, each] : kNames) {
    if (each == name) return algorithm;
  }
  return std::nullopt;
}

Result<JwtKey> JwtKey::Create(JwtAlgorithm algorithm, std::string_view text) {
  if (text.size() > kMaxKeyBytes) return Bad(algorithm, "is longer than 16 KiB");
  const bool pem = text.find("-----BEGIN") != std::string_view::npos;
  if (algorithm == JwtAlgorithm::kHs256) {
    if (pem) return Bad(algorithm, "must be a secret, not a PEM file");
    if (text.size() < kLeastSecretBytes) return Bad(algorithm, "must have 32 bytes or more");
    return JwtKey(algorithm, std::string(text), nullptr);
  }
  if (!pem) return Bad(algorithm, "must be a public key in PEM");
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
  const std::shared_ptr<EVP_PKEY> key(
      bio == nullptr ? nullptr : PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr),
      &EVP_PKEY_free);
  if (key == nullptr) return Bad(algorithm, "is not a public key in PEM");
  if (!FitsAlgorithm(algorithm, key.get())) return Bad(algorithm, KeyRequirement(algorithm));
  return JwtKey(algorithm, "", key);
}

bool JwtKey::Verifies(std::string_view message, std::string_view signature) const {
  if (algorithm_ == JwtAlgorithm::kHs256) return VerifiesHmac(secret_, message, signature);
  std::string der;
  if (algorithm_ == JwtAlgorithm::kEs256) {
    der = EcdsaAsDer(signature);
    if (der.empty()) return false;
    signature = der;
  }
  const EVP_MD* const digest = algorithm_ == JwtAlgorithm::kEdDsa ? nullptr : EVP_sha256();
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  const bool right =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(message),
                       message.size()) == 1;
  ERR_clear_error();  // a wrong signature is no error of this thread's next TLS call
  return right;
}

}  // namespace tutti::auth
