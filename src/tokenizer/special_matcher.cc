#include "tokenizer/special_matcher.h"

#include <algorithm>
#include <array>
#include <string>

namespace tutti::tokenizer {
namespace {

constexpr size_t kMaxSpecialNodes = size_t{1}
                                    << 21;  // characters of all spellings that no other shares

// Elements of HTML that vocabularies hold whole (Gemma's `<b>`, `</td>`, ...). They are text that
// people write, and no model's turns are told by them. Not `<s>`, which other models begin with.
constexpr std::array<std::string_view, 46> kHtmlElements = {
    "a",     "b",      "blockquote", "body",   "br",  "caption", "code",  "col", "dd",    "div",
    "dl",    "dt",     "em",         "footer", "h1",  "h2",      "h3",    "h4",  "h5",    "h6",
    "head",  "header", "hr",         "html",   "i",   "iframe",  "img",   "li",  "ol",    "p",
    "pre",   "span",   "strong",     "sub",    "sup", "table",   "tbody", "td",  "tfoot", "th",
    "thead", "title",  "tr",         "tt",     "u",   "ul"};

static_assert(std::ranges::is_sorted(kHtmlElements));

bool IsHtmlElement(std::string_view spelling) {
  spelling.remove_prefix(1);
  spelling.remove_suffix(1);
  if (spelling.starts_with('/')) spelling.remove_prefix(1);
  return std::ranges::binary_search(kHtmlElements, spelling);
}

bool IsMarkup(std::string_view spelling) {
  if (spelling.size() > 2 && spelling.front() == '<' && spelling.back() == '>')
    return !IsHtmlElement(spelling);
  return spelling.size() > 2 && spelling.front() == '[' && spelling.back() == ']';
}

}  // namespace

Result<SpecialMatcher> SpecialMatcher::Create(const Vocabulary& vocabulary) {
  SpecialMatcher matcher;
  const auto is_cut_out = [&](TokenId id) {
    const TokenType type = vocabulary.Type(id);
    return !vocabulary.Text(id).empty() &&
           (type == TokenType::kControl || type == TokenType::kUnknown ||
            type == TokenType::kUserDefined);
  };
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (!is_cut_out(id)) continue;
    const size_t length = vocabulary.Text(id).size();
    if (length > kMaxSpecialBytes || matcher.nodes_.size() > kMaxSpecialNodes) {
      return InvalidArgument("tokenizer_limit",
                             "special token " + std::to_string(id) + " of " +
                                 std::to_string(length) + " bytes; the limits are " +
                                 std::to_string(kMaxSpecialBytes) + " for one and about " +
                                 std::to_string(kMaxSpecialNodes) + " for all");
    }
    const bool structure =
        vocabulary.Type(id) != TokenType::kUserDefined || IsMarkup(vocabulary.Text(id));
    RETURN_IF_ERROR(matcher.Insert(vocabulary.Text(id), id, structure));
  }
  return matcher;
}

Status SpecialMatcher::Insert(std::string_view spelling, TokenId id, bool structure) {
  begins_[static_cast<unsigned char>(spelling.front())] = true;
  int32_t node = 0;
  for (const char c : spelling) {
    const uint64_t key = PairTable::Key(node, static_cast<unsigned char>(c));
    if (const PairTable::Value* child = children_.Find(key); child != nullptr) {
      node = child->first;
      continue;
    }
    const auto fresh = static_cast<int32_t>(nodes_.size());
    if (children_.Insert(key, {fresh, 0}) != Inserted::kNew) {
      return InvalidArgument("tokenizer_limit", "special tokens collide in the hash table");
    }
    nodes_.emplace_back();
    node = fresh;
  }
  nodes_[static_cast<size_t>(node)] = {id, structure};
  return OkStatus();
}

SpecialMatcher::Match SpecialMatcher::Next(std::string_view text,
                                           const std::vector<TextRange>& trusted, size_t from,
                                           Cursor& cursor) const {
  size_t& range = cursor.range;
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    while (range < trusted.size() && trusted[range].end <= at) ++range;
    const bool inside = range < trusted.size() && trusted[range].begin <= at;
    const Match match = LongestAt(text, at, inside ? trusted[range].end : at);
    if (match.id != kNoToken) return match;
  }
  return {text.size(), text.size(), kNoToken};
}

SpecialMatcher::Match SpecialMatcher::LongestAt(std::string_view text, size_t at,
                                                size_t trusted_end) const {
  Match match{at, at, kNoToken};
  int32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const PairTable::Value* child =
        children_.Find(PairTable::Key(node, static_cast<unsigned char>(text[i])));
    if (child == nullptr) break;
    node = child->first;
    const Node& here = nodes_[static_cast<size_t>(node)];
    if (here.id == kNoToken || (here.structure && i + 1 > trusted_end)) continue;
    match.end = i + 1;
    match.id = here.id;
  }
  return match;
}

}  // namespace tutti::tokenizer
