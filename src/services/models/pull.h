// Pull: fetches a model of a hub, or a GGUF file of a plain URL, into the cache.
//
// Blocks; any thread, several at once in one process or many. A second pull of the same file
// waits for the first one and fetches nothing. Every connection of this folder is made below one of
// these functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/models/hub_cache.h"
#include "services/models/hub_name.h"
#include "services/models/hub_settings.h"

namespace tutti::models {

// One content of a running pull: files with the same content are fetched once.
struct BlobState {
  HashKind kind = HashKind::kSha256;
  std::string hash;                // empty: not known before the end
  uint64_t size = 0;               // 0: not known yet
  std::atomic<uint64_t> bytes{0};  // that are here, with those of earlier runs
};

// What a running pull shows. Constants are set before Planned() is called; any thread may read the
// rest at any time.
struct PullState {
  std::string name;             // what the model is called
  std::string commit;           // empty for a plain URL
  std::string folder;           // where it goes
  uint64_t total = 0;           // bytes; 0: not known
  std::deque<BlobState> blobs;  // the largest first
  int files = 0;
  std::atomic<int> files_done{0};

  uint64_t bytes() const;  // the sum over all blobs
};

// Notified by the thread of Pull or by one of its workers; must outlive the call.
class PullObserver {
 public:
  virtual ~PullObserver() = default;
  virtual void Planned(const PullState& /*state*/) {}   // once, before the first byte
  virtual void Waiting(const std::string& /*file*/) {}  // for another process that fetches it
  virtual void Finished() {}                            // once after Planned(); the state goes then
};

struct PullOptions {
  int workers = 4;  // files at once
  PullObserver* observer = nullptr;
  // Ends the pull as cancelled, within a second; any thread may set it. The pull sets it itself
  // when one of its files fails. Null: nobody ends the pull.
  std::atomic<bool>* stop = nullptr;
};

struct PulledModel {
  std::string path;  // to load
  std::string commit = "";
  uint64_t bytes = 0;
  uint64_t fetched = 0;  // of them now; 0: all of it was here
};

// Errors: cancelled; hub_offline; disk_full before the first byte where there is too little space;
// those of Hub::List, ChooseFiles, Download and HubCache. The cache then has no name that it did
// not have before.
Result<PulledModel> Pull(const HubName& name, const HubSettings& settings,
                         const PullOptions& options);

// `sha256`: what the file must have, in lower case; empty: any, with the URL's TLS as the proof.
// Errors: as Pull; invalid_value for a URL that is not https (http on this machine) or names no
// .gguf file; already_different for a file that was pulled before and has another hash.
Result<PulledModel> PullUrl(const std::string& url, const std::string& sha256,
                            const HubSettings& settings, const PullOptions& options);

// Whether the text is a URL, and so never a path or a name.
bool IsUrl(std::string_view text);
// A model that was pulled from this URL. Errors: model_not_pulled; invalid_value as PullUrl.
Result<CachedModel> FindUrl(const std::string& url, const HubSettings& settings);
// All of them; `name.repository` is the URL.
std::vector<CachedModel> ListUrls(const HubSettings& settings);
Result<uint64_t> RemoveUrl(const std::string& url, const HubSettings& settings);

}  // namespace tutti::models
