// JsonFile: typed, range-checked reads of a checkpoint's JSON file; and the texts of a checkpoint's
// folder. Errors name the file, the key and the value.
//
// A value; any thread. Bytes, depth and numbers are bounded: the files are not trusted. Absent and
// null are the same.
#pragma once

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "files/source.h"

namespace tutti::model {

// The largest file of this name that is read: 1 MiB; 16 MiB for tokenizer_config.json, which lists
// every added token (1.2 MB in Gemma 3).
size_t MaxConfigBytes(std::string_view name);

class JsonFile {
 public:
  // `text` must be one JSON object, or with `array` one array, of at most MaxConfigBytes(name).
  // Errors: model_hparam.
  static Result<JsonFile> Parse(std::string_view text, std::string name, bool array = false);

  // Members that were read already. `name` begins every refusal.
  static JsonFile Of(boost::json::object members, std::string name) {
    return JsonFile(std::move(members), std::move(name));
  }

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  Result<int> Int(std::string_view key, int low, int high) const;  // required
  Result<int> IntOr(std::string_view key, int fallback, int low, int high) const;
  Result<double> FloatOr(std::string_view key, double fallback, double low, double high) const;
  Result<bool> BoolOr(std::string_view key, bool fallback) const;
  Result<std::string> StringOr(std::string_view key, std::string fallback) const;

  const boost::json::value* Find(std::string_view key) const;  // nullptr when absent or null
  const boost::json::object& members() const { return root_.get_object(); }
  const boost::json::array& items() const { return root_.get_array(); }  // of an array
  const std::string& name() const { return name_; }

  Status Refuse(std::string_view key, std::string_view fault) const;
  template <typename First, typename... Rest>
  Status Refuse(std::string_view key, fmt::format_string<First, Rest...> format, First&& first,
                Rest&&... rest) const {
    const std::string fault =
        fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...);
    return Refuse(key, std::string_view(fault));
  }

 private:
  JsonFile(boost::json::value root, std::string name)
      : root_(std::move(root)), name_(std::move(name)) {}

  boost::json::value root_;
  std::string name_;
};

// The first of a config.json's `architectures`, a class of transformers; "" if the file has none.
std::string_view ClassOf(const JsonFile& file);

// A value in a message: as JSON, cut where it is long.
std::string Excerpt(const boost::json::value& value);

// The text of a file of at most `limit` bytes, or nothing if the file does not exist. Errors:
// model_hparam, model_path, with the file's name.
Result<std::optional<std::string>> ReadIfThere(const files::Folder& folder, const std::string& name,
                                               uint64_t limit);

// The text of a JSON file or template of at most MaxConfigBytes(name), or "" if the file does not
// exist. Errors: the same.
Result<std::string> ReadOrEmpty(const files::Folder& folder, const std::string& name);

}  // namespace tutti::model
