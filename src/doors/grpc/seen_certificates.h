// SeenCertificates: what was read of clients' certificates, so that one is parsed when it is first
// seen (0.1 ms), not with each call of its connection. At most kMost, then it begins anew. Any
// thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "base/mutex.h"
#include "services/auth/authority.h"
#include "services/auth/key_text.h"

namespace tutti::rpc {

class SeenCertificates {
 public:
  static constexpr size_t kMost = 1024;

  // `pem`: verified. Nothing where it cannot be read.
  std::optional<auth::CertifiedName> NameOf(std::string_view pem);
  size_t size() const;

 private:
  mutable Mutex mutex_;
  std::map<auth::Digest, auth::CertifiedName> seen_ GUARDED_BY(mutex_);
};

}  // namespace tutti::rpc
