// TraceContext: identifiers that join the spans of several services to one trace.
// Format: W3C Trace Context, https://www.w3.org/TR/trace-context/. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace_id = {};   // zero: there is no context
  SpanId span_id = {};     // the sender's span
  bool sampled = false;    // the sender records the trace
  std::string state = {};  // the field `tracestate`, passed on as it came; at most 512 bytes

  bool valid() const { return trace_id != TraceId{}; }
  bool operator==(const TraceContext&) const = default;
};

// Reads the fields `traceparent` and `tracestate`. Not valid(): there is no context, or it is
// malformed. A malformed or too long `tracestate` alone is dropped.
TraceContext ReadTraceContext(std::string_view traceparent, std::string_view tracestate = {});

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; `context` is valid.
std::string TraceParent(const TraceContext& context);

// Random ids, never zero.
TraceId NewTraceId();
SpanId NewSpanId();

// The id of the span's `index`-th child: the same in every call, so that a child can be named
// before it is recorded. Not zero.
SpanId ChildSpanId(const SpanId& parent, uint64_t index);

// Whether a trace with this id belongs to the given share of traces, 0 to 1. Every process of a
// trace decides alike (the sampler TraceIdRatioBased of OpenTelemetry).
bool InSample(const TraceId& id, double ratio);

}  // namespace tutti
