#include "services/calls/call_kind.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::calls {
namespace {

constexpr std::array<std::pair<CallKind, std::string_view>, 8> kNames = {{
    {CallKind::kChat, "chat.completions"},
    {CallKind::kText, "completions"},
    {CallKind::kGenerate, "generate"},
    {CallKind::kMessages, "messages"},
    {CallKind::kInfill, "infill"},
    {CallKind::kEmbeddings, "embeddings"},
    {CallKind::kRerank, "rerank"},
    {CallKind::kScore, "score"},
}};

}  // namespace

std::string_view NameOf(CallKind kind) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [kind](const auto& entry) { return entry.first == kind; })
      ->second;
}

std::optional<CallKind> KindNamed(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

}  // namespace tutti::calls
