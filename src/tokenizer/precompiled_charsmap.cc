#include "tokenizer/precompiled_charsmap.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/grapheme.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kShortCluster = 6;      // bytes; clusters below are looked up whole
constexpr size_t kMaxReplacement = 256;  // bytes; the longest of the published maps take 33

// The fields of a unit.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7fffffff; }
uint32_t Label(uint32_t unit) { return unit & 0x800000ff; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

Status Invalid(const char* what) {
  return InvalidArgument("tokenizer_invalid", std::string("precompiled_charsmap: ") + what);
}

}  // namespace

Result<PrecompiledCharsmap> PrecompiledCharsmap::Create(std::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof(trie_bytes)) return Invalid("it has no size");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  bytes.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes > bytes.size() || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes == 0)
    return Invalid("the size of its trie is not that of the bytes");
  PrecompiledCharsmap map;
  map.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), trie_bytes);
  map.replacements_ = bytes.substr(trie_bytes);
  size_t begin = 0;
  while (begin < map.replacements_.size()) {
    const size_t end = map.replacements_.find('\0', begin);
    if (end == std::string::npos) return Invalid("its last replacement has no end");
    if (end - begin > kMaxReplacement) return Invalid("a replacement is longer than 256 bytes");
    map.max_replacement_ = std::max(map.max_replacement_, end - begin);
    begin = end + 1;
  }
  return map;
}

// The replacement of the shortest entry that `stretch` begins with.
std::optional<std::string_view> PrecompiledCharsmap::Find(std::string_view stretch) const {
  size_t node = Offset(units_[0]);
  for (const char c : stretch) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) return std::nullopt;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) return std::nullopt;
    const uint32_t at = Value(units_[node]);
    if (at >= replacements_.size()) return std::nullopt;
    return std::string_view(replacements_.data() + at);
  }
  return std::nullopt;
}

void PrecompiledCharsmap::ApplyTo(std::string_view character, std::string& out) const {
  out.append(Find(character).value_or(character));
}

void PrecompiledCharsmap::Apply(std::string_view text, std::string& out, TextMarks& marks) const {
  for (size_t at = 0; at < text.size();) {
    marks.Reach(at, out.size());
    const size_t end = GraphemeEnd(text, at);
    const std::string_view cluster = text.substr(at, end - at);
    at = end;
    if (cluster.size() < kShortCluster) {
      if (const auto found = Find(cluster)) {
        out.append(*found);
        continue;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const size_t length = DecodeAt(cluster, i).length;
      ApplyTo(cluster.substr(i, length), out);
      i += length;
    }
  }
  marks.Reach(text.size(), out.size());
}

}  // namespace tutti::tokenizer
