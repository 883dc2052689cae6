#include "base/utf8.h"

#include <cstring>

#include "base/check.h"

namespace tutti {
namespace {

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Properties of a lead byte: the length of its character and the range of the second byte (table
// 3-7).
struct Lead {
  int length = 0;  // 0: no character begins so
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Lead LeadOf(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

// Number of bytes at `position` that form a character or its longest legal beginning. 0 if no
// character begins there.
int AgreeingBytes(std::string_view text, size_t position, int* expected) {
  const Lead lead = LeadOf(ByteAt(text, position));
  *expected = lead.length;
  if (lead.length <= 1) return lead.length;
  int count = 1;
  while (count < lead.length && position + static_cast<size_t>(count) < text.size()) {
    const unsigned char byte = ByteAt(text, position + static_cast<size_t>(count));
    const bool fits =
        count == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xBF;
    if (!fits) break;
    ++count;
  }
  return count;
}

}  // namespace

CodePoint DecodeMultibyte(std::string_view text, size_t position) {
  int expected = 0;
  const int length = AgreeingBytes(text, position, &expected);
  if (length == 0 || length < expected) return {kReplacementCharacter, 1, false};
  char32_t value = ByteAt(text, position) & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i) {
    value = (value << 6) | (ByteAt(text, position + static_cast<size_t>(i)) & 0x3F);
  }
  return {value, static_cast<uint8_t>(length), true};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t word = 0;
    if (text.size() - i >= sizeof word) {
      std::memcpy(&word, text.data() + i, sizeof word);
      if ((word & 0x8080808080808080U) == 0) {
        i += sizeof word;
        continue;
      }
    }
    const CodePoint next = DecodeAt(text, i);
    if (!next.valid) break;
    i += next.length;
  }
  return i;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    CHECK_LE(static_cast<uint32_t>(code_point), 0x10FFFFU);
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

void Utf8Repair::Push(std::string_view bytes, std::string& out) {
  size_t i = 0;
  // A held beginning is completed byte by byte; at most three steps.
  while (held_ > 0 && i < bytes.size()) {
    hold_[held_] = bytes[i];
    int expected = 0;
    const int agreeing = AgreeingBytes(std::string_view(hold_, held_ + 1U), 0, &expected);
    if (agreeing <= held_) {  // the new byte does not continue it and is looked at afresh
      out.append(kReplacementUtf8);
      held_ = 0;
      break;
    }
    ++held_;
    ++i;
    if (held_ == expected) {
      out.append(hold_, held_);
      held_ = 0;
    }
  }
  while (i < bytes.size()) {
    int expected = 0;
    const int agreeing = AgreeingBytes(bytes, i, &expected);
    const auto count = static_cast<size_t>(agreeing);
    if (agreeing > 0 && agreeing == expected) {
      out.append(bytes.substr(i, count));
    } else if (agreeing > 0 && i + count == bytes.size()) {  // may still become whole
      bytes.copy(hold_, count, i);
      held_ = static_cast<uint8_t>(count);
    } else {
      out.append(kReplacementUtf8);
    }
    i += agreeing > 0 ? count : 1;
  }
}

void Utf8Repair::Finish(std::string& out) {
  if (held_ > 0) out.append(kReplacementUtf8);
  held_ = 0;
}

}  // namespace tutti
