// Which route of those that generate or embed a call is of. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti::calls {

enum class CallKind : uint8_t {
  kChat,
  kText,
  kGenerate,
  kMessages,
  kInfill,
  // Those of encoders.
  kEmbeddings,
  kRerank,
  kScore,
};
constexpr bool Generates(CallKind kind) { return kind < CallKind::kEmbeddings; }

// "chat.completions": as the ledger of usage names the route, and as it is stored.
std::string_view NameOf(CallKind kind);
std::optional<CallKind> KindNamed(std::string_view name);

}  // namespace tutti::calls
