#include "tokenizer/jinja/string_ops.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

// Calls visit(text, origin) for each run.
template <typename Visit>
void ForEachRun(const Text& text, const Visit& visit) {
  size_t at = 0;
  for (const Text::Run& run : text.Runs()) {
    visit(std::string_view(text.bytes()).substr(at, run.end - at), run.origin);
    at = run.end;
  }
}

// Character by character: title, capitalize and swapcase look at more than one character or change
// both ways.
Text ChangeEach(const Text& text, CaseChange change) {
  Text out;
  bool previous_cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeAt(text.bytes(), pos);
    const std::string_view original = std::string_view(text.bytes()).substr(pos, c.length);
    const bool start = change == CaseChange::kCapitalize ? pos == 0 : !previous_cased;
    std::string changed;
    if (change == CaseChange::kSwap) {
      changed = IsUpper(c.code_point) ? ToLower(original) : ToUpper(original);
    } else if (start) {
      AppendUtf8(ToTitle(c.code_point), changed);
      if (c.code_point == 0xFFFD) changed = original;
    } else {
      changed = ToLower(original);
    }
    out.Append(changed, text.OriginAt(pos));
    previous_cased = IsCased(c.code_point);
    pos += c.length;
  }
  return out;
}

// The pieces of a split, made into a list.
class Pieces {
 public:
  Pieces(Runtime& rt, const Text& text) : rt_(rt), text_(text) {}
  bool Add(size_t begin, size_t end) {
    pieces_.push_back(rt_.NewString(text_.Slice(begin, end)));
    return !rt_.failed();
  }
  Value List(bool reversed, bool tuple = false) {
    if (rt_.failed()) return Value();
    if (reversed) std::reverse(pieces_.begin(), pieces_.end());
    return rt_.NewList(std::move(pieces_), tuple);
  }

 private:
  Runtime& rt_;
  const Text& text_;
  std::vector<Value> pieces_;
};

// rfind compares at every place; the needles of templates are short, and this pays for the product.
bool PayForRfind(Runtime& rt, const Text& text, const Text& needle) {
  return rt.SpendBytes(text.size()) &&
         rt.Spend(text.size() * std::min<size_t>(needle.size(), 4096) / 256);
}

Value SplitSpaces(Runtime& rt, const Text& text, int64_t limit, bool from_right) {
  const std::string& bytes = text.bytes();
  Pieces pieces(rt, text);
  size_t begin = 0;
  size_t end = bytes.size();
  for (int64_t made = 0;; ++made) {
    const Span rest =
        Strip(std::string_view(bytes).substr(begin, end - begin), !from_right, from_right);
    end = begin + rest.end;
    begin += rest.begin;
    if (begin == end) break;
    if (limit >= 0 && made == limit) {
      if (!pieces.Add(begin, end))
        return Value();  // with the white space at its far end, as Python leaves it
      break;
    }
    if (!from_right) {
      size_t stop = begin;
      while (stop < end) {
        const CodePoint c = DecodeAt(bytes, stop);
        if (IsSpace(c.code_point)) break;
        stop += c.length;
      }
      if (!pieces.Add(begin, stop)) return Value();
      begin = stop;
    } else {
      size_t start = end;
      while (start > begin) {
        const CodePoint c = DecodeBefore(bytes, start);
        if (IsSpace(c.code_point)) break;
        start -= c.length;
      }
      if (!pieces.Add(start, end)) return Value();
      end = start;
    }
  }
  return pieces.List(from_right);
}

}  // namespace

Value ChangeCase(Runtime& rt, const Text& text, CaseChange change) {
  if (!rt.Spend(1 + text.size() / 16)) return Value();
  if (change != CaseChange::kUpper && change != CaseChange::kLower) {
    return rt.Spend(text.size() / 4) ? rt.NewString(ChangeEach(text, change)) : Value();
  }
  Text out;
  ForEachRun(text, [&](std::string_view part, Origin origin) {
    out.Append(change == CaseChange::kUpper ? ToUpper(part) : ToLower(part), origin);
  });
  return rt.NewString(std::move(out));
}

Value StripText(Runtime& rt, const Text& text, bool left, bool right, const Text* chars) {
  if (!rt.SpendBytes(text.size())) return Value();
  Span span{};
  if (chars == nullptr) {
    span = Strip(text.bytes(), left, right);
  } else {
    if (!rt.Spend(chars->size() / 16) ||
        !rt.Spend(text.size() / 64 * std::max<size_t>(chars->size() / 4, 1))) {
      return Value();
    }
    const std::u32string set = Decode(chars->bytes());
    span = Strip(text.bytes(), left, right, &set);
  }
  return rt.NewString(text.Slice(span.begin, span.end));
}

