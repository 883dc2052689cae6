#include "server/access/client_certificate.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>

namespace tutti::access {
namespace {

constexpr size_t kMaxNameBytes = 64;       // RFC 5280, ub-common-name
constexpr size_t kMaxFileBytes = 1 << 20;  // a system's whole bundle is a quarter of it

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using BioRef = std::unique_ptr<BIO, Free>;
using X509Ref = std::unique_ptr<X509, Free>;

BioRef Reading(std::string_view text) {
  return BioRef(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Status BadCaFile(const std::string& file, const char* why) {
  return BadValue("tls-client-ca", "--tls-client-ca " + file + " " + why);
}

// The DNS name in the subjectAltName; empty unless there is exactly one such extension with exactly
// one DNS name.
std::string DnsName(const X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, Free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  ERR_clear_error();  // of one that cannot be read
  std::string name;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const each = sk_GENERAL_NAME_value(names.get(), i);
    if (each->type != GEN_DNS) continue;
    const int size = ASN1_STRING_length(each->d.dNSName);
    if (!name.empty() || size <= 0 || static_cast<size_t>(size) > kMaxNameBytes) return "";
    name.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(each->d.dNSName)),
                static_cast<size_t>(size));
  }
  return name;
}

// The common name takes precedence over the DNS name, so that the name of a certificate does not
// depend on what else its authority writes into it.
std::string NameOf(const X509& certificate) {
  const X509_NAME* const subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return DnsName(certificate);
  if (X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return "";
  unsigned char* bytes = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  std::string name;
  if (size > 0 && static_cast<size_t>(size) <= kMaxNameBytes)
    name.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return name;
}

}  // namespace

ClientCertificate ReadClientCertificate(const x509_st& certificate) {
  ClientCertificate read{.name = NameOf(certificate)};
  std::tm last{};  // the last second in which it is valid
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &last) == 1)
    read.expires_s = static_cast<int64_t>(timegm(&last)) + 1;
  return read;
}

std::optional<ClientCertificate> ReadClientCertificate(std::string_view pem) {
  const BioRef text = Reading(pem);
  const X509Ref certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) return std::nullopt;
  return ReadClientCertificate(*certificate);
}

Result<std::string> ReadClientAuthorities(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return BadCaFile(file, "is no readable file");
  if ((info.st_mode & S_IWOTH) != 0)
    return BadCaFile(file, "can be written by others, who could let themselves in: chmod o-w it");
  if (static_cast<size_t>(info.st_size) > kMaxFileBytes)
    return BadCaFile(file, "is longer than 1 MiB");
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return BadCaFile(file, "cannot be read");
  const BioRef rest = Reading(text);
  int count = 0;
  ERR_clear_error();
  while (X509Ref(PEM_read_bio_X509(rest.get(), nullptr, nullptr, nullptr)) != nullptr) ++count;
  const bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!whole) return BadCaFile(file, "holds PEM that cannot be read");
  if (count == 0) return BadCaFile(file, "holds no PEM certificate");
  return text;
}

}  // namespace tutti::access
