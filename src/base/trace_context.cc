#include "base/trace_context.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/ascii.h"
#include "base/random.h"

namespace tutti {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

// Lower-case digits only, as the format requires.
bool ReadHex(std::string_view text, std::span<uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t high = kHexDigits.find(text[2 * i]), low = kHexDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

bool MayBeState(std::string_view state) {
  constexpr size_t kMaxBytes = 512;
  return state.size() <= kMaxBytes && state.find('=') != std::string_view::npos &&
         std::all_of(state.begin(), state.end(),
                     [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
}

}  // namespace

TraceContext ReadTraceContext(std::string_view traceparent, std::string_view tracestate) {
  // version "-" trace-id "-" parent-id "-" trace-flags
  constexpr size_t kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53, kSize = 55;
  if (traceparent.size() < kSize) return {};
  std::array<uint8_t, 1> version, flags;
  TraceContext context;
  if (!ReadHex(traceparent.substr(0, 2), version) || traceparent[kTraceAt - 1] != '-' ||
      !ReadHex(traceparent.substr(kTraceAt, 32), context.trace_id) ||
      traceparent[kSpanAt - 1] != '-' ||
      !ReadHex(traceparent.substr(kSpanAt, 16), context.span_id) ||
      traceparent[kFlagsAt - 1] != '-' || !ReadHex(traceparent.substr(kFlagsAt, 2), flags))
    return {};
  // Later versions may append fields.
  if (version[0] == 0xff || (version[0] == 0 && traceparent.size() != kSize) ||
      (traceparent.size() > kSize && traceparent[kSize] != '-'))
    return {};
  if (context.span_id == SpanId{}) return {};
  context.sampled = (flags[0] & 1) != 0;
  if (MayBeState(tracestate)) context.state = tracestate;
  return context;
}

std::string TraceParent(const TraceContext& context) {
  return "00-" + ToHex(context.trace_id) + "-" + ToHex(context.span_id) +
         (context.sampled ? "-01" : "-00");
}

SpanId NewSpanId() {
  uint64_t bits = 0;
  while (bits == 0) bits = RandomBits();
  SpanId id;
  std::memcpy(id.data(), &bits, id.size());
  return id;
}

TraceId NewTraceId() {
  const SpanId first = NewSpanId(), second = NewSpanId();
  TraceId id;
  std::copy(first.begin(), first.end(), id.begin());
  std::copy(second.begin(), second.end(), id.begin() + first.size());
  return id;
}

SpanId ChildSpanId(const SpanId& parent, uint64_t index) {
  uint64_t seed = 0;
  std::memcpy(&seed, parent.data(), parent.size());
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // different indices give different seeds
  Random random(seed ^ ((index + 1) * kOdd));
  uint64_t bits = 0;
  while (bits == 0) bits = random.Next();
  SpanId id;
  std::memcpy(id.data(), &bits, id.size());
  return id;
}

bool InSample(const TraceId& id, double ratio) {
  if (ratio >= 1) return true;
  uint64_t low = 0;  // the last seven bytes, which the format says are random
  for (size_t i = 9; i < id.size(); ++i) low = low << 8 | id[i];
  return static_cast<double>(low) < ratio * static_cast<double>(uint64_t{1} << 56);
}

}  // namespace tutti
