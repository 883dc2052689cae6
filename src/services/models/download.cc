#include "services/models/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/descriptor.h"
#include "base/new_file.h"
#include "base/quote.h"
#include "base/text_file.h"
#include "services/models/hub.h"
#include "services/models/hub_cache.h"

namespace tutti::models {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;
constexpr size_t kReadBytes = size_t{1} << 20;
// Fewer bytes from a connection are no progress: a server that cuts after each byte would be asked
// as many times as the file has bytes.
constexpr uint64_t kProgressBytes = 4096;
// Left free: a file system without any space disturbs other programs.
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;

std::string Megabytes(uint64_t bytes) { return std::to_string((bytes + 999'999) / 1'000'000); }

struct ContentRange {
  uint64_t first = 0;
  std::optional<uint64_t> total;
};

// "bytes 100-199/1000" (RFC 9110, section 14.4).
std::optional<ContentRange> ReadContentRange(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash)
    return std::nullopt;
  const auto first = ParseNumber<uint64_t>(text.substr(0, dash));
  if (!first.has_value()) return std::nullopt;
  return ContentRange{.first = *first, .total = ParseNumber<uint64_t>(text.substr(slash + 1))};
}

// The partial file, and the body that is appended to it.
class PartialFile final : public HttpBody {
 public:
  PartialFile(const DownloadTarget& target, std::atomic<uint64_t>* bytes)
      : target_(target), bytes_(*bytes), size_(target.size) {}

  // Opens what is there, and hashes it.
  Status Open() {
    if (!target_.validator_file.empty()) {
      const Result<std::string> kept = ReadTextFile(target_.validator_file, 1024, "io_error");
      if (kept.ok()) kept_ = *kept;
    }
    file_ =
        Descriptor(open(target_.partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file_.ok()) return CacheError(target_.partial, errno);
    struct stat found {};
    if (fstat(file_.get(), &found) != 0) return CacheError(target_.partial, errno);
    if (!S_ISREG(found.st_mode)) return CacheError(target_.partial, EEXIST);
    have_ = static_cast<uint64_t>(found.st_size);
    if (have_ > 0 && (!CanResume() || (size_.has_value() && have_ > *size_))) return StartOver();
    resumed_ = have_ > 0;
    return HashAgain();
  }

  Status Begin(const HttpAnswer& answer) override {
    const std::string_view encoding = answer.Field("content-encoding");
    if (!encoding.empty() && encoding != "identity")
      return Wrong("hub_reply", "is sent compressed, which was not asked for");
    if (AsciiLower(answer.Field("content-type")).starts_with("text/html")) {
      return Wrong("hub_reply",
                   "is answered with a web page; a proxy or a login may stand in between");
    }
    uint64_t first = 0;
    std::optional<uint64_t> total = answer.Length();
    if (answer.status == 206) {
      const auto range = ReadContentRange(answer.Field("content-range"));
      if (!range.has_value() || range->first != have_)
        return Wrong("hub_reply", "is sent from another place than was asked for");
      first = range->first;
      total = range->total;
    }
    // A whole answer to a range is other content than before, unless its size was announced.
    if (first == 0 && !target_.size.has_value()) size_.reset();
    if (size_.has_value() && total.has_value() && *total != *size_) {
      return Wrong("hub_length", "has " + std::to_string(*total) + " bytes, but was listed with " +
                                     std::to_string(*size_));
    }
    if (total.has_value() && *total <= kMaxFileBytes) size_ = total;
    if (!size_.has_value() && target_.hash.empty())
      return Wrong("hub_length", "is sent without its length; give --sha256");
    // Without a range, the answer begins at the first byte.
    if (first == 0 && have_ > 0) RETURN_IF_ERROR(StartOver());
    if (!target_.size.has_value() && size_.has_value())
      RETURN_IF_ERROR(CheckSpace(FolderOf(target_.partial), *size_ - std::min(have_, *size_)));
    if (!target_.validator_file.empty()) return KeepValidator(answer);
    return OkStatus();
  }

  Status Take(std::span<const std::byte> data) override {
    if (have_ + data.size() > size_.value_or(kMaxFileBytes))
      return Wrong("hub_length", "is longer than its length that was announced");
    for (size_t i = 0; have_ + i < target_.begins_with.size() && i < data.size(); ++i) {
      if (static_cast<char>(data[i]) != target_.begins_with[have_ + i])
        return Wrong("hub_reply", "is not a GGUF file");
    }
    hash_->Update(data);
    while (!data.empty()) {
      const ssize_t written = write(file_.get(), data.data(), data.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return CacheError(target_.partial, written == 0 ? EIO : errno);
      const auto count = static_cast<size_t>(written);
      data = data.subspan(count);
      have_ += count;
      bytes_ += count;
    }
    return OkStatus();
  }

  // Empties the file.
  Status StartOver() {
    resumed_ = false;
    bytes_ -= std::exchange(have_, 0);
    if (ftruncate(file_.get(), 0) != 0 || lseek(file_.get(), 0, SEEK_SET) != 0)
      return CacheError(target_.partial, errno);
    return HashAgain();
  }

  // Once it is complete. Whether the content is right; if so, it has its name.
  Result<bool> Finish(DownloadResult* result) {
    result->size = have_;
    result->hash = hash_->FinishHex();
    if (!target_.hash.empty() && result->hash != target_.hash) return false;
    if (fsync(file_.get()) != 0) return CacheError(target_.partial, errno);
    if (rename(target_.partial.c_str(), target_.path.c_str()) != 0)
      return CacheError(target_.path, errno);
    FlushFolder(FolderOf(target_.path));
    return true;
  }

  uint64_t have() const { return have_; }
  bool resumed() const { return resumed_; }
  // Nothing: only the end of a body tells.
  std::optional<uint64_t> size() const { return size_; }
  // "bytes */N" of an answer with status 416: all N bytes may be here.
  bool IsWholeBy(std::string_view content_range) {
    const size_t slash = content_range.find('/');
    if (slash == std::string_view::npos) return false;
    const auto total = ParseNumber<uint64_t>(content_range.substr(slash + 1));
    if (total != have_ || size_.value_or(have_) != have_) return false;
    size_ = total;
    return true;
  }
  // Whether a range of the same content can be asked for.
  bool CanResume() const { return !target_.hash.empty() || !kept_.empty(); }
  const std::string& validator() const { return kept_; }
  Status Wrong(std::string_view reason, const std::string& what) const {
    return Status(StatusCode::kDataLoss, reason, target_.name + " " + what);
  }

 private:
  Status HashAgain() {
    hash_ = std::make_unique<FileHash>(target_.kind, target_.size.value_or(0));
    std::vector<std::byte> buffer(std::min<uint64_t>(kReadBytes, have_));
    for (uint64_t at = 0; at < have_;) {
      const ssize_t got =
          pread(file_.get(), buffer.data(), std::min<uint64_t>(buffer.size(), have_ - at),
                static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return CacheError(target_.partial, got == 0 ? EIO : errno);
      hash_->Update(std::span(buffer).first(static_cast<size_t>(got)));
      at += static_cast<uint64_t>(got);
    }
    return lseek(file_.get(), static_cast<off_t>(have_), SEEK_SET) < 0
               ? CacheError(target_.partial, errno)
               : OkStatus();
  }

  // A weak ETag does not promise equal bytes.
  Status KeepValidator(const HttpAnswer& answer) {
    std::string validator(answer.Field("etag"));
    if (validator.starts_with("W/")) validator.clear();
    if (validator == kept_) return OkStatus();
    kept_ = validator;
    unlink(target_.validator_file.c_str());
    if (validator.empty()) return OkStatus();
    auto file =
        NewFile::Create(target_.validator_file + ".tmp", NewFile::Meanwhile::kNameless, 0666);
    if (file.has_value() && file->Append(std::as_bytes(std::span(validator))))
      file->KeepAs(target_.validator_file, true);
    return OkStatus();  // without it a later run starts from the first byte
  }

  const DownloadTarget& target_;
  std::atomic<uint64_t>& bytes_;
  std::optional<uint64_t> size_;
  Descriptor file_;
  std::unique_ptr<FileHash> hash_;
  uint64_t have_ = 0;
  bool resumed_ = false;  // with bytes of an earlier run
  std::string kept_;      // the ETag of the content
};

}  // namespace

Status CheckSpace(const std::string& folder, uint64_t bytes) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return OkStatus();  // the writes will tell
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (bytes == 0 || bytes + kSpareBytes <= free) return OkStatus();
  return ResourceExhausted("disk_full", Quote(folder, 200) + " has " + Megabytes(free) +
                                            " MB free, the download needs " +
                                            Megabytes(bytes + kSpareBytes) +
                                            " MB; free space, or set HF_HUB_CACHE");
}

uint64_t PartialBytes(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return 0;
  return static_cast<uint64_t>(found.st_size);
}

Result<DownloadResult> Download(HttpClient& http, const DownloadTarget& target,
                                std::atomic<uint64_t>* bytes) {
  PartialFile file(target, bytes);
  RETURN_IF_ERROR(file.Open());
  Retries retries;
  uint64_t best = file.have();
  int restarts = 0;
  while (true) {
    Status why;
    std::optional<std::chrono::seconds> wait;
    bool ended = file.size().has_value() && file.have() == *file.size();
    if (!ended) {
      // Without a hash only the validator tells that the beginning belongs to the same content.
      if (file.have() > 0 && !file.CanResume()) RETURN_IF_ERROR(file.StartOver());
      HttpRequest request;
      request.url = target.url;
      request.token = target.token;
      request.from = file.have();
      request.if_range = target.hash.empty() ? file.validator() : "";
      const Result<HttpAnswer> answer = http.Get(request, &file);
      why = answer.status();
      if (answer.ok() && answer->status == 416 && file.IsWholeBy(answer->Field("content-range")))
        continue;
      if (answer.ok() && answer->status == 416 && file.have() > 0) {
        RETURN_IF_ERROR(file.StartOver());  // the server has less than what is here
        why = file.Wrong("hub_length", "has fewer bytes than are already here");
        if (++restarts > 1) return why;
      } else if (answer.ok() && answer->status / 100 != 2) {
        why = StatusOfAnswer(*answer, target.name, !target.token.empty(), target.page);
        if (!IsTransient(answer->status)) return why;
        wait = answer->RetryAfter();
      } else if (answer.ok()) {
        ended = !file.size().has_value() || file.have() == *file.size();
        if (!ended) why = Unavailable("hub_unreachable", target.name + " was cut");
      } else if (why.reason() != "hub_unreachable") {
        if (why.reason() == "hub_length") unlink(target.partial.c_str());
        return why;
      }
    }
    if (ended) {
      DownloadResult result;
      ASSIGN_OR_RETURN(const bool right, file.Finish(&result));
      if (right) {
        if (!target.validator_file.empty()) unlink(target.validator_file.c_str());
        return result;
      }
      why = file.Wrong("hub_checksum", "has hash " + result.hash + ", but " + target.hash +
                                           " was announced; nothing of it was kept");
      // Bytes of an earlier run may be another program's, which did not write in order.
      const bool again = file.resumed() && ++restarts <= 1;
      RETURN_IF_ERROR(file.StartOver());
      if (!again) {
        unlink(target.partial.c_str());
        return why;
      }
      best = 0;
      continue;
    }
    const bool progress = file.have() >= best + kProgressBytes;
    best = std::max(best, file.have());
    RETURN_IF_ERROR(retries.Next(std::move(why), progress, wait, http.stop()));
  }
}

}  // namespace tutti::models
