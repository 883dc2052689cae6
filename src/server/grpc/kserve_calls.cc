// Calls of inference.GRPCInferenceService with one response: those that ask about the server and
// its models, and ModelInfer.
#include <inference/grpc_service.pb.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "protocol/kserve/model.h"
#include "protocol/kserve/request.h"
#include "protocol/kserve/test_models.h"
#include "server/grpc/kserve_run.h"
#include "server/grpc/router.h"

namespace tutti::rpc {
namespace {

const kserve::Repository& RepositoryOf(const Call& call) { return *call.context().deps.repository; }

// --- is it there: an answer is true or false, not an error ---

Status ServerLive(Call& call, const inference::ServerLiveRequest&,
                  inference::ServerLiveResponse* out) {
  out->set_live(RepositoryOf(call).live().ok());
  return OkStatus();
}

Status ServerReady(Call& call, const inference::ServerReadyRequest&,
                   inference::ServerReadyResponse* out) {
  out->set_ready(RepositoryOf(call).ready().ok());
  return OkStatus();
}

Status ModelReady(Call& call, const inference::ModelReadyRequest& request,
                  inference::ModelReadyResponse* out) {
  out->set_ready(
      RepositoryOf(call).ModelReady(request.name(), request.version(), CallerOf(call)).ok());
  return OkStatus();
}

// --- what is it ---

Status ServerMetadata(Call& call, const inference::ServerMetadataRequest&,
                      inference::ServerMetadataResponse* out) {
  kserve::ServerMetadata metadata = RepositoryOf(call).metadata();
  out->set_name(std::move(metadata.name));
  out->set_version(std::move(metadata.version));
  for (std::string& extension : metadata.extensions) out->add_extensions(std::move(extension));
  return OkStatus();
}

void SetMetadata(const kserve::TensorSpec& spec, bool batched,
                 inference::ModelMetadataResponse::TensorMetadata* out) {
  out->set_name(spec.name);
  out->set_datatype(std::string(kserve::NameOf(spec.type)));
  if (batched) out->add_shape(-1);
  for (const int64_t dimension : spec.dims) out->add_shape(dimension);
}

Status ModelMetadata(Call& call, const inference::ModelMetadataRequest& request,
                     inference::ModelMetadataResponse* out) {
  ASSIGN_OR_RETURN(const auto model,
                   RepositoryOf(call).Find(request.name(), request.version(), CallerOf(call)));
  const kserve::ModelConfig& config = model->config();
  out->set_name(config.name);
  out->add_versions(std::string(kserve::kModelVersion));
  out->set_platform(config.platform);
  const bool batched = config.max_batch_size > 0;
  for (const kserve::TensorSpec& input : config.inputs) {
    if (!input.alias) SetMetadata(input, batched, out->add_inputs());
  }
  for (const kserve::TensorSpec& output : config.outputs) {
    SetMetadata(output, batched, out->add_outputs());
  }
  return OkStatus();
}

void AddControl(const char* name, inference::ModelSequenceBatching::Control::Kind kind,
                inference::ModelSequenceBatching* out) {
  auto& input = *out->add_control_input();
  input.set_name(name);
  auto& control = *input.add_control();
  control.set_kind(kind);
  if (kind == inference::ModelSequenceBatching::Control::CONTROL_SEQUENCE_CORRID) {
    control.set_data_type(inference::TYPE_UINT64);
  } else {
    control.add_int32_false_true(0);
    control.add_int32_false_true(1);
  }
}

void SetScheduling(const kserve::ModelConfig& config, inference::ModelConfig* out) {
  using Scheduling = kserve::ModelConfig::Scheduling;
  using Control = inference::ModelSequenceBatching::Control;
  if (config.scheduling == Scheduling::kDynamicBatching) {
    auto& batching = *out->mutable_dynamic_batching();
    if (config.preferred_batch > 0) batching.add_preferred_batch_size(config.preferred_batch);
    batching.set_max_queue_delay_microseconds(static_cast<uint64_t>(config.max_queue_delay_us));
  }
  if (config.scheduling != Scheduling::kSequence &&
      config.scheduling != Scheduling::kOldestSequence)
    return;
  auto& batching = *out->mutable_sequence_batching();
  const auto idle = std::chrono::duration_cast<std::chrono::microseconds>(kserve::kSequenceIdle);
  batching.set_max_sequence_idle_microseconds(static_cast<uint64_t>(idle.count()));
  if (config.scheduling == Scheduling::kSequence) {
    batching.mutable_direct();
  } else {
    batching.mutable_oldest()->set_max_candidate_sequences(int{kserve::kMaxSequences});
  }
  AddControl("START", Control::CONTROL_SEQUENCE_START, &batching);
  AddControl("READY", Control::CONTROL_SEQUENCE_READY, &batching);
  if (config.controls_end) AddControl("END", Control::CONTROL_SEQUENCE_END, &batching);
  if (config.controls_corrid) AddControl("CORRID", Control::CONTROL_SEQUENCE_CORRID, &batching);
}

Status ModelConfig(Call& call, const inference::ModelConfigRequest& request,
                   inference::ModelConfigResponse* response) {
  ASSIGN_OR_RETURN(const auto model,
                   RepositoryOf(call).Find(request.name(), request.version(), CallerOf(call)));
  const kserve::ModelConfig& config = model->config();
  inference::ModelConfig& out = *response->mutable_config();
  out.set_name(config.name);
  out.set_platform(config.platform);
  out.set_backend(config.backend);
  out.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  out.set_max_batch_size(config.max_batch_size);
  for (const kserve::TensorSpec& input : config.inputs) {
    if (input.alias) continue;
    auto& tensor = *out.add_input();
    tensor.set_name(input.name);
    tensor.set_data_type(static_cast<inference::DataType>(input.type));
    for (const int64_t dimension : input.dims) tensor.add_dims(dimension);
    tensor.set_optional(input.optional);
  }
  for (const kserve::TensorSpec& output : config.outputs) {
    auto& tensor = *out.add_output();
    tensor.set_name(output.name);
    tensor.set_data_type(static_cast<inference::DataType>(output.type));
    for (const int64_t dimension : output.dims) tensor.add_dims(dimension);
  }
  auto& group = *out.add_instance_group();
  group.set_name(config.name + "_0");
  group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
  group.set_count(1);
  SetScheduling(config, &out);
  for (const auto& [name, value] : config.parameters) {
    (*out.mutable_parameters())[name].set_string_value(value);
  }
  if (config.decoupled) out.mutable_model_transaction_policy()->set_decoupled(true);
  return OkStatus();
}

// --- statistics ---

void Set(const kserve::DurationStat& stat, inference::StatisticDuration* out) {
  out->set_count(stat.count);
  out->set_ns(stat.ns);
}

Status ModelStatistics(Call& call, const inference::ModelStatisticsRequest& request,
                       inference::ModelStatisticsResponse* response) {
  ASSIGN_OR_RETURN(const auto all, RepositoryOf(call).Statistics(request.name(), request.version(),
                                                                 CallerOf(call)));
  for (const kserve::StatisticsSnapshot& model : all) {
    inference::ModelStatistics& out = *response->add_model_stats();
    out.set_name(model.name);
    out.set_version(model.version);
    out.set_last_inference(static_cast<uint64_t>(model.last_inference_ms));
    out.set_inference_count(model.inference_count);
    out.set_execution_count(model.execution_count);
    inference::InferStatistics& sums = *out.mutable_inference_stats();
    Set(model.success, sums.mutable_success());
    Set(model.fail, sums.mutable_fail());
    Set(model.queue, sums.mutable_queue());
    Set(model.input, sums.mutable_compute_input());
    Set(model.infer, sums.mutable_compute_infer());
    Set(model.output, sums.mutable_compute_output());
    sums.mutable_cache_hit();
    sums.mutable_cache_miss();
    for (const kserve::BatchStat& batch : model.batches) {
      inference::InferBatchStatistics& stats = *out.add_batch_stats();
      stats.set_batch_size(batch.batch_size);
      Set(batch.input, stats.mutable_compute_input());
      Set(batch.infer, stats.mutable_compute_infer());
      Set(batch.output, stats.mutable_compute_output());
    }
  }
  return OkStatus();
}

// --- the repository ---

Status RepositoryIndex(Call& call, const inference::RepositoryIndexRequest& request,
                       inference::RepositoryIndexResponse* response) {
  for (const kserve::IndexEntry& entry :
       RepositoryOf(call).Index(request.ready(), CallerOf(call))) {
    auto& model = *response->add_models();
    model.set_name(entry.name);
    model.set_version(entry.version);
    model.set_state(entry.ready ? "READY" : "UNAVAILABLE");
    model.set_reason(entry.reason);
  }
  return OkStatus();
}

// Loads or unloads a model, and answers when that has happened.
template <typename Request, typename Response,
          void (kserve::Repository::*Change)(const std::string&, api::ModelControl::Done) const>
class ModelChange final : public CallHandler {
 public:
  using CallHandler::CallHandler;
  static HandlerPtr Make(Call& call) { return std::make_unique<ModelChange>(call); }

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    Request request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    begun_ = true;
    (RepositoryOf(call_).*Change)(request.model_name(),
                                  [outcome = outcome_, waker = call_.waker()](Status status) {
                                    outcome->Update([&](auto& held) { held = std::move(status); });
                                    waker->Wake();
                                  });
    Pump();
  }
  void OnEnd() override {
    if (!begun_) call_.Finish(Unreadable());
  }
  void Pump() override {
    const std::optional<Status> outcome = answered_ ? std::nullopt : outcome_->Copy();
    if (!outcome.has_value()) return;
    answered_ = true;
    outcome->ok() ? call_.Reply(Response()) : call_.Finish(*outcome);
  }
  bool waits() const override { return begun_ && !answered_; }

