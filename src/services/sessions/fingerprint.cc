#include "services/sessions/fingerprint.h"

#include <bit>
#include <string_view>

#include "api/role.h"

namespace tutti::sessions {

const store::Migration kFingerprintTables = {
    "ALTER TABLE turn ADD COLUMN fingerprint INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE turn DROP COLUMN fingerprint"};

namespace {

// FNV-1a, of 64 bits (Fowler, Noll, Vo).
class Fnv {
 public:
  // With its length, so that no two lists of texts are the same bytes.
  void Add(std::string_view text) {
    for (uint64_t left = text.size(), i = 0; i < 8; ++i, left >>= 8) AddByte(left & 0xff);
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

int64_t FingerprintOf(const Message& message) {
  Fnv fnv;
  for (const api::ChatMessage& each : message.input) {
    fnv.Add(api::RoleName(each.role));
    fnv.Add(each.content);
    for (const api::ToolCall& call : each.tool_calls) {
      fnv.Add(call.id);
      fnv.Add(call.name);
      fnv.Add(call.arguments);
    }
    if (!each.tool_call_id.empty()) fnv.Add(each.tool_call_id);
    if (!each.reasoning.empty()) fnv.Add(each.reasoning);
  }
  if (message.system_prompt.has_value()) {
    fnv.Add("system_prompt");
    fnv.Add(*message.system_prompt);
  }
  const auto value = std::bit_cast<int64_t>(fnv.value());
  return value == 0 ? 1 : value;
}

Status CheckSame(int64_t known, const Message& message) {
  if (known == 0 || known == FingerprintOf(message)) return OkStatus();
  return InvalidArgument("idempotency_key_mismatch",
                         "this id was given to a message that said something else")
      .WithParam("id");
}

}  // namespace tutti::sessions
