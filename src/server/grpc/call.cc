#include "server/grpc/call.h"

#include <chrono>

#include "protocol/error.h"

namespace tutti::rpc {
namespace {

// --- protobuf by hand: three small messages of google.rpc, whose files are not among ours ---
constexpr int kVarint = 0, kBytes = 2;

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}
void AppendNumber(int field, uint64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field << 3 | kVarint), out);
  AppendVarint(value, out);
}
void AppendText(int field, std::string_view text, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field << 3 | kBytes), out);
  AppendVarint(text.size(), out);
  out->append(text);
}

std::string Any(std::string_view type, std::string_view message) {
  std::string any;
  AppendText(1, "type.googleapis.com/google.rpc." + std::string(type), &any);
  AppendText(2, message, &any);
  return any;
}

std::string RetryInfo(std::chrono::milliseconds wait) {
  std::string duration, info;
  AppendNumber(1, static_cast<uint64_t>(wait.count() / 1000), &duration);
  AppendNumber(2, static_cast<uint64_t>(wait.count() % 1000 * 1'000'000), &duration);
  AppendText(1, duration, &info);
  return info;
}

std::string ErrorInfo(const protocol::ErrorView& error) {
  std::string info;
  AppendText(1, error.code, &info);
  AppendText(2, "tutti", &info);
  if (!error.param.empty()) {
    std::string entry;  // of the map `metadata`
    AppendText(1, "param", &entry);
    AppendText(2, error.param, &entry);
    AppendText(3, entry, &info);
  }
  return info;
}

}  // namespace

WireStatus ToWire(const Status& status) {
  WireStatus out;
  if (status.ok()) return out;
  const protocol::ErrorView view = protocol::ViewError(status);
  out.code = static_cast<int>(protocol::FindError(status).canonical);
  out.message = view.message;
  out.reason = view.code;
  const bool again = out.code == static_cast<int>(StatusCode::kUnavailable) ||
                     (out.code == static_cast<int>(StatusCode::kResourceExhausted) &&
                      view.retry_after.has_value());
  if (again) out.retry_after = view.retry_after.value_or(std::chrono::seconds(1));
  AppendNumber(1, static_cast<uint64_t>(out.code), &out.details);
  AppendText(2, out.message, &out.details);
  AppendText(3, Any("ErrorInfo", ErrorInfo(view)), &out.details);
  if (out.retry_after.has_value()) {
    AppendText(3, Any("RetryInfo", RetryInfo(*out.retry_after)), &out.details);
  }
  return out;
}

std::string PublicMessage(const Status& status) { return protocol::ViewError(status).message; }

}  // namespace tutti::rpc
