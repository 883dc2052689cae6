// What Gateway does for encodings; gateway.cc has the rest.
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/models.h"
#include "base/memory_reserve.h"
#include "gateway/encode_inputs.h"
#include "gateway/encode_result.h"
#include "gateway/gateway.h"

namespace tutti::gateway {

namespace {

Status Rejected(const ServedModel& model, Status status) {
  if (model.encoder != nullptr && model.encoder->metrics != nullptr)
    model.encoder->metrics->RequestRejected(status.reason());
  return status;
}

}  // namespace

struct Gateway::PendingEncoding {
  std::shared_ptr<const ServedModel> model;
  api::EncodeRequest request;
  engine::AdmissionPermit permit;
  std::shared_ptr<api::EncodingState> state;
  // Embedding-cache lookup of the request. Set before the request is submitted, read by the thread
  // that takes the result. Null inside: every input is computed.
  std::shared_ptr<std::shared_ptr<api::KnownRows>> known =
      std::make_shared<std::shared_ptr<api::KnownRows>>();
};

Result<std::shared_ptr<const ServedModel>> Gateway::FindEncoder(
    const api::EncodeRequest& request) const {
  if (!request.model.empty()) return Find(request.model);
  const std::vector<api::ModelInfo> models = Models();
  if (const api::ModelInfo* model = api::EncoderFor(models, request)) return Find(model->id);
  if (models.empty()) return Find("");  // says why there is none
  if (AwaitsModels())
    return Unavailable("model_loading", "models that may give this are still being loaded");
  if (request.output == api::EncodeOutput::kScores) {
    return InvalidArgument("invalid_value", "none of the models here gives such scores")
        .WithParam("model");
  }
  const bool decoders = std::any_of(models.begin(), models.end(),
                                    [](const api::ModelInfo& model) { return model.generates; });
  return InvalidArgument(
             "invalid_value",
             std::string("none of the models here gives such vectors") +
                 (decoders ? "; --encode-decoders on lets one that generates text" : ""))
      .WithParam("model");
}

Result<api::Encoding> Gateway::Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, FindEncoder(request));
  const size_t work = EncodeBytes(request);
  Result<std::shared_ptr<PendingEncoding>> queued = Queue(model, std::move(request));
  if (!queued.ok()) return Rejected(*model, queued.status());
  const std::shared_ptr<PendingEncoding> pending = *std::move(queued);
  pending->state = std::make_shared<api::EncodingState>(
      std::move(waker),
      [known = pending->known,
       finish = FinishFor(*pending->model->encoder, pending->request)](api::EncodeResult& result) {
        if (*known != nullptr) (*known)->Complete(&result);
        finish(result);
      },
      std::exchange(pending->request.observer, nullptr));
  api::Encoding encoding(pending->state, pending->permit.control());
  if (work <= options_.inline_prompt_bytes) {
    if (const PrepPool::Place place(pool_); place) {
      Status status = Prepare(*pending);
      if (!status.ok()) return Rejected(*model, std::move(status));
      return encoding;
    }
  }
  pool_.Post([this, pending] {
    KeepMemoryReserve();
    Status status = StillWanted(pending->permit, pending->request.deadline);
    if (status.ok()) status = Prepare(*pending);
    if (!status.ok()) {
      pending->request = {};  // its memory first: the refusal needs some
      UntilMemory([&] { pending->state->Finish(Rejected(*pending->model, status)); });
    }
    // Who waits for it to be prepared, too: a server may hold something until then.
    if (pending->state->waker() != nullptr) pending->state->waker()->Wake();
  });
  return encoding;
}

Result<std::shared_ptr<Gateway::PendingEncoding>> Gateway::Queue(
    std::shared_ptr<const ServedModel> model, api::EncodeRequest request) {
  RETURN_IF_ERROR(CheckEncodeRequest(*model, request));
  auto pending = std::make_shared<PendingEncoding>();
  ASSIGN_OR_RETURN(pending->permit,
                   model->encoder->engine->Admit({.items = static_cast<int>(request.inputs.size()),
                                                  .bytes = EncodeBytes(request),
                                                  .priority = request.priority,
                                                  .deadline = request.deadline}));
  pending->model = std::move(model);
  pending->request = std::move(request);
  return pending;
}

Status Gateway::Prepare(PendingEncoding& pending) {
  try {
    return PrepareOrThrow(pending);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

Status Gateway::PrepareOrThrow(PendingEncoding& pending) {
  const TimePoint begin = clock_.Now();
  api::EncodeRequest& in = pending.request;
  ASSIGN_OR_RETURN(EncodeTokens inputs, ReadEncodeInputs(*pending.model, in));
  if (rows_ != nullptr) {
    *pending.known = rows_->Look({.request = in,
                                  .tokens = inputs.tokens,
                                  .types = inputs.types,
                                  .lengths = inputs.lengths,
                                  .model = pending.model->info,
                                  .model_instance = pending.model->instance});
    if (*pending.known != nullptr) KeepOnly((*pending.known)->missing(), &inputs);
    if (inputs.lengths.empty()) {
      pending.permit = {};  // nothing is waited for
      pending.state->Prepared();
      pending.state->Finish(api::EncodeResult());
      if (pending.state->waker() != nullptr) pending.state->waker()->Wake();
      return OkStatus();
    }
  }
  engine::TokenizedRequest out;
  out.id = std::move(in.request_id);
  out.tokens = std::move(inputs.tokens);
  out.types = std::move(inputs.types);
  out.lengths = std::move(inputs.lengths);
  out.output = in.output;
  out.priority = in.priority;
  out.deadline = in.deadline;
  out.tenant = std::move(in.tenant);
  out.tenant_weight = in.tenant_weight;
  out.prepare = clock_.Now() - begin;
  const auto items = static_cast<int64_t>(out.lengths.size());
  const auto tokens = static_cast<int64_t>(out.tokens.size());
  const ServedEncoder& encoder = *pending.model->encoder;
  pending.state->Prepared();
  RETURN_IF_ERROR(encoder.engine->Submit(std::move(pending.permit), std::move(out), pending.state));
  if (encoder.metrics != nullptr) encoder.metrics->RequestAccepted(items, tokens);
  return OkStatus();
}

}  // namespace tutti::gateway
