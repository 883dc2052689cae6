// Sha256, which identifies models, and Xxh64, which detects damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "files/source.h"

namespace tutti::files {

// A checksum at the speed of memory. It detects accidental changes, not intended ones: use Sha256
// where data must not be forged. Pure; any thread. Source: the xxHash specification, XXH64, version
// 0.1.1; seed 0.
uint64_t Xxh64(std::span<const std::byte> bytes);

// Digest of bytes. One thread at a time.
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
