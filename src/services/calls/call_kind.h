// CallKind: the generating or embedding route that a call belongs to. A plain value.
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
  // Calls of encoders.
  kEmbeddings,
  kRerank,
  kScore,
};
constexpr bool Generates(CallKind kind) { return kind < CallKind::kEmbeddings; }

// Name of the route in the usage ledger and in stored jobs, such as "chat.completions".
std::string_view NameOf(CallKind kind);
std::optional<CallKind> KindNamed(std::string_view name);

}  // namespace tutti::calls
