// ModelLibrary: fetches models of a hub, and names and removes models, while a process serves. For
// the servers' admin routes; app::ModelLibrary implements it.
//
// Any thread; no call blocks, except that the end of a Pull may wait for a lock that is held for
// moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::api {

// One content that a pull fetches. Those after the kMaxPullBlobs largest ones are shown as one.
struct PullBlob {
  // "sha256:9f86...", or "sha1:..." for small files: git's hash of a blob; "others:59000 files".
  std::string digest;
  uint64_t total = 0;    // bytes
  uint64_t fetched = 0;  // bytes that are here, those of earlier pulls included
};

// Repositories of a hub may have 100,000 files, and I/O threads show the progress.
constexpr size_t kMaxPullBlobs = 1000;

struct PullProgress {
  std::vector<PullBlob> blobs;  // empty until the hub has listed the files
  bool ended = false;
  Status result;  // once ended; success: the model is listed
};

class ModelLibrary {
 public:
  // A running pull. Its destructor abandons the pull, unless it has ended; what was fetched stays
  // for the next one.
  class Pull {
   public:
    virtual ~Pull() = default;
    virtual PullProgress progress() const = 0;  // any thread
  };
  using Done = std::function<void(Status)>;  // as ModelControl::Done

  virtual ~ModelLibrary() = default;

  // Whether Begin() may connect to a hub; otherwise it takes listed models alone. Any thread.
  virtual bool fetches() const = 0;
  // Fetches ORG/NAME[:QUANT][@REVISION] and lists it as a model, under that name without the
  // revision. A listed model is a success. Errors of this call: pull_not_allowed, invalid_value,
  // pull_limit, draining. Errors of the pull: those of models::Pull; model_exists.
  virtual Result<std::unique_ptr<Pull>> Begin(const std::string& name) = 0;
  // Gives a listed model a further name, until the process ends or the name is removed. Errors:
  // model_not_found; model_exists for a name of another model; invalid_value; alias_limit.
  virtual Status Copy(const std::string& source, const std::string& name) = 0;
  // Removes a further name, or a model that Begin() listed and that is not loaded, with its files
  // in the cache. `done`: when the files are gone. Errors: model_not_found; model_in_use; those of
  // models::HubCache::Remove.
  virtual void Remove(const std::string& model, Done done) = 0;
};

}  // namespace tutti::api
