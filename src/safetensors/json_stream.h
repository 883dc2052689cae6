// StreamJson: parses strict JSON (RFC 8259) from a file into events, without a tree or a copy of
// the text.
//
// Headers may have 32 MiB, and their memory is limited to little more than their contents, so they
// are parsed piece by piece, and only what the receiver stores remains. Nesting is at most
// kMaxJsonDepth, which also bounds the stack. The receiver must detect equal keys of one object.
// One call, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "files/source.h"

namespace tutti::safetensors {

inline constexpr size_t kMaxJsonDepth = 32;
inline constexpr size_t kJsonChunk = 64 * 1024;

// Receives a document's events in order. A Status that is not OK ends the parsing and is its
// result.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status OnObjectBegin() = 0;
  virtual Status OnObjectEnd() = 0;
  virtual Status OnArrayBegin() = 0;
  virtual Status OnArrayEnd() = 0;
  virtual Status OnKey(std::string key) = 0;  // well-formed UTF-8, as is the text of a string
  virtual Status OnString(std::string text) = 0;
  virtual Status OnUint(uint64_t number) = 0;  // only digits, at most 2^64 - 1
  virtual Status OnOther() = 0;                // any other number, true, false, null
};

// Parses the `length` bytes from `offset`: one JSON value, blanks around it. Errors: st_json for
// invalid JSON, the error that `events` returned, or the codes of ReadAt. `chunk` is how much is
// read at once; it changes no result.
Status StreamJson(const files::Source& source, uint64_t offset, uint64_t length, JsonEvents* events,
                  size_t chunk = kJsonChunk);

}  // namespace tutti::safetensors
