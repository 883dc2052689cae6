#include "server/grpc/kserve_run.h"

#include <algorithm>
#include <utility>

#include "server/counting/request_counts.h"
#include "server/grpc/server_context.h"
#include "services/auth/caller.h"

namespace tutti::rpc {

Run Run::Begin(Call& call, inference::ModelInferRequest& message,
               std::shared_ptr<api::CacheReport> report) {
  Run run;
  run.id = message.id();
  run.model = message.model_name();
  const GrpcServer::Dependencies& deps = call.context().deps;
  const Result<std::shared_ptr<kserve::Model>> model =
      deps.repository->Find(message.model_name(), message.model_version());
  if (model.ok()) {
    run.op = counting::OpOf((*model)->config().task);
    call.CountAs(run.op);
  }
  Result<kserve::InferRequest> request = ToRequest(message, deps.clock->Now());
  if (!request.ok()) {
    run.failure = std::move(request).status();
    return run;
  }
  request->deadline = std::min(request->deadline, call.info().deadline);
  request->request_id = call.info().request_id;
  request->caller = auth::CallerOf(*call.info().principal);
  request->route = "kserve.infer";
  request->cache = call.cache_control();
  request->cache_report = std::move(report);
  run.empty_final = request->empty_final_response;
  if (model.ok()) {
    run.model = (*model)->config().name;
    run.decoupled = (*model)->config().decoupled;
  }
  Result<std::unique_ptr<kserve::Execution>> started =
      deps.repository->Infer(*std::move(request), call.waker());
  if (started.ok()) {
    run.execution = *std::move(started);
  } else {
    run.failure = std::move(started).status();
  }
  return run;
}

void Run::RecordStages(const Call& call, const kserve::Spent& spent) const {
  counting::CountStages(op, spent, call.context().deps.metrics);
}

void Run::Fill(kserve::InferResponse& response, inference::ModelInferResponse* message) const {
  message->set_model_name(model);
  message->set_model_version(std::string(kserve::kModelVersion));
  message->set_id(id);
  FromResponse(response, message);
}

}  // namespace tutti::rpc
