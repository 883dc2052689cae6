#include "services/batches/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "base/random.h"
#include "protocol/http1/multipart.h"
#include "services/responses/responses.h"

namespace tutti::batches {
namespace {

using protocol::FileView;
using store::Database;

constexpr size_t kMaxFileTasks = 16384;
constexpr int64_t kExpiredAtOnce = 256;
constexpr size_t kMaxValueBytes = 1024;  // of a field of a form
constexpr int kDeleteTries = 5;
constexpr auto kDeleteAgain = std::chrono::milliseconds(200);
constexpr std::string_view kPart = ".part", kInput = ".input";

Status NoSuchFile() { return NotFound("not_found", "there is no such file"); }

Result<std::string> TemporaryFolder() {
  std::error_code error;
  std::string pattern =
      (std::filesystem::temp_directory_path(error) / "tutti-files-XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr) return DiskError(errno);
  return pattern;
}

}  // namespace

Status DiskError(int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return Unavailable("storage_full", "the disk of the store is full");
  return Unavailable("storage_error", "the store cannot keep or read this file now: " +
                                          std::generic_category().message(error));
}

int64_t LeftForTheStore(int64_t total_bytes) {
  return std::min(total_bytes / 16, int64_t{64} << 20);
}

Result<DiskFile> DiskFile::Create(const std::string& path) {
  std::optional<NewFile> file = NewFile::Create(path, NewFile::Meanwhile::kNamed, 0600);
  if (!file) return DiskError(errno);
  return DiskFile(*std::move(file));
}

Status DiskFile::Append(std::string_view bytes) {
  return file_.Append(std::as_bytes(std::span(bytes))) ? OkStatus() : DiskError(errno);
}

Status DiskFile::CheckRoom() const {
  struct statvfs disk {};
  if (fstatvfs(file_.descriptor(), &disk) != 0) return DiskError(errno);
  const auto block = static_cast<int64_t>(disk.f_frsize);
  if (static_cast<int64_t>(disk.f_bavail) * block <
      LeftForTheStore(static_cast<int64_t>(disk.f_blocks) * block))
    return DiskError(ENOSPC);
  return OkStatus();
}

Status DiskFile::KeepAs(const std::string& path) {
  const NewFile::Kept kept = file_.KeepAs(path, true);
  if (kept == NewFile::Kept::kYes) return OkStatus();
  const int error = errno;
  if (kept == NewFile::Kept::kNotFlushed) unlink(path.c_str());  // until its name is durable too
  return DiskError(error);
}

Result<std::shared_ptr<const DiskReader>> DiskReader::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return DiskError(errno);
  return std::shared_ptr<const DiskReader>(new DiskReader(fd));
}

DiskReader::~DiskReader() { close(fd_); }

Result<std::string> DiskReader::Read(int64_t offset, int64_t most) const {
  std::string bytes(static_cast<size_t>(most), '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got =
        pread(fd_, bytes.data() + at, bytes.size() - at, offset + static_cast<int64_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DiskError(errno);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

Status FlushFolder(const std::string& folder) {
  return tutti::FlushFolder(folder) ? OkStatus() : DiskError(errno);
}

// Streams the form of POST /v1/files to disk. An upload that is not kept leaves no file behind. One
// thread at a time.
class Upload final : private protocol::PartSink {
 public:
  // `path`: temporary file, which is created when the file part of the form arrives.
  Upload(std::string path, const std::string& boundary, const protocol::ParseOptions& options,
         int64_t max_bytes)
      : path_(std::move(path)), max_bytes_(max_bytes), form_(options), reader_(boundary, this) {}

  // Reads the next bytes of the body. After an error the Upload must not be used any more.
  Status Write(std::string_view bytes) { return reader_.Feed(bytes); }
  // Ends the body and makes the file durable under `path`.
  Status KeepAs(const std::string& path);

  const std::string& filename() const { return filename_; }
  int64_t bytes() const { return file_->bytes(); }
  int64_t lines() const { return lines_ + (in_line_ ? 1 : 0); }
  std::optional<int64_t> expires_after_s() const { return form_.expires_after_s(); }

 private:
  Status OnPart(const protocol::PartHead& head) override;
  Status OnData(std::string_view bytes) override;
  Status EndField();

  const std::string path_;
  const int64_t max_bytes_;
  protocol::FileForm form_;
  protocol::MultipartReader reader_;
  std::optional<std::string> field_;  // whose value is being read
  std::string value_;
  std::optional<DiskFile> file_;
  std::string filename_;
  int64_t lines_ = 0;
  bool in_line_ = false;  // bytes have come since the last line end
};

Status Upload::OnPart(const protocol::PartHead& head) {
  RETURN_IF_ERROR(EndField());
  if (head.name != "file") {
    field_ = head.name;
    return OkStatus();
  }
  if (file_.has_value()) return BadValue("file", "file is given twice");
  filename_ = head.filename.value_or("");
  if (filename_.empty()) filename_ = "upload";
  ASSIGN_OR_RETURN(DiskFile file, DiskFile::Create(path_));
  file_.emplace(std::move(file));
  return OkStatus();
}

Status Upload::OnData(std::string_view bytes) {
  if (bytes.empty()) return OkStatus();
  if (field_.has_value()) {
    if (value_.size() + bytes.size() > kMaxValueBytes)
      return InvalidArgument("invalid_value", "a field of the form has more than 1024 bytes");
    value_ += bytes;
    return OkStatus();
  }
  if (file_->bytes() + static_cast<int64_t>(bytes.size()) > max_bytes_) {
    return ResourceExhausted("request_too_large", "the file has more than the " +
                                                      std::to_string(max_bytes_) +
                                                      " bytes that are accepted")
        .WithParam("file");
  }
  lines_ += std::count(bytes.begin(), bytes.end(), '\n');
  in_line_ = bytes.back() != '\n';
  RETURN_IF_ERROR(file_->CheckRoom());
  return file_->Append(bytes);
}

Status Upload::EndField() {
  if (!field_.has_value()) return OkStatus();
  const std::string name = *std::exchange(field_, std::nullopt);
  return form_.Set(name, std::exchange(value_, ""));
}

Status Upload::KeepAs(const std::string& path) {
  RETURN_IF_ERROR(reader_.End());
  RETURN_IF_ERROR(EndField());
  RETURN_IF_ERROR(form_.Check());
  if (!file_.has_value())
    return InvalidArgument("missing_required_parameter", "file is required").WithParam("file");
  return file_->KeepAs(path);
}

Result<std::unique_ptr<Files>> Files::Open(const Options& options, store::Store& store,
                                           const Clock& clock, std::function<int64_t()> unix_ms) {
  std::string folder = options.folder;
  if (folder.empty()) {
    ASSIGN_OR_RETURN(folder, TemporaryFolder());
  } else if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return DiskError(errno).WithContext(folder);
  }
  std::unique_ptr<Files> files(
      new Files(options, std::move(folder), store, clock, std::move(unix_ms)));
  RETURN_IF_ERROR(files->Sweep());
  files->strand_->Post([&files = *files] { files.Expire(); });
  return files;
}

Files::Files(const Options& options, std::string folder, store::Store& store, const Clock& clock,
             std::function<int64_t()> unix_ms)
    : options_(options),
      folder_(std::move(folder)),
      store_(store),
      clock_(clock),
      unix_ms_(std::move(unix_ms)),
      strand_(std::make_shared<Strand>(clock, kMaxFileTasks, "tutti-files")),
      ask_(store, strand_) {}

// Work that the store has not run yet refers to this.
Files::~Files() {
  strand_->Stop();
  static_cast<void>(store_.ReadNow([](Database&) { return OkStatus(); }));
  if (!options_.folder.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status Files::Sweep() {
  std::set<std::string> known;
  RETURN_IF_ERROR(store::ClientStatus(store_.ReadNow([&](Database& rows) -> Status {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, FileIds(rows));
    known.insert(ids.begin(), ids.end());
    return OkStatus();
  })));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with("file-") || name.ends_with(kPart);
    if (ours && !known.contains(name)) unlink(entry.path().c_str());
  }
  return error ? DiskError(error.value()).WithContext(folder_) : OkStatus();
}

void Files::KeepInputs(const std::set<std::string>& batches) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kInput) && !batches.contains(name.substr(0, name.size() - kInput.size())))
      unlink(entry.path().c_str());
  }
}

