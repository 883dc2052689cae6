#include "gguf/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/quote.h"
#include "files/source.h"
#include "gguf/file.h"
#include "gguf/metadata.h"

namespace tutti::gguf {
namespace {

std::string Escaped(std::string_view text) {
  const std::string quoted = Quote(text, text.size());
  return quoted.substr(1, quoted.size() - 2);
}

std::string TensorTypeName(uint32_t id) {
  const tensor::DTypeInfo* info = tensor::FindTypeInfo(id);
  return info != nullptr ? std::string(info->name) : fmt::format("type {}", id);
}

MetadataLine Line(const Entry& entry) {
  constexpr size_t kMaxValueBytes = 80;
  const Value& value = entry.value;
  std::string type = value.is_array() ? fmt::format("array of {}", TypeName(value.element))
                                      : std::string(TypeName(value.type));
  return {Escaped(entry.key), std::move(type), value.count, RenderValue(value, kMaxValueBytes)};
}

TensorLine Line(const TensorInfo& tensor) {
  return {Escaped(tensor.name),
          TensorTypeName(tensor.type_id),
          {tensor.shape.ne.begin(), tensor.shape.ne.begin() + tensor.shape.dims},
          tensor.file_offset,
          tensor.bytes};
}

std::vector<TypeTotal> Totals(std::span<const TensorInfo> tensors) {
  std::map<uint32_t, TypeTotal> by_type;
  for (const TensorInfo& tensor : tensors) {
    TypeTotal& total = by_type[tensor.type_id];
    total.type = TensorTypeName(tensor.type_id);
    ++total.tensors;
    total.elements += static_cast<uint64_t>(tensor.shape.elements());
    total.bytes += tensor.bytes;
  }
  std::vector<TypeTotal> totals;
  for (auto& [id, total] : by_type) totals.push_back(std::move(total));
  std::stable_sort(totals.begin(), totals.end(),
                   [](const TypeTotal& a, const TypeTotal& b) { return a.bytes > b.bytes; });
  return totals;
}

void Fill(const Header& header, Description* out) {
  out->file_bytes = header.file_bytes();
  out->version = header.version();
  out->alignment = header.alignment();
  out->data_offset = header.data_offset();
  out->unread_bytes = header.unread_bytes();
  out->file_type = FileTypeName(header);
  for (size_t i = 0; i < header.entry_count(); ++i) out->metadata.push_back(Line(header.entry(i)));
  for (const TensorInfo& tensor : header.tensors()) out->tensors.push_back(Line(tensor));
  out->types = Totals(header.tensors());
  for (const TypeTotal& total : out->types) out->parameters += total.elements;
}

Status ScanData(const File& file) {
  for (const TensorInfo& tensor : file.tensors()) RETURN_IF_ERROR(file.CheckFinite(tensor));
  return file.CheckUnchanged();
}

}  // namespace

Description Describe(const std::string& path) {
  Description out;
  Result<std::shared_ptr<const files::Source>> source = files::OpenSource(path, "", kTruncated);
  if (!source.ok()) {
    out.verdict = source.status();
    return out;
  }
  // A File exists only for valid headers; an invalid one is parsed again, up to its first fault.
  Result<std::shared_ptr<const File>> file = File::Open(path);
  if (file.ok()) {
    Fill((*file)->header(), &out);
    out.verdict = ScanData(**file);
    return out;
  }
  Header partial;
  out.verdict = Header::Parse(*source, &partial);
  if (out.verdict.ok()) out.verdict = file.status();  // the file changed in between
  Fill(partial, &out);
  return out;
}

}  // namespace tutti::gguf
