#include "services/auth/testing/signed_token.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <array>

#include "base/check.h"
#include "services/auth/key_text.h"

namespace tutti::auth {
namespace {

EVP_PKEY* Generate(JwtAlgorithm algorithm, int rsa_bits) {
  switch (algorithm) {
    case JwtAlgorithm::kHs256:
      return nullptr;
    case JwtAlgorithm::kRs256:
      return EVP_RSA_gen(static_cast<unsigned>(rsa_bits));
    case JwtAlgorithm::kEs256:
      return EVP_EC_gen("P-256");
    case JwtAlgorithm::kEdDsa:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  }
  return nullptr;
}

std::string PemOf(EVP_PKEY* key) {
  BIO* const bio = BIO_new(BIO_s_mem());
  CHECK(PEM_write_bio_PUBKEY(bio, key) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<size_t>(size));
  BIO_free(bio);
  return pem;
}

// r and s as 32 bytes each.
std::string FromDer(const std::string& der) {
  const auto* in = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* const pair = d2i_ECDSA_SIG(nullptr, &in, static_cast<long>(der.size()));
  CHECK(pair != nullptr);
  std::array<unsigned char, 64> bytes{};
  BN_bn2binpad(ECDSA_SIG_get0_r(pair), bytes.data(), 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair), bytes.data() + 32, 32);
  ECDSA_SIG_free(pair);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string Base64url(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (held += 8; held >= 6; held -= 6) text += kLetters[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kLetters[bits << (6 - held) & 63];
  return text;
}

std::string HmacOf(std::string_view secret, std::string_view message) {
  std::string mac(32, '\0');
  unsigned size = 0;
  CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(),
             reinterpret_cast<unsigned char*>(mac.data()), &size) != nullptr);
  return mac;
}

SigningKey::SigningKey(JwtAlgorithm algorithm, int rsa_bits)
    : algorithm_(algorithm),
      key_(Generate(algorithm, rsa_bits), &EVP_PKEY_free),
      public_text_(key_ == nullptr ? *MakeKeyText() : PemOf(key_.get())) {}

std::string SigningKey::Sign(std::string_view message) const {
  if (algorithm_ == JwtAlgorithm::kHs256) return HmacOf(public_text_, message);
  const auto* const data = reinterpret_cast<const unsigned char*>(message.data());
  std::string signature(1024, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(signature.data());
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  size_t size = signature.size();
  CHECK(EVP_DigestSignInit(context, nullptr,
                           algorithm_ == JwtAlgorithm::kEdDsa ? nullptr : EVP_sha256(), nullptr,
                           key_.get()) == 1);
  CHECK(EVP_DigestSign(context, out, &size, data, message.size()) == 1);
  EVP_MD_CTX_free(context);
  signature.resize(size);
  return algorithm_ == JwtAlgorithm::kEs256 ? FromDer(signature) : signature;
}

std::string SigningKey::Token(std::string_view header, std::string_view claims) const {
  const std::string text = Base64url(header) + "." + Base64url(claims);
  return text + "." + Base64url(Sign(text));
}

std::string SigningKey::Token(std::string_view claims) const {
  return Token(R"({"typ":"JWT","alg":")" + std::string(JwtAlgorithmName(algorithm_)) + "\"}",
               claims);
}

}  // namespace tutti::auth