void Files::Expire() {
  ask_.Write([this](Database& rows) { return ExpireFiles(rows, NowSeconds(), kExpiredAtOnce); },
             [this](const Result<std::vector<std::string>>& expired) {
               bool more = false;
               if (expired.ok()) {
                 for (const std::string& id : *expired) unlink(PathOf(id).c_str());
                 more = std::ssize(*expired) == kExpiredAtOnce;
               }
               strand_->PostAt(clock_.Now() + (more ? Duration(0) : options_.sweep),
                               [this] { Expire(); });
             });
}

Files::UploadRef Files::Begin(const std::string& boundary, const protocol::ParseOptions& options) {
  return std::make_shared<Upload>(PathOf(NewId("upload-") + std::string(kPart)), boundary, options,
                                  options_.limits.file_bytes);
}

void Files::Append(UploadRef upload, std::string bytes, Done done) {
  strand_->Post([upload = std::move(upload), bytes = std::move(bytes), done = std::move(done)] {
    done(upload->Write(bytes));
  });
}

void Files::Drop(UploadRef upload) {
  strand_->Post([upload = std::move(upload)] {});
}

void Files::Keep(UploadRef upload, const std::string& owner, Callback done) {
  strand_->Post([this, upload = std::move(upload), owner, done = std::move(done)] {
    auto row = std::make_shared<FileRow>();
    row->view.id = NewId("file-");
    row->owner = owner;
    if (const Status status = upload->KeepAs(PathOf(row->view.id)); !status.ok())
      return done(status);
    row->view.purpose = protocol::kBatchPurpose;
    row->view.filename = upload->filename();
    row->view.bytes = upload->bytes();
    row->view.created_s = NowSeconds();
    if (const auto after = upload->expires_after_s())
      row->view.expires_s = row->view.created_s + *after;
    row->lines = upload->lines();
    Insert(row, done);
  });
}

