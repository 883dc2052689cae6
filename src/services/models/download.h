// Download: one file, from where an earlier try was cut to its checked end.
//
// Bytes go to a file of another name, which is never read as a model. It gets its name when it has
// the size and the hash that were announced, and is on the disk. A kill at any time leaves either
// no name or the whole file; the next run goes on with what is there.
//
// One thread; blocks. The caller holds the lock of the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "services/models/file_hash.h"
#include "services/models/http.h"

namespace tutti::models {

struct DownloadTarget {
  std::string name;  // for messages
  std::string url;
  std::string token;             // sent to the host of the URL; empty: none
  std::string page;              // where a person may look, for messages
  std::string partial;           // path until the end
  std::string path;              // path at the end
  std::optional<uint64_t> size;  // nothing: what the server says first
  HashKind kind = HashKind::kSha256;
  std::string hash;            // empty: not known; then `validator_file` must be set
  std::string validator_file;  // holds the ETag of what `partial` is the beginning of
  std::string begins_with;     // the first bytes of every such file; empty: any
};

// What was downloaded.
struct DownloadResult {
  uint64_t size = 0;
  std::string hash;
};

// Bytes of `partial` that are counted in `bytes` from the start are those of `target.partial` when
// Download is called; it adds what arrives, and takes away what has to be fetched again. Errors:
// hub_length and hub_checksum for content that is not what was announced (nothing is left of it);
// hub_reply for a web page or a compressed body; disk_full, cache_error; those of StatusOfAnswer
// and HttpClient; cancelled.
Result<DownloadResult> Download(HttpClient& http, const DownloadTarget& target,
                                std::atomic<uint64_t>* bytes);

// disk_full if the file system of `folder` has no room for so many bytes and some that stay free.
Status CheckSpace(const std::string& folder, uint64_t bytes);

// Bytes that an earlier try left; 0 if there is no such regular file.
uint64_t PartialBytes(const std::string& path);

}  // namespace tutti::models
