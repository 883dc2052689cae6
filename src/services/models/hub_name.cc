#include "services/models/hub_name.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace tutti::models {
namespace {

constexpr size_t kMaxPartBytes = 96;  // as the hub's own rule
constexpr size_t kMaxQuantBytes = 96;
constexpr size_t kMaxRevisionBytes = 200;  // it becomes the path of a file in refs/

bool IsNameChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-' || c == '.';
}

bool IsNameText(std::string_view text, size_t max_bytes) {
  return !text.empty() && text.size() <= max_bytes &&
         std::all_of(text.begin(), text.end(), IsNameChar);
}

// ORG or NAME. "--" separates them in the names of the cache's folders.
bool IsRepositoryPart(std::string_view part) {
  if (part == "hf.co" || part == "huggingface.co") return false;  // an address twice
  const auto border = [](char c) { return c == '-' || c == '.'; };
  return IsNameText(part, kMaxPartBytes) && !border(part.front()) && !border(part.back()) &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

bool IsRevision(std::string_view text) {
  return IsSafeRelativePath(text) && text.size() <= kMaxRevisionBytes &&
         text.find(':') == std::string_view::npos;
}

// Removes the address of the public hub, which people paste with a name.
std::string_view WithoutHost(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("https://")) rest.remove_prefix(8);
  for (const std::string_view host : {"hf.co/", "huggingface.co/"}) {
    if (rest.starts_with(host)) return rest.substr(host.size());
  }
  return text;
}

// Reads the address of a file's page on the public hub, as people paste it:
// ORG/NAME/blob/REVISION/FOLDER/FILE.gguf. Of a split file any part stands for all. Nothing for
// another text.
std::optional<HubName> ReadFileAddress(std::string_view text) {
  text = text.substr(0, text.find_first_of("?#"));
  const std::vector<std::string_view> parts = SplitAt(text, '/');
  if (parts.size() < 5 || (parts[2] != "blob" && parts[2] != "resolve")) return std::nullopt;
  std::string_view stem = parts.back();
  if (!stem.ends_with(".gguf")) return std::nullopt;
  stem.remove_suffix(5);
  if (const auto split = ReadSplitStem(stem)) stem = split->stem;
  HubName name;
  name.repository = std::string(parts[0]) + "/" + std::string(parts[1]);
  name.quant = std::string(stem);
  if (parts[3] != kMainRevision) name.revision = std::string(parts[3]);
  if (!IsRepositoryPart(parts[0]) || !IsRepositoryPart(parts[1]) ||
      !IsNameText(stem, kMaxQuantBytes) || !IsRevision(parts[3]))
    return std::nullopt;
  return name;
}

}  // namespace

std::string HubName::ServedName() const {
  return quant.empty() ? repository : repository + ":" + quant;
}

std::string HubName::ToString() const {
  return revision.empty() ? ServedName() : ServedName() + "@" + revision;
}

std::optional<SplitStem> ReadSplitStem(std::string_view stem) {
  constexpr size_t kTail = 15;  // "-00002-of-00003"
  if (stem.size() <= kTail) return std::nullopt;
  const std::string_view tail = stem.substr(stem.size() - kTail);
  const auto part = ParseNumber<uint32_t>(tail.substr(1, 5));
  const auto count = ParseNumber<uint32_t>(tail.substr(10));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !part.has_value() || !count.has_value())
    return std::nullopt;
  return SplitStem{stem.substr(0, stem.size() - kTail), *count};
}

bool IsCommitHash(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsSafeRelativePath(std::string_view text) {
  if (text.empty() || text.size() > 1024 || text.front() == '/' || text.back() == '/') return false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint next = DecodeAt(text, at);
    if (!next.valid || next.code_point < 0x20 || next.code_point == 0x7F || next.code_point == '\\')
      return false;
    at += next.length;
  }
  if (text.find("//") != std::string_view::npos) return false;
  for (const std::string_view part : SplitAt(text, '/')) {
    if (part == "." || part == ".." || part.size() > 255) return false;
  }
  return true;
}

Result<HubName> ParseHubName(std::string_view text) {
  const std::string typed = Quote(text, 128);
  const std::string_view pasted = text;
  text = WithoutHost(text);
  const bool from_address = text.size() != pasted.size();
  while (from_address && text.ends_with('/')) text.remove_suffix(1);
  if (from_address) {
    if (std::optional<HubName> file = ReadFileAddress(text); file.has_value()) return *file;
  }
  HubName name;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = std::string(text.substr(at + 1));
    text = text.substr(0, at);
    if (!IsRevision(name.revision)) {
      return InvalidArgument("invalid_value",
                             "the revision of " + typed + " must be a branch, tag or commit hash");
    }
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.quant = std::string(text.substr(colon + 1));
    text = text.substr(0, colon);
    if (!IsNameText(name.quant, kMaxQuantBytes)) {
      return InvalidArgument("invalid_value",
                             "the part behind the colon of " + typed + " must be like Q4_K_M");
    }
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || !IsRepositoryPart(text.substr(0, slash)) ||
      !IsRepositoryPart(text.substr(slash + 1)) || text.ends_with(".git") ||
      text.ends_with(".gguf")) {
    return InvalidArgument(
        "invalid_value",
        typed + " is not the name of a model on a hub; give ORG/NAME[:QUANT][@REVISION]");
  }
  name.repository = std::string(text);
  return name;
}

}  // namespace tutti::models
