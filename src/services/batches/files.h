// Files: uploaded input files and result files of batches. Each file belongs to a tenant and is
// kept in a subfolder of the store's folder until it is deleted or expires.
//
// A file exists when its row is in the store. Its bytes, in a file named by its id, are flushed
// before the row is inserted. Files without a row, left by a process that was killed in between,
// are deleted at the next start.
//
// All disk I/O runs on a strand of its own, which also calls every `done`. Thread-safe except
// Open(). The store and clock must outlive it. DiskFile, DiskReader: one file on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/new_file.h"
#include "base/status.h"
#include "base/strand.h"
#include "protocol/openai/file.h"
#include "protocol/schema/checked_object.h"
#include "services/batches/file_rows.h"
#include "store/ask_store.h"
#include "store/store.h"

namespace tutti::batches {

// Bytes that client files must leave free on a disk of `total_bytes`: a sixteenth, at most 64 MiB.
// The store needs this space for accepted requests, and even to delete rows.
int64_t LeftForTheStore(int64_t total_bytes);

// Status of a failed system call with errno `error`.
Status DiskError(int error);

// A new file that is written once under a temporary name and then renamed, complete and flushed
// (base/new_file.h). The destructor deletes a file that was not kept.
//
// For use by one thread at a time. Errors of all: storage_full (disk full, or less free space than
// LeftForTheStore), storage_error.
class DiskFile {
 public:
  // Creates a file; nothing may exist under `path`.
  static Result<DiskFile> Create(const std::string& path);
  Status Append(std::string_view bytes);
  // Fails if less space is free than LeftForTheStore() demands.
  Status CheckRoom() const;
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes()); }
  // Renames the complete file to `path`, in the same folder, and makes it durable. Called once, as
  // the last operation.
  Status KeepAs(const std::string& path);

 private:
  explicit DiskFile(NewFile file) : file_(std::move(file)) {}

  NewFile file_;
};

// An existing file, for reading at any offset. Any thread. Errors: as DiskFile's.
class DiskReader {
 public:
  static Result<std::shared_ptr<const DiskReader>> Open(const std::string& path);
  ~DiskReader();
  DiskReader(const DiskReader&) = delete;
  DiskReader& operator=(const DiskReader&) = delete;

  // Reads up to `most` bytes from `offset`; fewer only at the end of the file.
  Result<std::string> Read(int64_t offset, int64_t most) const;

 private:
  explicit DiskReader(int fd) : fd_(fd) {}
  const int fd_;
};

// As tutti::FlushFolder.
Status FlushFolder(const std::string& folder);

class Upload;  // a form with a file, while it is written to the disk

class Files {
 public:
  struct Options {
    std::string folder;  // created if missing; "": a temporary one, deleted by the destructor
    FileLimits limits;
    Duration sweep = std::chrono::minutes(1);  // interval of checks for expired files
    // Opens a file for reading; tests replace it by a disk that fails.
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
  using Callback = std::function<void(Result<protocol::FileView>)>;

  // --- uploads; one call at a time for each ---
  // The body is a form of POST /v1/files. Its fields are checked as they arrive. After an error the
  // upload can only be dropped. Errors: those of protocol::MultipartReader, protocol::FileForm and
  // DiskFile; request_too_large.
  UploadRef Begin(const std::string& boundary, const protocol::ParseOptions& options);
  void Append(UploadRef upload, std::string bytes, Done done);
  // Completes an upload. Errors: as Append; missing_required_parameter (no file),
  // insufficient_quota, storage_full, storage_error.
  void Keep(UploadRef upload, const std::string& owner, Callback done);
  // Stores `text` like an upload with that file name. Errors: as Keep; request_too_large.
  void Put(const std::string& owner, const std::string& filename, std::string text, Callback done);
  void Drop(UploadRef upload);  // deletes a partial upload, on the strand

  // --- existing files; errors: not_found (also another owner's), the store's ---
  void Get(const std::string& owner, const std::string& id, Callback done);
  // Lists one more than the limit if there are more.
  void List(const std::string& owner, protocol::FileListQuery query,
            std::function<void(Result<std::vector<protocol::FileView>>)> done);
  void Delete(const std::string& owner, const std::string& id, Done done);
  struct Content {
    protocol::FileView view;
    std::shared_ptr<const DiskReader> reader;  // still reads after the file was deleted
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
  // Name of the copy (hard link) of a batch's input, which is kept until the batch ends even if the
  // file is deleted.
  static std::string InputName(const std::string& batch) { return batch + ".input"; }
  // Deletes the inputs of all batches except these; called at the start.
  void KeepInputs(const std::set<std::string>& batches);
  const std::shared_ptr<Strand>& strand() const { return strand_; }

 private:
  void Delete(const std::string& owner, const std::string& id, int tries, Done done);
  // Inserts the row of a file that is on the disk, or deletes the file.
  void Insert(std::shared_ptr<FileRow> row, const Callback& done);
  Files(const Options& options, std::string folder, store::Store& store, const Clock& clock,
        std::function<int64_t()> unix_ms);
  Status Sweep();  // deletes files without a row
  void Expire();
  int64_t NowSeconds() const { return unix_ms_() / 1000; }

  const Options options_;
  const std::string folder_;
  store::Store& store_;
  const Clock& clock_;
  const std::function<int64_t()> unix_ms_;
  const std::shared_ptr<Strand> strand_;  // its thread ends before what it uses
  const store::AskStore ask_;
};

}  // namespace tutti::batches
