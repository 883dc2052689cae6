#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "safetensors/header.h"
#include "safetensors/json_stream.h"

namespace tutti::safetensors {
namespace {

using Wide = unsigned __int128;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kShortestJson = 2;  // {}
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kMaxElements = std::numeric_limits<int64_t>::max();

// Names a common wrong file by its first bytes; pickles are only named, never read.
std::string_view LooksLike(std::string_view start) {
  if (start.starts_with("PK\x03\x04")) return "; this is a zip archive, perhaps of PyTorch";
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return "; this is a pickle, which is never loaded";
  }
  if (start.starts_with("GGUF")) return "; this is a GGUF file";
  if (start.starts_with("version ")) return "; this is a Git LFS pointer, not the file itself";
  if (start.starts_with("<!") || start.starts_with("<h")) return "; this is a web page";
  if (start.starts_with("{")) return "; this is JSON without the length before it";
  return "";
}

}  // namespace

// The rules of the format, applied to a header's JSON while it passes by.
class HeaderParser final : public JsonEvents {
 public:
  HeaderParser(const files::Source& source, Header* header) : source_(source), header_(*header) {}
  Status Run(size_t chunk);

 private:
  enum class Level { kOutside, kRoot, kMetadata, kEntry, kShape, kOffsets };
  enum class Field { kNone, kDType, kShape, kOffsets };

  Status OnObjectBegin() override;
  Status OnObjectEnd() override;
  Status OnArrayBegin() override;
  Status OnArrayEnd() override;
  Status OnKey(std::string key) override;
  Status OnString(std::string text) override;
  Status OnUint(uint64_t number) override;
  Status OnOther() override { return Misplaced(); }

  Status CheckLength();  // of the header, from the file's first bytes
  Status Misplaced() const;
  Status StartMember(std::string key);
  Status StartField(std::string_view key);
  Status FinishTensor();
  Status SortMetadata();
  Status IndexNames();
  Status CheckLayout() const;

  const files::Source& source_;
  Header& header_;
  uint64_t length_ = 0;  // of the JSON
  Level level_ = Level::kOutside;
  bool metadata_seen_ = false;
  std::string key_;  // last of the root or of the metadata

  // The tensor that is being read.
  Field field_ = Field::kNone;
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  std::optional<std::vector<uint64_t>> offsets_;
};

Result<Header> Header::Parse(const files::Source& source, size_t chunk) {
  Header header;
  RETURN_IF_ERROR(HeaderParser(source, &header).Run(chunk));
  return header;
}

Status HeaderParser::Run(size_t chunk) {
  RETURN_IF_ERROR(CheckLength());
  header_.data_offset_ = kLengthBytes + length_;
  RETURN_IF_ERROR(StreamJson(source_, kLengthBytes, length_, this, chunk));
  RETURN_IF_ERROR(SortMetadata());
  auto& tensors = header_.tensors_;
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.file_offset, a.bytes, a.name) < std::tie(b.file_offset, b.bytes, b.name);
  });
  RETURN_IF_ERROR(IndexNames());
  return CheckLayout();
}

Status HeaderParser::CheckLength() {
  std::array<char, kLengthBytes> start = {};
  const uint64_t file_bytes = source_.size();
  const auto size = static_cast<size_t>(std::min(file_bytes, kLengthBytes));
  RETURN_IF_ERROR(source_.ReadAt(0, std::as_writable_bytes(std::span(start.data(), size))));
  const std::string_view hint = LooksLike({start.data(), size});
  if (size < kLengthBytes) {
    return Refuse("st_header", "the file has {} bytes, too few for the length of a header{}",
                  file_bytes, hint);
  }
  std::memcpy(&length_, start.data(), sizeof(length_));
  if (length_ < kShortestJson || length_ > kMaxHeaderBytes) {
    return Refuse("st_header", "the header would have {} bytes; {} to {} are legal{}", length_,
                  kShortestJson, kMaxHeaderBytes, hint);
  }
  if (length_ > file_bytes - kLengthBytes) {
    return Refuse(
        "st_header",
        "the header has {} bytes, the file has only {} behind its length: an interrupted download?",
        length_, file_bytes - kLengthBytes);
  }
  char first = 0;
  RETURN_IF_ERROR(source_.ReadAt(kLengthBytes, std::as_writable_bytes(std::span(&first, 1))));
  if (first != '{') return InvalidArgument("st_json", "the header does not begin with {");
  return OkStatus();
}

