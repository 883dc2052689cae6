// The routes below /v1/batches: one is made of a file, looked at, cancelled; a list of them.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/json/json.h"
#include "protocol/openai/batch.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_query.h"
#include "services/batches/batches.h"

namespace tutti::http {
namespace {

using protocol::BatchView;

class BatchesHandler final : public Handler {
 public:
  BatchesHandler(RouteId route, Connection& connection) : route_(route), connection_(connection) {}

  void Start() override {
    switch (route_) {
      case RouteId::kBatchCreate:
        return Create();
      case RouteId::kBatches:
        return List();
      case RouteId::kBatchCancel:
        return Service().Cancel(connection_.request_context().tenant(), Id(), ThenBatch());
      default:
        return Service().Get(connection_.request_context().tenant(), Id(), ThenBatch());
    }
  }

 private:
  void Create() {
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [strict = connection_.context().options.strict](
            std::string_view body) -> Result<protocol::BatchCreate> {
          ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
          return protocol::ParseBatchCreate(document.root(), {.strict = strict});
        },
        [this](Result<protocol::BatchCreate> create) {
          if (!create.ok()) return connection_.RespondError(create.status());
          names_ = create->ignored;
          Service().Create({.owner = connection_.request_context().tenant(),
                            .caller = connection_.request_context().caller(),
                            .create = *std::move(create)},
                           ThenBatch());
        });
  }

  void List() {
    protocol::IgnoredFields ignored;
    const auto query = ReadQuery(connection_, &protocol::ParseListQuery, &ignored);
    if (!query.ok()) return connection_.RespondError(query.status());
    names_ = ignored.names();
    const auto most = static_cast<size_t>(query->limit);
    Service().List(connection_.request_context().tenant(), /*endpoint=*/"", query->after,
                   query->limit,
                   connection_.Later([this, most](Result<std::vector<BatchView>> batches) {
                     if (!batches.ok()) return connection_.RespondError(batches.status());
                     const bool more = CutPage(&*batches, most);
                     Json(protocol::BatchListJson(*batches, more));
                   }));
  }

  batches::Batches::Callback ThenBatch() {
    return connection_.Later([this](const Result<BatchView>& batch) {
      if (!batch.ok()) return connection_.RespondError(batch.status());
      Json(protocol::BatchJson(*batch));
    });
  }

  void Json(std::string body) { connection_.Respond(200, JsonHeaders(names_), std::move(body)); }
  const std::string& Id() const { return connection_.request_context().decision().argument; }
  batches::Batches& Service() { return *connection_.context().deps.batches; }

  const RouteId route_;
  Connection& connection_;
  std::vector<std::string> names_;  // of unknown fields
};

}  // namespace

std::unique_ptr<Handler> MakeBatchesHandler(RouteId route, Connection& connection) {
  return std::make_unique<BatchesHandler>(route, connection);
}

}  // namespace tutti::http
