#include "gguf/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "gguf/header_writer.h"
#include "gguf/metadata.h"

namespace tutti::gguf {
namespace {

template <typename... Args>
Status Bad(fmt::format_string<Args...> format, Args&&... args) {
  return Refuse("gguf_split", format, std::forward<Args>(args)...);
}

// For messages, which name no folder.
std::string NameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return Quote(slash == std::string_view::npos ? path : path.substr(slash + 1), 255);
}

// Reads the header from memory and tensors from the parts.
class JoinedSource final : public ComposedSource {
 public:
  struct Piece {
    std::shared_ptr<const files::Source> part;
    uint64_t offset;  // of the tensor in the part
  };

  // `parts`: all of them, those without tensors too. `pieces`, `tensor_bytes`: one for each tensor.
  JoinedSource(std::vector<std::byte> header, std::span<const uint64_t> tensor_bytes,
               uint64_t alignment, std::vector<Piece> pieces,
               std::vector<std::shared_ptr<const files::Source>> parts)
      : ComposedSource(std::move(header), tensor_bytes, alignment),
        pieces_(std::move(pieces)),
        parts_(std::move(parts)) {}

  Status CheckUnchanged() const override {
    for (const auto& part : parts_) RETURN_IF_ERROR(part->CheckUnchanged());
    return OkStatus();
  }

 private:
  Status ReadTensor(size_t index, uint64_t offset, std::span<std::byte> out) const override {
    return pieces_[index].part->ReadAt(pieces_[index].offset + offset, out);
  }

  const std::vector<Piece> pieces_;
  const std::vector<std::shared_ptr<const files::Source>> parts_;
};

struct Part {
  std::shared_ptr<const files::Source> source;
  Header header;
};

Result<Part> OpenPart(const std::string& path, const std::string& root, uint64_t number,
                      uint64_t count) {
  Part part;
  auto source = files::OpenSource(path, root, kTruncated);
  if (!source.ok() && source.status().reason() == "model_not_found") {
    return Bad("part {} of {} is missing: {} must be in the folder of the first", number, count,
               NameOf(path));
  }
  if (!source.ok()) return std::move(source).status().WithContext(NameOf(path));
  part.source = *std::move(source);
  Status status = Header::Parse(part.source, &part.header);
  if (!status.ok()) return std::move(status).WithContext(NameOf(path));
  ASSIGN_OR_RETURN(const uint64_t said, GetUintOr(part.header, "split.count", 0));
  ASSIGN_OR_RETURN(const uint64_t no, GetUintOr(part.header, "split.no", 0));
  if (said != count || no + 1 != number) {
    return Bad("{} is part {} of {} by its keys, not part {} of {}", NameOf(path), no + 1, said,
               number, count);
  }
  return part;
}

}  // namespace

Result<uint64_t> SplitCount(const Header& header) {
  ASSIGN_OR_RETURN(const uint64_t count, GetUintOr(header, "split.count", 1));
  return std::max<uint64_t>(count, 1);
}

std::optional<std::string> SplitPath(std::string_view path, uint64_t part, uint64_t count) {
  constexpr std::string_view kEnd = ".gguf";
  const std::string of = fmt::format("-of-{:05}", count);
  if (!path.ends_with(of + std::string(kEnd))) return std::nullopt;
  std::string_view stem = path.substr(0, path.size() - of.size() - kEnd.size());
  constexpr size_t kNumber = 6;  // "-00001"
  if (stem.size() < kNumber) return std::nullopt;
  const std::string_view number = stem.substr(stem.size() - kNumber);
  if (number[0] != '-' ||
      !std::all_of(number.begin() + 1, number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return fmt::format("{}-{:05}{}{}", stem.substr(0, stem.size() - kNumber), part, of, kEnd);
}

Result<std::shared_ptr<const files::Source>> OpenSplit(const std::string& path,
                                                       const std::string& root,
                                                       std::shared_ptr<const files::Source> first,
                                                       const Header& header) {
  ASSIGN_OR_RETURN(const uint64_t count, SplitCount(header));
  ASSIGN_OR_RETURN(const uint64_t no, GetUintOr(header, "split.no", 0));
  if (count > kMaxSplitParts)
    return Bad("the model is split in {} parts; at most {}", count, kMaxSplitParts);
  const std::optional<std::string> start = SplitPath(path, 1, count);
  if (!start) {
    return Bad("this is part {} of {} of a split model: its name must end in -{:05}-of-{:05}.gguf",
               no + 1, count, no + 1, count);
  }
  if (no != 0) {
    return Bad("this is part {} of {} of a split model: open the first, {}", no + 1, count,
               NameOf(*start));
  }
  if (*start != path) {
    return Bad("this is part 1 of {} by its keys and must be called {}", count, NameOf(*start));
  }

  HeaderWriter writer;
  for (size_t i = 0; i < header.entry_count(); ++i) {
    const Entry entry = header.entry(i);
    if (!entry.key.starts_with("split.")) writer.Copy(entry);
  }
  std::vector<JoinedSource::Piece> pieces;
  std::vector<uint64_t> tensor_bytes;
  std::vector<std::shared_ptr<const files::Source>> sources;
  const auto add = [&](const Header& part, const std::shared_ptr<const files::Source>& source) {
    sources.push_back(source);
    for (const TensorInfo& tensor : part.tensors()) {
      writer.Tensor(tensor.name, tensor.dtype(), tensor.shape, tensor.bytes);
      pieces.push_back({source, tensor.file_offset});
      tensor_bytes.push_back(tensor.bytes);
    }
  };
  add(header, first);
  std::vector<Part> parts;  // names of tensors are views of their headers
  parts.reserve(static_cast<size_t>(count));
  for (uint64_t number = 2; number <= count; ++number) {
    ASSIGN_OR_RETURN(Part part, OpenPart(*SplitPath(path, number, count), root, number, count));
    parts.push_back(std::move(part));
    add(parts.back().header, parts.back().source);
    if (pieces.size() > kMaxTensors)
      return Refuse("gguf_limit", "more than {} tensors", kMaxTensors);
  }
  ASSIGN_OR_RETURN(const uint64_t tensors, GetUintOr(header, "split.tensors.count", pieces.size()));
  if (tensors != pieces.size()) {
    return Bad("the {} parts hold {} tensors, the model has {}", count, pieces.size(), tensors);
  }
  const uint64_t alignment = header.alignment();
  return std::shared_ptr<const files::Source>(std::make_shared<JoinedSource>(
      writer.Build(alignment), tensor_bytes, alignment, std::move(pieces), std::move(sources)));
}

}  // namespace tutti::gguf