// ---- The shape of the JSON

Status HeaderParser::OnObjectBegin() {
  if (level_ == Level::kOutside) {
    level_ = Level::kRoot;
    return OkStatus();
  }
  if (level_ != Level::kRoot) return Misplaced();
  level_ = key_ == kMetadataKey ? Level::kMetadata : Level::kEntry;
  field_ = Field::kNone;
  dtype_.reset();
  shape_.reset();
  offsets_.reset();
  return OkStatus();
}

Status HeaderParser::OnObjectEnd() {
  if (level_ == Level::kEntry) RETURN_IF_ERROR(FinishTensor());
  level_ = level_ == Level::kRoot ? Level::kOutside : Level::kRoot;
  return OkStatus();
}

Status HeaderParser::OnArrayBegin() {
  if (level_ != Level::kEntry) return Misplaced();
  if (field_ == Field::kShape) {
    level_ = Level::kShape;
    shape_.emplace();
    return OkStatus();
  }
  if (field_ == Field::kOffsets) {
    level_ = Level::kOffsets;
    offsets_.emplace();
    return OkStatus();
  }
  return Misplaced();
}

Status HeaderParser::OnArrayEnd() {
  level_ = Level::kEntry;
  return OkStatus();
}

Status HeaderParser::OnKey(std::string key) {
  if (level_ == Level::kRoot) return StartMember(std::move(key));
  if (level_ == Level::kEntry) return StartField(key);
  key_ = std::move(key);
  return OkStatus();
}

Status HeaderParser::StartMember(std::string key) {
  if (key == kMetadataKey) {
    if (metadata_seen_) return InvalidArgument("st_duplicate", "\"__metadata__\" appears twice");
    metadata_seen_ = true;
  } else if (key.size() > kMaxNameBytes) {
    return Refuse("st_header", "a tensor's name has {} bytes; at most {}: {}", key.size(),
                  kMaxNameBytes, Quote(key));
  } else if (header_.tensors_.size() == kMaxTensors) {
    return Refuse("st_header", "more than {} tensors", kMaxTensors);
  }
  key_ = std::move(key);
  return OkStatus();
}

Status HeaderParser::StartField(std::string_view key) {
  const bool twice = (key == "dtype" && dtype_) || (key == "shape" && shape_) ||
                     (key == "data_offsets" && offsets_);
  if (twice) {
    return Refuse("st_duplicate", "tensor {} has two {}", Quote(key_), Quote(key));
  }
  if (key == "dtype") {
    field_ = Field::kDType;
  } else if (key == "shape") {
    field_ = Field::kShape;
  } else if (key == "data_offsets") {
    field_ = Field::kOffsets;
  } else {
    return Refuse("st_json", "tensor {} has the unknown field {}", Quote(key_), Quote(key));
  }
  return OkStatus();
}

Status HeaderParser::OnString(std::string text) {
  if (level_ == Level::kMetadata) {
    if (header_.metadata_.size() == kMaxMetadataEntries) {
      return Refuse("st_metadata", "more than {} entries", kMaxMetadataEntries);
    }
    header_.metadata_.push_back({std::move(key_), std::move(text)});
    return OkStatus();
  }
  if (level_ != Level::kEntry || field_ != Field::kDType) return Misplaced();
  const DType* dtype = FindDType(text);
  if (dtype == nullptr) {
    return Refuse("st_shape", "tensor {} has the unknown type {}", Quote(key_), Quote(text));
  }
  dtype_ = *dtype;
  return OkStatus();
}

Status HeaderParser::OnUint(uint64_t number) {
  if (level_ == Level::kShape) {
    if (shape_->rank == kMaxRank) {
      return Refuse("st_shape", "tensor {} has more than {} dimensions", Quote(key_), kMaxRank);
    }
    if (number > kMaxJsonInteger) {
      return Refuse("st_shape", "dimension {} of tensor {} is {}", shape_->rank, Quote(key_),
                    number);
    }
    shape_->extents[static_cast<size_t>(shape_->rank++)] = static_cast<int64_t>(number);
    return OkStatus();
  }
  if (level_ == Level::kOffsets) {
    if (number > kMaxJsonInteger || offsets_->size() == 2) return Misplaced();
    offsets_->push_back(number);
    return OkStatus();
  }
  return Misplaced();
}

