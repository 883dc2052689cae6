// SeenCertificates: a cache of parsed client certificates, so that a certificate is parsed (0.1 ms)
// once and not for each call of its connection. Cleared when it holds kMost entries. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "base/mutex.h"
#include "services/auth/authenticator.h"
#include "services/auth/key_text.h"

namespace tutti::rpc {

class SeenCertificates {
 public:
  static constexpr size_t kMost = 1024;

  // `pem`: a verified certificate. Returns nullopt if it cannot be parsed.
  std::optional<auth::CertifiedName> NameOf(std::string_view pem);
  size_t size() const;

 private:
  mutable Mutex mutex_;
  std::map<auth::Digest, auth::CertifiedName> seen_ GUARDED_BY(mutex_);
};

}  // namespace tutti::rpc
