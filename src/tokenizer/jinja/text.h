// Text: a byte string that remembers, for every byte, who wrote it.
//
// A chat template and a client's message end up in one prompt, and only the template's part may
// hold control tokens. So every string operation of the template engine works on Text and keeps the
// origin of each range through concatenation, trimming, slicing and replacing.
//
// Bytes are UTF-8 by convention; invalid bytes are carried along and count as one character each.
// A value; const members are safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tokenizer::jinja {

enum class Origin : uint8_t {
  kTemplate,  // written by the template or the model file: control tokens in it are meant
  kClient,    // came in with the request: never parsed for control tokens
  kMark,      // where a continued message ends; cut out before the text is returned
};

class Text {
 public:
  struct Run {
    size_t end;  // one past the last byte
    Origin origin;
  };

  Text() = default;
  Text(std::string bytes, Origin origin);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool ascii() const { return ascii_; }  // then byte and character positions are the same

  // Exactly one origin for all bytes (true for the empty text).
  bool uniform() const { return runs_.empty(); }
  Origin OriginAt(size_t pos) const;  // pos < size(); O(log runs)
  // The runs in order, adjacent ones of different origin; empty for the empty text.
  std::vector<Run> Runs() const;
  // Heap bytes beyond the object itself, for the memory budget.
  size_t HeapBytes() const { return bytes_.size() + runs_.size() * sizeof(Run); }

  void Append(std::string_view bytes, Origin origin);
  void Append(const Text& other) { AppendRange(other, 0, other.size()); }
  // Bytes [begin, end) of `other`, begin <= end <= other.size(). `other` may not be *this.
  void AppendRange(const Text& other, size_t begin, size_t end);
  Text Slice(size_t begin, size_t end) const;

  // Jinja's "safe" text: joined by + with other text, it makes that text HTML-escaped. Kept by
  // Slice only.
  bool markup() const { return markup_; }
  void set_markup(bool markup) { markup_ = markup; }

  // Gives the template's bytes to the client if any byte is not the template's: for text such as
  // JSON, whose quotes and commas must not become more trusted than the values between them.
  void Demote();

 private:
  std::string bytes_;
  std::vector<Run> runs_;              // empty while one origin is enough
  Origin origin_ = Origin::kTemplate;  // of all bytes, when runs_ is empty
  bool ascii_ = true;
  bool markup_ = false;
};

}  // namespace tutti::tokenizer::jinja