Value ReplaceText(Runtime& rt, const Text& text, const Text& from, const Text& to, int64_t count) {
  const std::string& bytes = text.bytes();
  Text out;
  size_t at = 0;      // first byte not yet copied
  size_t search = 0;  // first byte not yet looked at
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    if (!rt.Spend(1)) return Value();
    const size_t found = Find(bytes, from.bytes(), search);
    if (found == std::string_view::npos) break;
    if (!rt.Grow(out, found - at + to.size())) return Value();
    out.AppendRange(text, at, found);
    out.Append(to);
    at = found + from.size();
    search = at;
    if (from.empty()) {  // between all characters: copy one and go on behind it
      if (found >= bytes.size()) break;
      search = found + DecodeAt(bytes, found).length;
    }
  }
  if (!rt.Grow(out, bytes.size() - at)) return Value();
  out.AppendRange(text, at, bytes.size());
  return rt.NewString(std::move(out));
}

Value SplitText(Runtime& rt, const Text& text, const Text* separator, int64_t limit,
                bool from_right) {
  if (!rt.SpendBytes(text.size())) return Value();
  if (separator == nullptr) return SplitSpaces(rt, text, limit, from_right);
  if (separator->empty()) return rt.Fail("split with an empty separator");
  const std::string_view bytes = text.bytes();
  Pieces pieces(rt, text);
  if (!from_right) {
    size_t at = 0;
    for (int64_t made = 0; limit < 0 || made < limit; ++made) {
      const size_t found = Find(bytes, separator->bytes(), at);
      if (found == std::string_view::npos) break;
      if (!pieces.Add(at, found)) return Value();
      at = found + separator->size();
    }
    pieces.Add(at, bytes.size());
    return pieces.List(false);
  }
  if (!PayForRfind(rt, text, *separator)) return Value();
  size_t end = bytes.size();
  for (int64_t made = 0; limit < 0 || made < limit; ++made) {
    const size_t found = bytes.substr(0, end).rfind(separator->bytes());
    if (found == std::string_view::npos) break;
    if (!pieces.Add(found + separator->size(), end)) return Value();
    end = found;
  }
  pieces.Add(0, end);
  return pieces.List(true);
}

Value SplitLines(Runtime& rt, const Text& text, bool keep_ends) {
  if (!rt.SpendBytes(text.size())) return Value();
  const std::string& bytes = text.bytes();
  Pieces pieces(rt, text);
  size_t begin = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, pos);
    const size_t line_end = pos;
    pos += c.length;
    if (!IsLineBreak(c.code_point)) continue;
    if (c.code_point == '\r' && pos < bytes.size() && bytes[pos] == '\n') ++pos;
    if (!pieces.Add(begin, keep_ends ? pos : line_end)) return Value();
    begin = pos;
  }
  if (begin < bytes.size()) pieces.Add(begin, bytes.size());
  return pieces.List(false);
}

Value PartitionText(Runtime& rt, const Text& text, const Text& separator, bool from_right) {
  if (separator.empty()) return rt.Fail("partition with an empty separator");
  if (!PayForRfind(rt, text, separator)) return Value();
  const size_t found =
      from_right ? text.bytes().rfind(separator.bytes()) : Find(text.bytes(), separator.bytes());
  Pieces pieces(rt, text);
  const size_t size = text.size();
  if (found != std::string_view::npos) {
    pieces.Add(0, found);
    pieces.Add(found, found + separator.size());
    pieces.Add(found + separator.size(), size);
  } else if (from_right) {
    pieces.Add(0, 0), pieces.Add(0, 0), pieces.Add(0, size);
  } else {
    pieces.Add(0, size), pieces.Add(0, 0), pieces.Add(0, 0);
  }
  return pieces.List(false, /*tuple=*/true);
}

Value JoinTexts(Runtime& rt, const Text& separator, const std::vector<Value>& items, bool convert) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!rt.Spend(1)) return Value();
    if (!convert && !items[i].is_string()) return rt.FailType("join", items[i]);
    if (i > 0) {
      if (!rt.Grow(out, separator.size())) return Value();
      out.Append(separator);
    }
    if (!AppendText(rt, items[i], &out)) return Value();
  }
  return rt.NewString(std::move(out));
}

Value EscapeHtml(Runtime& rt, const Text& text) {
  if (!rt.Grow(text, text.size() * 5)) return Value();
  Text out;
  size_t plain = 0;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    constexpr std::string_view kSpecial = "&<>'\"";
    constexpr std::array<std::string_view, 5> kEscapes = {"&amp;", "&lt;", "&gt;", "&#39;",
                                                          "&#34;"};
    const size_t special = kSpecial.find(text.bytes()[pos]);
    if (special == std::string_view::npos) continue;
    out.AppendRange(text, plain, pos);
    out.Append(kEscapes[special], text.OriginAt(pos));
    plain = pos + 1;
  }
  out.AppendRange(text, plain, text.size());
  out.set_markup(true);
  return rt.NewString(std::move(out));
}

}  // namespace tutti::tokenizer::jinja
