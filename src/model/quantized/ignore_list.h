// IgnoreList: the modules that a quantization_config excludes from quantization.
//
// An entry is a module's name, a part of it between dots ("lm_head", "mlp.gate"), or "re:" and a
// regular expression. Of expressions, literals, ".", ".*", "\." and anchors are understood; others
// are reported as unknown. A value; immutable after Read; any thread.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/json_file.h"

namespace tutti::model::quantized {

class IgnoreList {
 public:
  enum class Match { kNo, kYes, kUnknown };

  // `key` of the configuration; absent: no entries. Errors: model_hparam.
  static Result<IgnoreList> Read(const JsonFile& config, std::string_view key);

  Match Find(std::string_view module) const;

 private:
  std::set<std::string, std::less<>> names_;
  std::vector<std::string> patterns_;  // without "re:"
};

// Whether `pattern` matches `text` from its beginning, as Python's re.match does. Linear in the
// product of both lengths.
IgnoreList::Match MatchPattern(std::string_view pattern, std::string_view text);

}  // namespace tutti::model::quantized
