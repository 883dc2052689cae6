// The routes below /v1/files, and the results of message batches.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/http1/multipart.h"
#include "protocol/openai/file.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/json_handler.h"
#include "services/batches/files.h"

namespace tutti::http {
namespace {

// --- a file's description, the list of files, deletion ---

class FilesHandler final : public JsonHandler {
 public:
  FilesHandler(RouteId route, Connection& connection) : JsonHandler(connection), route_(route) {}

  void Start() override {
    switch (route_) {
      case RouteId::kFiles:
        return List();
      case RouteId::kFileDelete:
        return Delete();
      default:
        return Files().Get(Owner(), Id(), ThenJson<protocol::FileView>(&protocol::FileJson));
    }
  }

 private:
  void List() {
    const auto query = TakeQuery(&protocol::ParseFileListQuery);
    if (!query.ok()) return connection_.RespondError(query.status());
    Files().List(Owner(), *query,
                 ThenPage<protocol::FileView>(query->page.limit, &protocol::FileListJson));
  }

  void Delete() {
    Files().Delete(Owner(), Id(), ThenDone([this] { return protocol::FileDeletedJson(Id()); }));
  }

  batches::Files& Files() { return *connection_.context().deps.files; }

  const RouteId route_;
};

// --- uploads and downloads ---
//
// Files are transferred to and from the disk piece by piece, never whole in memory. An aborted
// upload leaves no file.

constexpr size_t kMaxInFlight = 256 << 10;  // of an upload, not yet written to disk
constexpr int64_t kPiece = 64 << 10;        // of a download
constexpr size_t kMaxUnsent = 128 << 10;    // of a download; above it, reading pauses

class UploadHandler final : public Handler {
 public:
  explicit UploadHandler(Connection& connection) : connection_(connection) {}
  ~UploadHandler() override {
    if (upload_ != nullptr) Files().Drop(std::move(upload_));
  }

  void Start() override {
    // The router has checked this field.
    const std::string* const type = connection_.request().Find("content-type");
    const Result<std::string> boundary = protocol::MultipartBoundary(type == nullptr ? "" : *type);
    if (!boundary.ok()) return Fail(boundary.status());
    if (!connection_.HoldAnswer(kMaxInFlight))
      return Fail(Unavailable("overloaded", "too many large requests are being read"));
    upload_ = Files().Begin(*boundary, {connection_.context().options.strict});
  }

  void OnBody(std::string bytes) override {
    const size_t size = bytes.size();
    in_flight_ += size;
    Files().Append(upload_, std::move(bytes), connection_.Later([this, size](const Status& status) {
      OnWritten(size, status);
    }));
  }
  bool WantsBody() const override { return in_flight_ < kMaxInFlight; }
  void OnBodyEnd() override {
    ended_ = true;
    KeepIfWritten();
  }

 private:
  void OnWritten(size_t size, const Status& status) {
    if (failed_) return;
    if (!status.ok()) return Fail(status);
    const bool waited = !WantsBody();
    in_flight_ -= size;
    if (waited && WantsBody()) connection_.ReadBody();
    KeepIfWritten();
  }

  void KeepIfWritten() {
    if (!ended_ || in_flight_ > 0 || failed_) return;
    Files().Keep(std::move(upload_), connection_.request_context().tenant(),
                 connection_.Later([this](const Result<protocol::FileView>& file) {
                   if (!file.ok()) return connection_.RespondError(file.status());
                   connection_.Respond(200, JsonHeaders({}), protocol::FileJson(*file));
                 }));
  }

  void Fail(const Status& status) {
    failed_ = true;
    connection_.RespondError(status);
  }

  batches::Files& Files() { return *connection_.context().deps.files; }

  Connection& connection_;
  batches::Files::UploadRef upload_;
  size_t in_flight_ = 0;
  bool ended_ = false, failed_ = false;
};

class DownloadHandler final : public Handler {
 public:
  DownloadHandler(Connection& connection, std::string media_type, OpenDownload open)
      : connection_(connection), media_type_(std::move(media_type)), open_(std::move(open)) {}

  void Start() override {
    open_(connection_.Later(
        [this](const Result<batches::Files::Content>& content) { OnOpened(content); }));
  }
  void Pump() override {
    if (content_.has_value() && !reading_ && connection_.unsent() < kMaxUnsent) Read();
  }
  bool StreamsEvents() const override { return false; }

 private:
  void OnOpened(const Result<batches::Files::Content>& content) {
    if (!content.ok()) return connection_.RespondError(content.status());
    content_ = *content;
    // As an attachment, so that a browser never renders it in this server's origin.
    connection_.BeginStream(200,
                            {{"Content-Type", media_type_}, {"Content-Disposition", "attachment"}});
    if (connection_.request_context().decision().head_only) return connection_.EndStream();
    Read();
  }

  void Read() {
    reading_ = true;
    const auto done =
        connection_.Later([this](const Result<std::string>& bytes) { OnRead(bytes); });
    connection_.context().deps.files->strand()->Post(
        [reader = content_->reader, offset = offset_, done] {
          done(reader->Read(offset, kPiece));
        });
  }

  void OnRead(const Result<std::string>& bytes) {
    reading_ = false;
    // A part of the file is already sent; only closing the connection without the end of the body
    // shows the client that the file is incomplete.
    if (!bytes.ok()) return connection_.Abort();
    offset_ += static_cast<int64_t>(bytes->size());
    if (bytes->empty()) return connection_.EndStream();
    connection_.Send(*bytes);
    Pump();
  }

  Connection& connection_;
  const std::string media_type_;
  const OpenDownload open_;
  std::optional<batches::Files::Content> content_;
  int64_t offset_ = 0;
  bool reading_ = false;
};

}  // namespace

std::unique_ptr<Handler> MakeFilesHandler(RouteId route, Connection& connection) {
  return std::make_unique<FilesHandler>(route, connection);
}

std::unique_ptr<Handler> MakeUploadHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<UploadHandler>(connection);
}
std::unique_ptr<Handler> MakeDownloadHandler(Connection& connection, std::string media_type,
                                             OpenDownload open) {
  return std::make_unique<DownloadHandler>(connection, std::move(media_type), std::move(open));
}
std::unique_ptr<Handler> MakeFileContentHandler(RouteId /*route*/, Connection& connection) {
  return MakeDownloadHandler(
      connection, "application/octet-stream",
      [&files = *connection.context().deps.files, owner = connection.request_context().tenant(),
       id = connection.request_context().decision().argument](
          std::function<void(Result<batches::Files::Content>)> done) {
        files.OpenContent(owner, id, std::move(done));
      });
}

}  // namespace tutti::http
