// From the events of a request to spans of OpenTelemetry. Pure; any thread.
//
//   chat.completions                                  SERVER, of the whole request
//   |- receive        the first byte until the body is understood
//   |- prepare        template and tokenizer
//   |- queue          until it runs; events: reasons of its waits
//   |- prefill        until the first token
//   |  |- prefill.step   each step that computed a part of its prompt
//   |- decode         until the last token; events: preemptions
//   |- send           until the last byte was given to the socket
//   |- worker         CLIENT, at a frontend: until the worker's last message;
//                     parent of the worker's spans
//
// Attributes follow the conventions of OpenTelemetry for HTTP and generative AI where they have
// one; the others begin with "tutti.".
#pragma once

#include <otlp/trace.pb.h>

#include "api/request_trace.h"

namespace tutti::traces {

// Appends the spans of a request that has ended.
void AppendSpans(const api::RequestTrace& trace, otlp::ScopeSpans* out);

// {key: value} for a resource or a span.
void AppendAttribute(const std::string& key, const std::string& value,
                     google::protobuf::RepeatedPtrField<otlp::KeyValue>* attributes);

}  // namespace tutti::traces
