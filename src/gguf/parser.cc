#include "gguf/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/quote.h"
#include "base/utf8.h"

namespace tutti::gguf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are loaded as they lie in the file");

constexpr uint32_t kMagic = 0x46554747;       // "GGUF"
constexpr uint64_t kMinEntryBytes = 14;       // key of one byte, type, value of one byte
constexpr uint64_t kMinTensorInfoBytes = 33;  // name of one byte, one dimension

bool HasControl(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<uint8_t>(c) < 0x20 || static_cast<uint8_t>(c) == 0x7F;
  });
}

// Names a common wrong file by its first four bytes, such as " but a web page"; else "".
std::string_view LooksLike(std::string_view start) {
  constexpr struct {
    std::string_view start, what;
  } kKinds[] = {
      {"<!DO", " but a web page"},
      {"<!do", " but a web page"},
      {"<htm", " but a web page"},
      {"vers", " but the pointer that Git LFS leaves in place of one"},
      {"PK\x03\x04", " but a zip archive, as PyTorch writes them"},
      {"\x1f\x8b", " but compressed with gzip"},
      {"tjgg", " but one of its predecessors"},
      {"lmgg", " but one of its predecessors"},
      {"{", " but JSON"},
  };
  for (const auto& kind : kKinds) {
    if (start.starts_with(kind.start)) return kind.what;
  }
  return "";
}

}  // namespace

Status Parser::Run() {
  Status status = ParseAll();
  Seal();
  return status;
}

Status Parser::ParseAll() {
  RETURN_IF_ERROR(ParsePreamble());
  header_.entries_.reserve(std::min(key_count_, remaining() / kMinEntryBytes));
  for (uint64_t i = 0; i < key_count_; ++i) RETURN_IF_ERROR(ParseEntry());
  RETURN_IF_ERROR(IndexKeys());
  RETURN_IF_ERROR(ReadSpecialKeys());
  const uint64_t infos = std::min(tensor_count_, remaining() / kMinTensorInfoBytes);
  header_.tensors_.reserve(infos);
  name_at_.reserve(infos);
  for (uint64_t i = 0; i < tensor_count_; ++i) RETURN_IF_ERROR(ParseTensorInfo());
  RETURN_IF_ERROR(IndexNames());
  RETURN_IF_ERROR(CheckLayout());
  return std::move(unreadable_);
}

void Parser::Seal() {
  buffer_.TrimTo(at_);
  for (size_t i = 0; i < header_.tensors_.size(); ++i) {
    TensorInfo& info = header_.tensors_[i];
    info.name = Bytes(name_at_[i], info.name.size());
  }
}

Status Parser::Skip(uint64_t bytes) {
  if (bytes > remaining()) {
    return Refuse("gguf_truncated",
                  "the file ends at byte {}, but its header needs {} more bytes at byte {}: an "
                  "interrupted download?",
                  buffer_.file_bytes(), bytes, at_);
  }
  RETURN_IF_ERROR(buffer_.Require(at_ + bytes));
  at_ += bytes;
  return OkStatus();
}

Status Parser::ParsePreamble() {
  uint32_t magic = 0;
  if (const uint64_t size = buffer_.file_bytes(); size > 0 && size < sizeof(magic)) {
    RETURN_IF_ERROR(buffer_.Require(size));
    const std::string_view all = Bytes(0, size);
    if (!std::string_view("GGUF").starts_with(all))
      return Refuse("gguf_magic", "not a GGUF file: all it holds is {}", Quote(all));
  }
  RETURN_IF_ERROR(Read(&magic));
  if (magic != kMagic) {
    const std::string_view start = Bytes(0, 4);
    return Refuse("gguf_magic", "not a GGUF file{}: it begins with {}", LooksLike(start),
                  Quote(start));
  }
  uint32_t version = 0;
  RETURN_IF_ERROR(Read(&version));
  header_.version_ = version;
  if (version != 2 && version != 3) {
    const uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 3) {
      return InvalidArgument("gguf_endian",
                             "this is a big-endian GGUF; only little-endian files are read");
    }
    return Refuse("gguf_version", "GGUF version {}; versions 2 and 3 are read", version);
  }
  RETURN_IF_ERROR(Read(&tensor_count_));
  RETURN_IF_ERROR(Read(&key_count_));
  if (tensor_count_ > kMaxTensors) {
    return Refuse("gguf_limit", "{} tensors; at most {}", tensor_count_, kMaxTensors);
  }
  if (key_count_ > kMaxKeys) {
    return Refuse("gguf_limit", "{} metadata keys; at most {}", key_count_, kMaxKeys);
  }
  if (tensor_count_ == 0 && key_count_ == 0) {
    return InvalidArgument("gguf_truncated", "the file holds neither metadata nor tensors");
  }
  return OkStatus();
}

