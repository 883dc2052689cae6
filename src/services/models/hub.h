// Hub: what a hub says about a repository: the commit of a revision, and its files.
//
// One thread at a time; blocks. Nothing a hub says is trusted: names, sizes and hashes are checked.
// Source: huggingface_hub 0.36 (hf_api.py: model_info, list_repo_tree; utils/_http.py), whose
// requests these are, so that mirrors answer them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/json/json.h"
#include "services/models/file_hash.h"
#include "services/models/http.h"
#include "services/models/hub_name.h"
#include "services/models/hub_settings.h"

namespace tutti::models {

struct HubFile {
  std::string path;  // IsSafeRelativePath()
  uint64_t size = 0;
  HashKind kind = HashKind::kGitBlobSha1;
  std::string hash;  // the name of its blob in the cache
};

struct HubRevision {
  std::string commit;
  std::vector<HubFile> files;
};

class Hub {
 public:
  // Both must outlive it.
  Hub(const HubSettings& settings, HttpClient& http) : settings_(settings), http_(http) {}

  // Errors: hub_not_found, hub_denied, hub_busy, hub_reply, and those of HttpClient.
  Result<HubRevision> List(const HubName& name);

  // Where the bytes of a file are.
  std::string FileUrl(const std::string& repository, const std::string& commit,
                      const std::string& path) const;

 private:
  struct Page;
  Result<Page> GetJson(const std::string& url, const HubName& name);

  const HubSettings& settings_;
  HttpClient& http_;
};

// The error for an answer that is no 2xx. `name`: of what was asked for.
Status StatusOfAnswer(const HttpAnswer& answer, const std::string& name, bool had_token,
                      const std::string& page);

// How often a request is tried, and how long it waits in between. A value.
class Retries {
 public:
  // Waits before the next try, or returns `why` if there is none. `wait`: what a server asked for.
  // `progress`: bytes came since the last try, which makes the count start again.
  Status Next(Status why, bool progress, std::optional<std::chrono::seconds> wait,
              const std::atomic<bool>* stop);

 private:
  int failures_ = 0;
  bool begun_ = false;  // bytes came
};

// Adds the files of one page of a repository's list. Errors: hub_reply, for a page that is no such
// list and for a file without a safe name, a size and a hash.
Status AddFileList(const protocol::Json& page, std::vector<HubFile>* files);

// Whether an answer with this status may be tried again.
bool IsTransient(int status);

// From a Link header (RFC 8288): the target of rel="next", or "".
std::string NextLink(std::string_view header);

}  // namespace tutti::models
