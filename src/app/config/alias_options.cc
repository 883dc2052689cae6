#include "app/config/alias_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "app/config/options.h"
#include "app/loading/model_registry.h"
#include "base/ascii.h"
#include "base/quote.h"

namespace tutti::app {
namespace {

constexpr std::string_view kAliasTable = "alias";

constexpr std::array kAliasKeys = std::to_array<TableKey>({
    {"name", "", "text", "model name that clients use"},
    {"models", "", "`MODEL` or `MODEL=WEIGHT`, a list",
     "served models that answer, with their relative shares of the requests (default weight: 1)"},
    {"by_user", "off", "on|off",
     "requests with the same `user` field go to the same model; others are divided one by one"},
    {"shadow", "", "text", "served model that gets copies of requests; its answers are discarded"},
    {"shadow_share", "1", "0 to 1", "share of the requests that are copied to `shadow`"},
});

Status AliasFault(const std::string& why) { return InvalidArgument("invalid_value", why); }

// "teacher=90": the weight is what follows the last '=', if that is a number, since names of models
// may contain one.
Result<aliases::AliasTarget> ReadTarget(const std::string& text) {
  aliases::AliasTarget target{.model = text};
  if (const size_t equals = text.rfind('='); equals != std::string::npos) {
    const std::optional<double> weight =
        ParseNumber<double>(Trimmed(std::string_view(text).substr(equals + 1)));
    if (!weight.has_value() || !std::isfinite(*weight) || *weight <= 0 || *weight > 1e9) {
      return AliasFault("models: the weight of " + Quote(text.substr(0, equals)) +
                        " must be a number above 0 and up to 1e9, not " +
                        Quote(text.substr(equals + 1)));
    }
    target = {.model = std::string(Trimmed(std::string_view(text).substr(0, equals))),
              .weight = *weight};
  }
  if (Status status = CheckServedName(target.model); !status.ok())
    return AliasFault("models: " + status.message());
  return target;
}

Result<aliases::Alias> MakeAlias(const TableFields& fields) {
  const TableReader reader(fields, kAliasKeys);
  RETURN_IF_ERROR(reader.CheckKeys());
  aliases::Alias alias;
  alias.name = reader.Text("name");
  if (alias.name.empty()) return AliasFault("name is missing");
  if (Status status = CheckServedName(alias.name); !status.ok())
    return AliasFault("name: " + status.message());
  const std::string models = reader.Text("models");
  for (const std::string_view text : SplitAt(models, ',')) {
    ASSIGN_OR_RETURN(aliases::AliasTarget target, ReadTarget(std::string(Trimmed(text))));
    const auto twice = [&](const aliases::AliasTarget& other) {
      return other.model == target.model;
    };
    if (std::any_of(alias.targets.begin(), alias.targets.end(), twice))
      return AliasFault("models: " + Quote(target.model) + " stands there twice");
    alias.targets.push_back(std::move(target));
  }
  if (alias.targets.empty())
    return AliasFault("models is missing; give a list such as [\"teacher=90\", \"student=10\"]");
  if (alias.targets.size() > aliases::kMaxTargets)
    return AliasFault("models has " + std::to_string(alias.targets.size()) + " entries, limit " +
                      std::to_string(aliases::kMaxTargets));
  ASSIGN_OR_RETURN(alias.by_user, reader.Choice("by_user", "on", "off"));
  alias.shadow = reader.Text("shadow");
  const std::string share = reader.Text("shadow_share");
  const std::optional<double> number = ParseNumber<double>(share);
  if (!number.has_value() || !(*number >= 0 && *number <= 1))
    return AliasFault("shadow_share must be a number from 0 to 1, not " + Quote(share));
  alias.shadow_share = *number;
  if (alias.shadow.empty() && *number != 1) return AliasFault("shadow_share needs a shadow");
  return alias;
}

}  // namespace

std::span<const TableKey> AliasKeys() { return kAliasKeys; }

Result<std::vector<aliases::Alias>> MakeAliases(const std::vector<TableFields>& tables) {
  if (tables.size() > aliases::kMaxAliases)
    return AliasFault("[[alias]] appears " + std::to_string(tables.size()) + " times, limit " +
                      std::to_string(aliases::kMaxAliases));
  std::vector<aliases::Alias> all;
  for (const TableFields& fields : tables) {
    Result<aliases::Alias> alias = MakeAlias(fields);
    if (!alias.ok())
      return Status(alias.status()).WithContext(TableTitle(kAliasTable, all.size() + 1, fields));
    all.push_back(*std::move(alias));
  }
  return all;
}

}  // namespace tutti::app
