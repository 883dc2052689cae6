// Parser: one pass over a GGUF's header that fills a Header or returns the file's first fault.
//
// Every byte is hostile until checked: lengths are compared with their caps first and with the
// bytes that remain second, so that no sum can wrap; sizes are computed in 128 bits. Uses O(header)
// memory and O(n log n) time. Lives for one call on one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/header.h"

namespace tutti::gguf {

class Parser {
 public:
  explicit Parser(Header* header) : header_(*header), buffer_(header->buffer_) {}
  // The header is consistent afterwards even when this fails: views point at what was read.
  Status Run();

 private:
  Status ParseAll();
  Status ParsePreamble();
  Status ParseEntry();
  Status ParseValue(std::string_view key, Header::EntryRecord* record);
  Status ParseArray(std::string_view key, Header::EntryRecord* record);
  Status CheckBools(std::string_view key, uint64_t at, uint64_t count) const;
  Status IndexKeys();
  Status ReadSpecialKeys();  // general.alignment, general.quantization_version
  Status ParseTensorInfo();
  Status ParseExtents(const std::string& name, TensorInfo* info);
  Status ParseSize(const std::string& name, TensorInfo* info);
  Status IndexNames();
  Status CheckLayout();
  void Seal();

  uint64_t remaining() const { return buffer_.file_bytes() - at_; }
  template <typename T>
  Status Read(T* value) {  // a number at the cursor
    RETURN_IF_ERROR(Skip(sizeof(T)));
    *value = LoadUnaligned<T>(buffer_.data() + at_ - sizeof(T));
    return OkStatus();
  }
  // Moves the cursor over `bytes` bytes, which are loaded then.
  Status Skip(uint64_t bytes);
  std::string_view Bytes(uint64_t at, uint64_t length) const {
    return {reinterpret_cast<const char*>(buffer_.data()) + at, static_cast<size_t>(length)};
  }

  Header& header_;
  HeaderBuffer& buffer_;
  uint64_t at_ = 0;  // cursor; never beyond the file
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  std::vector<uint64_t> name_at_;  // of each tensor parsed; the length is in its info's name
  bool quantized_ = false;
  Status unreadable_;  // the first tensor of a type we know but cannot compute with
};

}  // namespace tutti::gguf