 private:
  // Shared with the callback, which may come after the call has ended.
  const std::shared_ptr<Synchronized<std::optional<Status>>> outcome_ =
      std::make_shared<Synchronized<std::optional<Status>>>();
  bool begun_ = false, answered_ = false;
};

// --- shared memory ---

// Clients that use none forget all regions first.
template <typename Request, typename Response>
Status Unregister(Call&, const Request& request, Response*) {
  return request.name().empty() ? OkStatus() : kserve::NotOffered("shared memory");
}

class Refusal final : public CallHandler {
 public:
  using CallHandler::CallHandler;
  void OnMessage(google::protobuf::io::ZeroCopyInputStream&) override {
    call_.Finish(kserve::NotOffered("this method"));
  }
  void OnEnd() override { call_.Finish(kserve::NotOffered("this method")); }
};

// --- ModelInfer ---

class InferHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    inference::ModelInferRequest request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    run_ = Run::Begin(call_, request, call_.NewCacheReport());
    if (run_.execution == nullptr) return call_.Finish(run_.failure);
    Pump();
  }
  void OnEnd() override {
    if (run_.execution == nullptr) call_.Finish(Unreadable());
  }

  bool waits() const override { return run_.execution != nullptr; }
  TimePoint due() const override {
    return run_.execution == nullptr ? TimePoint::max() : run_.execution->due();
  }
  int unprepared() const override {
    return run_.execution != nullptr && !run_.execution->prepared() ? 1 : 0;
  }

  void Pump() override {
    if (run_.execution == nullptr) return;
    Result<std::optional<kserve::InferResponse>> response =
        only_.Take(*run_.execution,
                   "ModelInfer RPC doesn't support models with decoupled transaction policy: '" +
                       run_.model + "' gives more than one response; use ModelStreamInfer");
    if (!response.ok()) return End(response.status());
    if (!response->has_value()) return;
    run_.execution.reset();
    run_.RecordStages(call_, (*response)->spent);
    inference::ModelInferResponse message;
    run_.Fill(**response, &message);
    call_.Reply(message);
  }

 private:
  void End(const Status& status) {
    run_.execution.reset();
    call_.Finish(status);
  }

  Run run_;
  kserve::OneResponse only_;
};

}  // namespace

