// Files: what clients upload for batches and what batches make for them, of a tenant each, kept
// below the store's folder until they are deleted or expire.
//
// A row of the store is what makes a file; its bytes lie in the folder under its id, and are there
// and flushed before the row is. What lies there without a row (the process was killed in between)
// goes at the next start.
//
// All that waits for the disk runs on a strand of its own, where every `done` is called.
// Thread-safe but for Open(). The store and clock must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "services/batches/disk_file.h"
#include "services/batches/file_rows.h"
#include "services/batches/upload.h"
#include "services/responses/strand.h"
#include "store/store.h"
#include "wire/file.h"

namespace tutti::batches {

class Files {
 public:
  struct Options {
    std::string folder;  // made if it is not there; "": one for temporary files, gone with this
    FileLimits limits;
    Duration sweep = std::chrono::minutes(1);  // looks for what has expired
    // How a file is opened for reading; tests put a disk that fails in its place.
    std::function<Result<std::shared_ptr<const DiskReader>>(const std::string& path)> open =
        &DiskReader::Open;
  };
  // Errors: storage_error (the folder), the store's. `unix_ms`: the wall clock.
  static Result<std::unique_ptr<Files>> Open(const Options& options, store::Store& store,
                                             const Clock& clock, std::function<int64_t()> unix_ms);
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  using UploadRef = std::shared_ptr<Upload>;
  using Done = std::function<void(const Status&)>;
  using Shown = std::function<void(Result<wire::FileView>)>;

  // --- uploads; one call at a time for each ---
  UploadRef Begin(const std::string& boundary, const wire::ParseOptions& options);
  void Append(UploadRef upload, std::string bytes, Done done);
  // The body is over. Errors: as Upload; insufficient_quota, storage_full, storage_error.
  void Keep(UploadRef upload, const std::string& owner, Shown done);
  // Keeps a text that is there whole, as an upload of that name. Errors: as Keep;
  // request_too_large.
  void Put(const std::string& owner, const std::string& filename, std::string text, Shown done);
  void Drop(UploadRef upload);  // what has come of it is removed there, not here

  // --- files that are there. Errors: not_found (also another owner's), the store's ---
  void Get(const std::string& owner, const std::string& id, Shown done);
  // One more than the limit where there are more.
  void List(const std::string& owner, wire::FileListQuery query,
            std::function<void(Result<std::vector<wire::FileView>>)> done);
  void Delete(const std::string& owner, const std::string& id, Done done);
  struct Content {
    wire::FileView view;
    std::shared_ptr<const DiskReader> reader;  // goes on reading when the file is deleted
  };
  void OpenContent(const std::string& owner, const std::string& id,
                   std::function<void(Result<Content>)> done);

  // --- for batches ---
  const std::string& folder() const { return folder_; }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  // On the strand. Errors: as DiskReader::Open.
  Result<std::shared_ptr<const DiskReader>> OpenReader(const std::string& path) const {
    return options_.open(path);
  }
  const FileLimits& limits() const { return options_.limits; }
  // The input of a batch is kept under the batch's name until it ends, whatever becomes of the
  // file.
  static std::string InputName(const std::string& batch) { return batch + ".input"; }
  // Inputs of other batches than these are removed; at the start.
  void KeepInputs(const std::set<std::string>& batches);
  const std::shared_ptr<responses::Strand>& strand() const { return strand_; }

 private:
  void Delete(const std::string& owner, const std::string& id, int tries, Done done);
  // Gives a file that is on the disk its row; without one it goes again.
  void Insert(std::shared_ptr<FileRow> row, const Shown& done);
  Files(const Options& options, std::string folder, store::Store& store, const Clock& clock,
        std::function<int64_t()> unix_ms);
  Status Sweep();  // what was left behind
  void Expire();
  int64_t NowSeconds() const { return unix_ms_() / 1000; }

  const Options options_;
  const std::string folder_;
  store::Store& store_;
  const Clock& clock_;
  const std::function<int64_t()> unix_ms_;
  const std::shared_ptr<responses::Strand> strand_;  // last: its thread ends before what it uses
};

}  // namespace tutti::batches
