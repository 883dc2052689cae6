// Sha256: digest of bytes; identifies models. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "files/source.h"

namespace tutti::files {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::span<const std::byte> bytes);
  std::string FinishHex();  // 64 lower-case digits; once

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
};

// Digest of the first `end` bytes of `source`, read in pieces. Errors: as ReadAt.
Result<std::string> DigestFront(const Source& source, uint64_t end);

}  // namespace tutti::files