HandlerPtr MakeServerLive(Call& call) { return Unary<ServerLive>::Make(call); }
HandlerPtr MakeServerReady(Call& call) { return Unary<ServerReady>::Make(call); }
HandlerPtr MakeModelReady(Call& call) { return Unary<ModelReady>::Make(call); }
HandlerPtr MakeServerMetadata(Call& call) { return Unary<ServerMetadata>::Make(call); }
HandlerPtr MakeModelMetadata(Call& call) { return Unary<ModelMetadata>::Make(call); }
HandlerPtr MakeModelConfig(Call& call) { return Unary<ModelConfig>::Make(call); }
HandlerPtr MakeModelStatistics(Call& call) { return Unary<ModelStatistics>::Make(call); }
HandlerPtr MakeRepositoryIndex(Call& call) { return Unary<RepositoryIndex>::Make(call); }
HandlerPtr MakeModelLoad(Call& call) {
  return ModelChange<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse,
                     &kserve::Repository::Load>::Make(call);
}
HandlerPtr MakeModelUnload(Call& call) {
  return ModelChange<inference::RepositoryModelUnloadRequest,
                     inference::RepositoryModelUnloadResponse,
                     &kserve::Repository::Unload>::Make(call);
}
HandlerPtr MakeSystemUnregister(Call& call) {
  using Request = inference::SystemSharedMemoryUnregisterRequest;
  using Response = inference::SystemSharedMemoryUnregisterResponse;
  return Unary<Unregister<Request, Response>>::Make(call);
}
HandlerPtr MakeCudaUnregister(Call& call) {
  using Request = inference::CudaSharedMemoryUnregisterRequest;
  using Response = inference::CudaSharedMemoryUnregisterResponse;
  return Unary<Unregister<Request, Response>>::Make(call);
}
HandlerPtr MakeNotOffered(Call& call) { return std::make_unique<Refusal>(call); }

HandlerPtr MakeModelInfer(Call& call) { return std::make_unique<InferHandler>(call); }

}  // namespace tutti::rpc