// Error for a value of a type that the format does not allow at this place.
Status HeaderParser::Misplaced() const {
  const std::string name = Quote(key_);
  switch (level_) {
    case Level::kOutside:
      return InvalidArgument("st_json", "the header is no JSON object");
    case Level::kRoot:
      if (key_ == kMetadataKey)
        return InvalidArgument("st_metadata", "\"__metadata__\" is no object");
      return Refuse("st_json", "the entry of tensor {} is no object", name);
    case Level::kMetadata:
      return Refuse("st_metadata", "the value of {} is no string", name);
    case Level::kShape:
      return Refuse("st_shape", "the shape of tensor {} holds something other than whole numbers",
                    name);
    case Level::kOffsets:
      break;
    case Level::kEntry:
      if (field_ == Field::kDType) {
        return Refuse("st_shape", "the dtype of tensor {} is no string", name);
      }
      if (field_ == Field::kShape) {
        return Refuse("st_shape", "the shape of tensor {} is no list", name);
      }
      break;
  }
  return Refuse("st_offsets", "the data_offsets of tensor {} are not two whole numbers up to 2^53",
                name);
}

// ---- What it means

Status HeaderParser::FinishTensor() {
  const std::string name = Quote(key_);
  if (!dtype_) return Refuse("st_shape", "tensor {} has no dtype", name);
  if (!shape_) return Refuse("st_shape", "tensor {} has no shape", name);
  if (!offsets_) return Refuse("st_offsets", "tensor {} has no data_offsets", name);
  if (offsets_->size() != 2) return Refuse("st_offsets", "tensor {} has no end", name);
  const uint64_t begin = offsets_->front();
  const uint64_t end = offsets_->back();
  if (begin > end) {
    return Refuse("st_offsets", "tensor {} begins at offset {} and ends at {}", name, begin, end);
  }
  Wide product = 1;  // of the dimensions that are not 0, so that strides cannot overflow either
  for (const int64_t extent : shape_->dims()) {
    product *= static_cast<Wide>(std::max<int64_t>(extent, 1));  // below 2^63 and 2^54
    if (product > kMaxElements) {
      return Refuse("st_shape", "tensor {} of shape {} has more than 2^63 elements", name,
                    shape_->ToString());
    }
  }
  const Wide bits = static_cast<Wide>(shape_->elements()) * Info(*dtype_).bits;
  if (bits != static_cast<Wide>(end - begin) * 8) {
    return Refuse("st_shape",
                  "tensor {} of type {} and shape {} does not have the {} bytes it is given", name,
                  Name(*dtype_), shape_->ToString(), end - begin);
  }
  header_.tensors_.push_back(
      {std::move(key_), *dtype_, *shape_, header_.data_offset_ + begin, end - begin});
  return OkStatus();
}

Status HeaderParser::SortMetadata() {
  auto& entries = header_.metadata_;
  std::sort(entries.begin(), entries.end(),
            [](const MetadataEntry& a, const MetadataEntry& b) { return a.key < b.key; });
  const auto twin = std::adjacent_find(
      entries.begin(), entries.end(),
      [](const MetadataEntry& a, const MetadataEntry& b) { return a.key == b.key; });
  if (twin == entries.end()) return OkStatus();
  return Refuse("st_duplicate", "the metadata name {} twice", Quote(twin->key));
}

Status HeaderParser::IndexNames() {
  const TensorInfo* const twin = header_.names_.Build(header_.tensors_);
  if (twin == nullptr) return OkStatus();
  return Refuse("st_duplicate", "tensor {} appears twice", Quote(twin->name));
}

// Checks that tensors cover the data. Tensors without elements may be at any border between others.
Status HeaderParser::CheckLayout() const {
  const uint64_t file_bytes = source_.size();
  uint64_t expected = header_.data_offset_;
  for (const TensorInfo& info : header_.tensors_) {
    if (info.file_offset != expected) {
      return Refuse("st_offsets", "tensor {} begins at byte {}, the tensors before it end at {}",
                    Quote(info.name), info.file_offset, expected);
    }
    expected = info.file_offset + info.bytes;  // below 2^54 each
    if (expected > file_bytes) {
      return Refuse("st_offsets",
                    "tensor {} ends at byte {}, the file at {}: an interrupted download?",
                    Quote(info.name), expected, file_bytes);
    }
  }
  if (expected == file_bytes) return OkStatus();
  return Refuse("st_offsets", "the tensors end at byte {}, the file at {}", expected, file_bytes);
}

}  // namespace tutti::safetensors
