// The routes below /v1/files that carry no file: one, a list, the end of one.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/openai/file.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/request_query.h"
#include "services/batches/files.h"

namespace tutti::http {
namespace {

class FilesHandler final : public Handler {
 public:
  FilesHandler(RouteId route, Connection& connection) : route_(route), connection_(connection) {}

  void Start() override {
    switch (route_) {
      case RouteId::kFiles:
        return List();
      case RouteId::kFileDelete:
        return Delete();
      default:
        return Files().Get(connection_.request_context().tenant(), Id(),
                           connection_.Later([this](const Result<protocol::FileView>& file) {
                             if (!file.ok()) return connection_.RespondError(file.status());
                             Json(protocol::FileJson(*file));
                           }));
    }
  }

 private:
  void List() {
    const auto query = ReadQuery(connection_, &protocol::ParseFileListQuery, &ignored_);
    if (!query.ok()) return connection_.RespondError(query.status());
    const auto most = static_cast<size_t>(query->page.limit);
    Files().List(connection_.request_context().tenant(), *query,
                 connection_.Later([this, most](Result<std::vector<protocol::FileView>> files) {
                   if (!files.ok()) return connection_.RespondError(files.status());
                   const bool more = CutPage(&*files, most);
                   Json(protocol::FileListJson(*files, more));
                 }));
  }

  void Delete() {
    Files().Delete(connection_.request_context().tenant(), Id(),
                   connection_.Later([this](const Status& status) {
                     if (!status.ok()) return connection_.RespondError(status);
                     Json(protocol::FileDeletedJson(Id()));
                   }));
  }

  void Json(std::string body) {
    connection_.Respond(200, JsonHeaders(ignored_.names()), std::move(body));
  }
  const std::string& Id() const { return connection_.request_context().decision().argument; }
  batches::Files& Files() { return *connection_.context().deps.files; }

  const RouteId route_;
  Connection& connection_;
  protocol::IgnoredFields ignored_;
};

}  // namespace

std::unique_ptr<Handler> MakeFilesHandler(RouteId route, Connection& connection) {
  return std::make_unique<FilesHandler>(route, connection);
}

}  // namespace tutti::http