Status Parser::ParseEntry() {
  Header::EntryRecord record = {};
  uint64_t key_bytes = 0;
  RETURN_IF_ERROR(Read(&key_bytes));
  if (key_bytes > kMaxKeyBytes) {
    return Refuse("gguf_key", "metadata key {} has {} bytes; at most {}", header_.entries_.size(),
                  key_bytes, kMaxKeyBytes);
  }
  record.key_at = at_;
  RETURN_IF_ERROR(Skip(key_bytes));
  const std::string key(Bytes(record.key_at, key_bytes));
  if (key.empty() || HasControl(key) || !IsValidUtf8(key)) {
    return Refuse("gguf_key", "metadata key {} is {}", header_.entries_.size(),
                  key.empty() ? "empty" : "not plain UTF-8 text: " + Quote(key));
  }
  record.key_bytes = static_cast<uint32_t>(key_bytes);
  RETURN_IF_ERROR(ParseValue(key, &record));
  header_.entries_.push_back(record);
  return OkStatus();
}

Status Parser::ParseValue(std::string_view key, Header::EntryRecord* record) {
  uint32_t type = 0;
  RETURN_IF_ERROR(Read(&type));
  if (type >= kValueTypes) {
    return Refuse("gguf_type", "key {} has value type {}; types are 0 to {}", Quote(key), type,
                  kValueTypes - 1);
  }
  record->type = static_cast<ValueType>(type);
  record->element = record->type;
  record->count = 1;
  record->value_at = at_;
  switch (record->type) {
    case ValueType::kArray:
      RETURN_IF_ERROR(ParseArray(key, record));
      break;
    case ValueType::kString: {
      uint64_t length = 0;
      RETURN_IF_ERROR(Read(&length));
      if (length > kMaxStringBytes) {
        return Refuse("gguf_limit", "string of key {} has {} bytes; at most {}", Quote(key), length,
                      kMaxStringBytes);
      }
      RETURN_IF_ERROR(Skip(length));
      break;
    }
    default:
      RETURN_IF_ERROR(Skip(FixedBytes(record->type)));
      RETURN_IF_ERROR(record->type == ValueType::kBool ? CheckBools(key, record->value_at, 1)
                                                       : OkStatus());
  }
  record->value_bytes = at_ - record->value_at;
  return OkStatus();
}

Status Parser::ParseArray(std::string_view key, Header::EntryRecord* record) {
  uint32_t type = 0;
  RETURN_IF_ERROR(Read(&type));
  if (type >= kValueTypes || type == static_cast<uint32_t>(ValueType::kArray)) {
    return Refuse("gguf_type", "key {} is an array of {}", Quote(key),
                  type < kValueTypes ? "arrays; nesting is not read"
                                     : fmt::format("the unknown type {}", type));
  }
  record->element = static_cast<ValueType>(type);
  RETURN_IF_ERROR(Read(&record->count));
  if (record->count > kMaxArrayElements) {
    return Refuse("gguf_limit", "array of key {} has {} elements; at most {}", Quote(key),
                  record->count, kMaxArrayElements);
  }
  record->value_at = at_;
  if (record->element != ValueType::kString) {
    RETURN_IF_ERROR(Skip(record->count * FixedBytes(record->element)));
    return record->element == ValueType::kBool ? CheckBools(key, record->value_at, record->count)
                                               : OkStatus();
  }
  if (record->count * sizeof(uint64_t) > remaining()) {
    return Refuse("gguf_truncated", "array of key {} has {} strings, but {} bytes remain",
                  Quote(key), record->count, remaining());
  }
  for (uint64_t i = 0; i < record->count; ++i) {
    uint64_t length = 0;
    RETURN_IF_ERROR(Read(&length));
    if (length > kMaxStringBytes) {
      return Refuse("gguf_limit", "string {} of key {} has {} bytes; at most {}", i, Quote(key),
                    length, kMaxStringBytes);
    }
    RETURN_IF_ERROR(Skip(length));
  }
  return OkStatus();
}

Status Parser::CheckBools(std::string_view key, uint64_t at, uint64_t count) const {
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t value = LoadUnaligned<uint8_t>(buffer_.data() + at + i);
    if (value > 1) {
      return Refuse("gguf_type", "key {} holds the bool {}; bools are 0 or 1", Quote(key), value);
    }
  }
  return OkStatus();
}

Status Parser::IndexKeys() {
  auto& sorted = header_.keys_sorted_;
  sorted.resize(header_.entries_.size());
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<uint32_t>(i);
  const auto key = [&](uint32_t i) { return header_.KeyOf(header_.entries_[i]); };
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end(),
                                       [&](uint32_t a, uint32_t b) { return key(a) == key(b); });
  if (twin == sorted.end()) return OkStatus();
  return Refuse("gguf_duplicate", "metadata key {} appears twice", Quote(key(*twin)));
}

}  // namespace tutti::gguf
