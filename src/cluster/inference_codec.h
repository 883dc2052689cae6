// Converts the types of the inference API (api/) to messages of proto/tutti/v1/worker.proto and
// back. Pure; any thread.
//
// Values from the other process may be out of range: an unknown enum value or variant becomes the
// first of its kind. Both sides are normally of the same build (Hello.protocol). A client's request
// was validated by the frontend, and is validated again by the worker's gateway.
#pragma once

#include <tutti/v1/worker.pb.h>

#include "api/answer_cache.h"
#include "api/encoding.h"
#include "api/inference.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"

namespace tutti::cluster {

// Version of worker.proto; raised with every change that the other side must know of.
inline constexpr uint32_t kProtocol = 4;

void ToWire(const Status& status, v1::WireStatus* wire);
Status FromWire(const v1::WireStatus& wire);

// Requests are sent without the fields that stay in the frontend: caller, user, route, observer,
// and the report of limits. A deadline is sent as the time that is left at `now`.
void ToWire(const api::GenerateRequest& request, TimePoint now, v1::WireGenerate* wire);
api::GenerateRequest FromWire(const v1::WireGenerate& wire, TimePoint now);
void ToWire(const api::EncodeRequest& request, TimePoint now, v1::WireEncode* wire);
api::EncodeRequest FromWire(const v1::WireEncode& wire, TimePoint now);
void ToWire(const api::TokenizeRequest& request, v1::WireTokenize* wire);
api::TokenizeRequest FromWire(const v1::WireTokenize& wire);
void ToWire(const api::DetokenizeRequest& request, v1::WireDetokenize* wire);
api::DetokenizeRequest FromWire(const v1::WireDetokenize& wire);

void ToWire(const api::StreamEvent& event, v1::WireEvent* wire);
api::StreamEvent FromWire(const v1::WireEvent& wire);
void ToWire(const api::EncodeResult& result, v1::WireEncodeResult* wire);
api::EncodeResult FromWire(const v1::WireEncodeResult& wire);
void ToWire(const api::TokenizeResult& result, v1::TokenizeReply* wire);
api::TokenizeResult FromWire(const v1::TokenizeReply& wire);

void ToWire(const api::ModelInfo& model, v1::WireModel* wire);
api::ModelInfo FromWire(const v1::WireModel& wire);
void ToWire(const api::ModelStatus& status, v1::WireModelStatus* wire);
api::ModelStatus FromWire(const v1::WireModelStatus& wire);
void ToWire(const api::LoadSnapshot& load, v1::Beat* wire);
api::LoadSnapshot FromWire(const v1::Beat& wire);

}  // namespace tutti::cluster
