// Tables of the configuration file that may appear several times, such as [[mqtt.project]]: the
// table of their keys, and a reader of the values. Plain values; any thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::app {

// A key of such a table. The checks, --print-config and the documentation are made from it.
struct TableKey {
  const char* name;
  const char* fallback;  // as text; empty: none
  const char* values;    // "on|off": one of these; else in words
  const char* help;
};

// The keys of one table with their texts ("on" and "off" of truth values, lists joined by commas),
// as they were written.
using TableFields = std::map<std::string, std::string>;

// Reads the fields of one table. The arguments outlive it.
class TableReader {
 public:
  TableReader(const TableFields& fields, std::span<const TableKey> keys)
      : fields_(fields), keys_(keys) {}

  // Errors: unknown_parameter, with the key that was probably meant.
  Status CheckKeys() const;
  // The written value of `key`, else its fallback.
  std::string Text(std::string_view key) const;
  // Reads a key with two possible values; true if it is `yes`. Errors: invalid_value.
  Result<bool> Choice(std::string_view key, std::string_view yes, std::string_view no) const;

 private:
  const TableFields& fields_;
  const std::span<const TableKey> keys_;
};

// `[[mqtt.project]] 2 ("driving")`, for errors; `number` counts from 1.
std::string TableTitle(std::string_view table, size_t number, const TableFields& fields);

}  // namespace tutti::app
