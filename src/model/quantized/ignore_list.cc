#include "model/quantized/ignore_list.h"

#include <utility>

namespace tutti::model::quantized {
namespace {

using Match = IgnoreList::Match;

// Published lists have a few expressions; each is tried on every module.
constexpr size_t kMaxPatterns = 256;

// A literal, or a step of the expression.
constexpr int kAnyCharacter = 256, kAnyText = 257;

}  // namespace

Match MatchPattern(std::string_view pattern, std::string_view text) {
  std::vector<int> steps;
  if (pattern.starts_with('^')) pattern.remove_prefix(1);
  const bool anchored = pattern.ends_with('$') && !pattern.ends_with("\\$");
  if (anchored) pattern.remove_suffix(1);
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size() && (pattern[i + 1] == '.' || pattern[i + 1] == '_')) {
      steps.push_back(static_cast<unsigned char>(pattern[++i]));
    } else if (c == '.') {
      const bool run = i + 1 < pattern.size() && pattern[i + 1] == '*';
      steps.push_back(run ? kAnyText : kAnyCharacter);
      i += run;
    } else if (std::string_view("\\*+?()[]{}|^$").find(c) != std::string_view::npos) {
      return Match::kUnknown;
    } else {
      steps.push_back(static_cast<unsigned char>(c));
    }
  }
  if (!anchored) steps.push_back(kAnyText);
  // On a mismatch, only the last ".*" has to take one character more.
  size_t step = 0, at = 0, last_any = steps.size(), taken = 0;
  while (at < text.size()) {
    if (step < steps.size() && steps[step] == kAnyText) {
      last_any = step++;
      taken = at;
    } else if (step < steps.size() && (steps[step] == kAnyCharacter ||
                                       steps[step] == static_cast<unsigned char>(text[at]))) {
      ++step;
      ++at;
    } else if (last_any != steps.size()) {
      step = last_any + 1;
      at = ++taken;
    } else {
      return Match::kNo;
    }
  }
  while (step < steps.size() && steps[step] == kAnyText) ++step;
  return step == steps.size() ? Match::kYes : Match::kNo;
}

Result<IgnoreList> IgnoreList::Read(const JsonFile& config, std::string_view key) {
  IgnoreList list;
  const boost::json::value* value = config.Find(key);
  if (value == nullptr) return list;
  if (!value->is_array()) return config.Refuse(key, "must be a list of strings");
  for (const boost::json::value& entry : value->get_array()) {
    if (!entry.is_string()) return config.Refuse(key, "must be a list of strings");
    const std::string_view text(entry.get_string());
    if (!text.starts_with("re:")) {
      list.names_.emplace(text);
    } else if (list.patterns_.size() == kMaxPatterns) {
      return config.Refuse(key, "has more than {} expressions", kMaxPatterns);
    } else {
      list.patterns_.emplace_back(text.substr(3));
    }
  }
  return list;
}

Match IgnoreList::Find(std::string_view module) const {
  // Each run of the name's components.
  for (size_t begin = 0; !names_.empty() && begin != std::string_view::npos;) {
    for (size_t end = module.find('.', begin);; end = module.find('.', end + 1)) {
      if (names_.contains(module.substr(begin, end == std::string_view::npos ? end : end - begin)))
        return Match::kYes;
      if (end == std::string_view::npos) break;
    }
    const size_t dot = module.find('.', begin);
    begin = dot == std::string_view::npos ? dot : dot + 1;
  }
  Match found = Match::kNo;
  for (const std::string& pattern : patterns_) {
    const Match match = MatchPattern(pattern, module);
    if (match == Match::kYes) return match;
    if (match == Match::kUnknown) found = match;
  }
  return found;
}

}  // namespace tutti::model::quantized
