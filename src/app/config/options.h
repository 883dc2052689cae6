// The table of all configuration keys: flag, TOML key, environment variable, accepted values,
// default and help text. --help, --print-config, the checks and the documentation are generated
// from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::app {

enum class OptionType {
  kInt,           // decimal, within [min, max]
  kSize,          // bytes: 512MiB, 1GiB, 1073741824; within [min, max]
  kNumber,        // decimal fraction, within [min, max], or between them
  kChoice,        // one of `choices`, separated by '|'; in any case, and FP16 is f16
                  // (tensor/dtype.h)
  kAdapters,      // [BASE/]NAME=PATH[:SCALE], separated by commas: ReadAdapters(); empty = unset
  kText,          // anything without control characters; empty = unset
  kOrigins,       // scheme://host[:port] as browsers send them, or *, separated by commas; empty =
                  // unset
  kChoices,       // some of `choices`, separated by commas; empty = unset
  kHosts,         // names or addresses without port, separated by commas; empty = unset
  kTemperatures,  // NUMBER or NAME=NUMBER, separated by commas: ReadDecisionTemperatures(); empty =
                  // unset
  kWeights,       // TENANT=NUMBER, separated by commas: admission::ReadWeights(); empty = unset
};

enum class OptionGroup {
  kModel,    // every command that runs a model
  kProcess,  // processes that serve: `tutti serve` and `tutti worker`
  kServer,   // `tutti serve` only
};

struct OptionSpec {
  const char* key;  // "sched.itl_target_ms": TOML key; flag --sched-itl-target-ms;
                    // TUTTI_SCHED_ITL_TARGET_MS
  OptionType type;
  OptionGroup group;
  const char* fallback;  // default, as text; "" = decided at start (help says how)
  const char* help;      // one line, with the unit
  int64_t min = 0;
  int64_t max = 0;
  const char* choices = "";
  const char* alias = "";         // further TOML names, separated by '|': "kv.cache_bytes"
  bool open = false;              // kNumber: min and max are no legal values themselves
  const char* other_names = "";   // of flag, variable and TOML key: "lanes|parallel"
  const char* other_values = "";  // of kChoice, and what they mean: "front=frontend"
};

// Whether the value is a list: repeated flags or a TOML list are equivalent to commas.
bool IsList(OptionType type);

std::span<const OptionSpec> AllOptions();
// By key, alias or another name; null when unknown.
const OptionSpec* FindOption(std::string_view key);

std::string FlagName(const OptionSpec& option);  // "--sched-itl-target-ms"
// All of them, the first in the table's words.
std::vector<std::string> FlagNames(const OptionSpec& option);
std::vector<std::string> EnvironmentNames(const OptionSpec& option);  // "TUTTI_..."

// OK if `text` is a valid value, else an error that describes the valid ones. Quotes at most 64
// bytes of `text`.
Status CheckOptionValue(const OptionSpec& option, std::string_view text);

// Canonical form of a valid value: a choice in the spelling of `choices`, else `text`.
std::string PlainOptionValue(const OptionSpec& option, std::string_view text);

// "a, B" -> {"a", "b"}: the elements of a legal value of kHosts, kOrigins or kChoices, in lower
// case.
std::vector<std::string> SplitList(std::string_view text);

// "1GiB" -> 1073741824. Suffixes KiB MiB GiB TiB and Ki Mi Gi Ti (binary), KB MB GB TB
// (decimal), case-insensitive. A bare "1G" means different things to different people: refused.
Result<int64_t> ParseSize(std::string_view text);

// The known name closest to a mistyped one, at most a third of it (and 3 characters) away, or "".
std::string Suggestion(std::string_view name, const std::vector<std::string>& known);

}  // namespace tutti::app
