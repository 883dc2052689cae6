// HeaderParser: the rules of the format, applied to a header's JSON while it passes by. Private to
// Header.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "safetensors/header.h"
#include "safetensors/json_stream.h"

namespace tutti::safetensors {

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

}  // namespace tutti::safetensors
