// GET /v1/prefixes, DELETE /v1/prefixes/ID: the pinned prefixes of the caller's tenant.
#include <memory>
#include <vector>

#include "protocol/openai/prefixes.h"
#include "server/http/handlers/json_handler.h"

namespace tutti::http {
namespace {

class PrefixesHandler final : public JsonHandler {
 public:
  PrefixesHandler(RouteId route, Connection& connection) : JsonHandler(connection), route_(route) {}

  void Start() override {
    api::Inference& inference = *connection_.context().deps.inference;
    if (route_ == RouteId::kPrefixDelete) {
      const Status status = inference.Unpin(Owner(), Id());
      if (!status.ok()) return connection_.RespondError(status);
      return Json(protocol::PrefixDeletedBody(Id()));
    }
    const Result<std::vector<api::PinnedPrefix>> pins = inference.Pins(Owner());
    if (!pins.ok()) return connection_.RespondError(pins.status());
    Json(protocol::PrefixListBody(*pins));
  }

 private:
  const RouteId route_;
};

}  // namespace

std::unique_ptr<Handler> MakePrefixesHandler(RouteId route, Connection& connection) {
  return std::make_unique<PrefixesHandler>(route, connection);
}

}  // namespace tutti::http
