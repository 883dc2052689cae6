// POST /v1/load_lora_adapter and /v1/unload_lora_adapter: LoRA adapters at run time, with vLLM's
// bodies and answers.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "api/adapter_control.h"
#include "protocol/json/json.h"
#include "protocol/openai/adapters.h"
#include "server/http/connection/connection.h"
#include "server/http/handler.h"
#include "server/http/handlers/body_work.h"

namespace tutti::http {
namespace {

class AdaptersHandler final : public Handler {
 public:
  AdaptersHandler(RouteId route, Connection& connection) : route_(route), connection_(connection) {}

  void Start() override {
    const protocol::ParseOptions options{connection_.context().options.strict, {}, {}};
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [route = route_, options](std::string_view body) -> Result<protocol::AdapterCall> {
          ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
          return route == RouteId::kLoadAdapter
                     ? protocol::ParseLoadAdapter(document.root(), options)
                     : protocol::ParseUnloadAdapter(document.root(), options);
        },
        [this](Result<protocol::AdapterCall> call) {
          if (!call.ok()) return connection_.RespondError(call.status());
          Run(*std::move(call));
        });
  }

 private:
  void Run(protocol::AdapterCall call) {
    api::AdapterControl& adapters = *connection_.context().deps.adapters;
    const std::string name = call.request.name;
    const auto done = connection_.Later([this, name,
                                         ignored = std::move(call.ignored)](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      HeaderList headers = {{"Content-Type", "text/plain; charset=utf-8"},
                            {"Cache-Control", "no-store"}};
      AddIgnored(ignored, &headers);
      connection_.Respond(200, std::move(headers),
                          route_ == RouteId::kLoadAdapter ? protocol::AdapterLoadedText(name)
                                                          : protocol::AdapterUnloadedText(name));
    });
    if (route_ == RouteId::kLoadAdapter) return adapters.Load(std::move(call.request), done);
    adapters.Unload(name, done);
  }

  const RouteId route_;
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Handler> MakeAdaptersHandler(RouteId route, Connection& connection) {
  return std::make_unique<AdaptersHandler>(route, connection);
}

}  // namespace tutti::http
