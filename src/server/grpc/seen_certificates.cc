#include "server/grpc/seen_certificates.h"

#include <utility>

#include "server/access/client_certificate.h"

namespace tutti::rpc {

std::optional<auth::CertifiedName> SeenCertificates::NameOf(std::string_view pem) {
  const auth::Digest digest = auth::DigestOf(pem);
  {
    const MutexLock lock(mutex_);
    if (const auto found = seen_.find(digest); found != seen_.end()) return found->second;
  }
  auto read = access::ReadClientCertificate(pem);
  if (!read.has_value()) return std::nullopt;
  auth::CertifiedName name{.name = std::move(read->name), .expires_s = read->expires_s};
  const MutexLock lock(mutex_);
  if (seen_.size() >= kMost) seen_.clear();
  seen_[digest] = name;
  return name;
}

size_t SeenCertificates::size() const {
  const MutexLock lock(mutex_);
  return seen_.size();
}

}  // namespace tutti::rpc
