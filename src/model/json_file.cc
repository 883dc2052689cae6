#include "model/json_file.h"

#include <fmt/format.h>

#include <utility>

#include "base/quote.h"
#include "base/text_file.h"
#include "files/source.h"

namespace tutti::model {
namespace {

constexpr size_t kMaxDepth = 32;

}  // namespace

size_t MaxConfigBytes(std::string_view name) {
  return size_t{name == "tokenizer_config.json" ? 16U : 1U} << 20;
}

Result<JsonFile> JsonFile::Parse(std::string_view text, std::string name, bool array) {
  const size_t limit = MaxConfigBytes(name);
  if (text.size() > limit) {
    return InvalidArgument(
        "model_hparam", fmt::format("{} has {} bytes; the limit is {}", name, text.size(), limit));
  }
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  boost::json::value root = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error || (array ? !root.is_array() : !root.is_object())) {
    return InvalidArgument(
        "model_hparam",
        fmt::format("{} is no JSON {}{}", name, array ? "array" : "object", GitLfsHint(text)));
  }
  return JsonFile(std::move(root), std::move(name));
}

const boost::json::value* JsonFile::Find(std::string_view key) const {
  const boost::json::value* value = root_.get_object().if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status JsonFile::Refuse(std::string_view key, std::string_view fault) const {
  return InvalidArgument("model_hparam", fmt::format("{}: {} {}", name_, key, fault));
}

Result<int> JsonFile::Int(std::string_view key, int low, int high) const {
  if (!Has(key)) return Refuse(key, "is missing");
  return IntOr(key, low, low, high);
}

Result<int> JsonFile::IntOr(std::string_view key, int fallback, int low, int high) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return fallback;
  const int64_t* number = value->if_int64();
  if (number == nullptr || *number < low || *number > high) {
    return Refuse(key, "must be a whole number from {} to {}", low, high);
  }
  return static_cast<int>(*number);
}

Result<double> JsonFile::FloatOr(std::string_view key, double fallback, double low,
                                 double high) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return fallback;
  boost::system::error_code error;
  const auto number = value->is_number() ? value->to_number<double>(error) : low - 1;
  if (error || !(number >= low && number <= high)) {
    return Refuse(key, "must be a number from {} to {}", low, high);
  }
  return number;
}

Result<bool> JsonFile::BoolOr(std::string_view key, bool fallback) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return fallback;
  const bool* flag = value->if_bool();
  if (flag == nullptr) return Refuse(key, "must be true or false");
  return *flag;
}

Result<std::string> JsonFile::StringOr(std::string_view key, std::string fallback) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return fallback;
  const boost::json::string* text = value->if_string();
  if (text == nullptr) return Refuse(key, "must be a string");
  return std::string(text->data(), text->size());
}

std::string_view ClassOf(const JsonFile& file) {
  const boost::json::value* classes = file.Find("architectures");
  const boost::json::array* list = classes == nullptr ? nullptr : classes->if_array();
  if (list == nullptr || list->empty() || !list->front().is_string()) return "";
  const boost::json::string& name = list->front().get_string();
  return {name.data(), name.size()};
}

std::string Excerpt(const boost::json::value& value) {
  if (const double* number = value.if_double()) return fmt::format("{}", *number);
  const std::string text = boost::json::serialize(value);
  return text.size() <= 40 ? text : Quote(text, 40);
}

Result<std::optional<std::string>> ReadIfThere(const files::Folder& folder, const std::string& name,
                                               uint64_t limit) {
  auto source = folder.OpenSource(name, "model_hparam");
  if (!source.ok() && source.status().reason() == "model_not_found")
    return std::optional<std::string>();
  if (!source.ok()) return std::move(source).status().WithContext(name);
  auto text = files::ReadAll(**source, limit, "model_hparam");
  if (!text.ok()) return std::move(text).status().WithContext(name);
  return std::optional<std::string>(*std::move(text));
}

Result<std::string> ReadOrEmpty(const files::Folder& folder, const std::string& name) {
  ASSIGN_OR_RETURN(std::optional<std::string> text,
                   ReadIfThere(folder, name, MaxConfigBytes(name)));
  return std::move(text).value_or("");
}

}  // namespace tutti::model