void Files::Insert(std::shared_ptr<FileRow> row, const Callback& done) {
  ask_.Write([this, row](Database& rows) { return InsertFile(rows, *row, options_.limits); },
             [this, row, done](const Status& status) {
               if (status.ok()) return done(row->view);
               unlink(PathOf(row->view.id).c_str());
               done(status);
             });
}

void Files::Put(const std::string& owner, const std::string& filename, std::string text,
                Callback done) {
  strand_->Post([this, owner, filename, text = std::move(text), done = std::move(done)] {
    if (std::ssize(text) > options_.limits.file_bytes) {
      return done(ResourceExhausted(
          "request_too_large", "the file has " + std::to_string(text.size()) + " bytes, limit " +
                                   std::to_string(options_.limits.file_bytes)));
    }
    auto row = std::make_shared<FileRow>();
    row->view.id = NewId("file-");
    row->owner = owner;
    const Status written = [&]() -> Status {
      ASSIGN_OR_RETURN(DiskFile file, DiskFile::Create(PathOf(row->view.id + std::string(kPart))));
      RETURN_IF_ERROR(file.CheckRoom());
      RETURN_IF_ERROR(file.Append(text));
      return file.KeepAs(PathOf(row->view.id));
    }();
    if (!written.ok()) return done(written);
    row->view.purpose = protocol::kBatchPurpose;
    row->view.filename = filename;
    row->view.bytes = std::ssize(text);
    row->view.created_s = NowSeconds();
    row->lines = std::count(text.begin(), text.end(), '\n');
    Insert(row, done);
  });
}

void Files::Get(const std::string& owner, const std::string& id, Callback done) {
  ask_.Read(
      [this, owner, id](Database& rows) -> Result<FileView> {
        ASSIGN_OR_RETURN(const std::optional<FileRow> row, LoadFile(rows, owner, id, NowSeconds()));
        if (!row.has_value()) return NoSuchFile();
        return row->view;
      },
      std::move(done));
}

void Files::List(const std::string& owner, protocol::FileListQuery query,
                 std::function<void(Result<std::vector<FileView>>)> done) {
  ++query.page.limit;
  ask_.Read(
      [this, owner, query](Database& rows) { return ListFiles(rows, owner, query, NowSeconds()); },
      std::move(done));
}

void Files::Delete(const std::string& owner, const std::string& id, Done done) {
  Delete(owner, id, kDeleteTries, std::move(done));
}

// A full disk may have no room for the transaction that deletes the row: then the bytes are deleted
// first, which makes room for it. A reader keeps the file that it has opened.
void Files::Delete(const std::string& owner, const std::string& id, int tries, Done done) {
  auto found = std::make_shared<bool>(false);  // also set if the row could not be deleted
  ask_.Write(
      [this, owner, id, found](Database& rows) -> Status {
        ASSIGN_OR_RETURN(*found, DeleteFile(rows, owner, id, NowSeconds()));
        return *found ? OkStatus() : NoSuchFile();
      },
      [this, owner, id, found, tries, done = std::move(done)](const Status& status) {
        const bool full = status.reason() == "storage_full" && *found;
        if (status.ok() || full) unlink(PathOf(id).c_str());
        if (!full || tries <= 1) return done(status);
        strand_->PostAt(clock_.Now() + kDeleteAgain,
                        [this, owner, id, tries, done] { Delete(owner, id, tries - 1, done); });
      });
}

void Files::OpenContent(const std::string& owner, const std::string& id,
                        std::function<void(Result<Content>)> done) {
  Get(owner, id, [this, id, done = std::move(done)](Result<FileView> view) {
    if (!view.ok()) return done(view.status());
    Result<std::shared_ptr<const DiskReader>> reader = OpenReader(PathOf(id));
    if (!reader.ok()) return done(reader.status());
    done(Content{*std::move(view), *std::move(reader)});
  });
}

}  // namespace tutti::batches
