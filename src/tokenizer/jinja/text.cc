#include "tokenizer/jinja/text.h"

#include <algorithm>

namespace tutti::tokenizer::jinja {
namespace {

bool IsAscii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

Text::Text(std::string bytes, Origin origin)
    : bytes_(std::move(bytes)), origin_(origin), ascii_(IsAscii(bytes_)) {}

Origin Text::OriginAt(size_t pos) const {
  if (runs_.empty()) return origin_;
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), pos,
                                    [](size_t p, const Run& r) { return p < r.end; });
  return run->origin;
}

std::vector<Text::Run> Text::Runs() const {
  if (!runs_.empty() || bytes_.empty()) return runs_;
  return {Run{bytes_.size(), origin_}};
}

void Text::Append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    origin_ = origin;
  } else if (runs_.empty()) {
    if (origin != origin_) {
      runs_.push_back({bytes_.size(), origin_});
      runs_.push_back({bytes_.size() + bytes.size(), origin});
    }
  } else if (runs_.back().origin == origin) {
    runs_.back().end += bytes.size();
  } else {
    runs_.push_back({bytes_.size() + bytes.size(), origin});
  }
  ascii_ = ascii_ && IsAscii(bytes);
  bytes_.append(bytes);
}

void Text::AppendRange(const Text& other, size_t begin, size_t end) {
  if (begin >= end) return;
  const std::string_view bytes = other.bytes_;
  if (other.runs_.empty()) {
    Append(bytes.substr(begin, end - begin), other.origin_);
    return;
  }
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t p, const Run& r) { return p < r.end; });
  for (size_t at = begin; at < end; ++run) {
    const size_t stop = std::min(run->end, end);
    Append(bytes.substr(at, stop - at), run->origin);
    at = stop;
  }
}

Text Text::Slice(size_t begin, size_t end) const {
  Text slice;
  slice.markup_ = markup_;
  slice.AppendRange(*this, begin, end);
  return slice;
}

void Text::Demote() {
  if (runs_.empty()) return;  // one origin: nothing is mixed
  Text demoted;
  size_t at = 0;
  for (const Run& run : runs_) {
    demoted.Append(std::string_view(bytes_).substr(at, run.end - at),
                   run.origin == Origin::kTemplate ? Origin::kClient : run.origin);
    at = run.end;
  }
  *this = std::move(demoted);
}

}  // namespace tutti::tokenizer::jinja
