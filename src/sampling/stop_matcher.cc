#include "sampling/stop_matcher.h"

#include <algorithm>

namespace tutti::sampling {

StopSet::StopSet(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    if (text.empty() || text.size() > UINT16_MAX) continue;
    Stop stop{text, std::vector<uint16_t>(text.size(), 0)};
    uint16_t border = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = stop.fallback[border - 1U];
      if (text[i] == text[border]) ++border;
      stop.fallback[i] = border;
    }
    stops_.push_back(std::move(stop));
  }
}

std::optional<size_t> StopMatcher::Push(std::string_view text, std::string& out) {
  if (set_ == nullptr || set_->empty()) {
    out.append(text);
    return std::nullopt;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    std::optional<size_t> hit;
    for (size_t s = 0; s < matched_.size(); ++s) {
      const StopSet::Stop& stop = set_->stops_[s];
      uint16_t length = matched_[s];
      while (length > 0 && stop.text[length] != text[i]) length = stop.fallback[length - 1U];
      if (stop.text[length] == text[i]) ++length;
      matched_[s] = length;
      if (length == stop.text.size() && (!hit || stop.text.size() > set_->stops_[*hit].text.size()))
        hit = s;
    }
    if (!hit) continue;
    held_.append(text.substr(0, i + 1));
    if (!include_) held_.resize(held_.size() - set_->stops_[*hit].text.size());
    out.append(held_);
    held_.clear();
    return hit;
  }
  held_.append(text);
  const size_t keep = *std::max_element(matched_.begin(), matched_.end());
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return std::nullopt;
}

void StopMatcher::Finish(std::string& out) {
  out.append(held_);
  held_.clear();
}

}  // namespace tutti::sampling
