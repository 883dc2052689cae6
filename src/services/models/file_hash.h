// FileHash: the hash with which a hub names the content of a file, computed as bytes arrive.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tutti::models {

enum class HashKind : uint8_t {
  kSha256,      // of the content: files in Git LFS or Xet
  kGitBlobSha1  // of "blob SIZE\0" and the content: files in git itself
};

class FileHash {
 public:
  // `size`: bytes of the whole content, which a blob's hash begins with.
  FileHash(HashKind kind, uint64_t size);
  ~FileHash();
  FileHash(const FileHash&) = delete;
  FileHash& operator=(const FileHash&) = delete;

  void Restart();
  void Update(std::span<const std::byte> bytes);
  std::string FinishHex();  // lower case; once, until Restart()

 private:
  struct Context;
  const HashKind kind_;
  const uint64_t size_;
  const std::unique_ptr<Context> context_;
};

// Whether `text` can be a hash of this kind: 64 or 40 hexadecimal digits in lower case.
bool IsHashText(HashKind kind, std::string_view text);

}  // namespace tutti::models
