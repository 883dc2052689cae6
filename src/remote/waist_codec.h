// The words of the waist (api/) as messages of proto/tutti/v1/worker.proto, and back. Pure; any
// thread.
//
// What comes from the other process is not trusted to be in range: an enum or a variant that it
// does not know becomes the first of its kind, as the build on the other side is this one
// (Hello.protocol). What a client wrote was checked by the front, and is checked again by the
// worker's gateway.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <string>

#include "api/answer_cache.h"
#include "api/encoding.h"
#include "api/inference.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"

namespace tutti::remote {

// Raised with any change of worker.proto that the other side has to know of.
inline constexpr uint32_t kProtocol = 3;

void ToWire(const Status& status, v1::WireStatus* wire);
Status FromWire(const v1::WireStatus& wire);

// Of a request all but what stays in the front: caller, user, route, observer, the limits' report.
// `now`: what is left of a deadline is told.
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
void ToWire(const api::LoadSnapshot& load, v1::Beat* wire);
api::LoadSnapshot FromWire(const v1::Beat& wire);

}  // namespace tutti::remote
