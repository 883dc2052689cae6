#include "tokenizer/special_matcher.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kMaxSpecialNodes = size_t{1}
                                    << 21;  // characters of all spellings that no other shares

// HTML elements that vocabularies hold as one token (Gemma's `<b>`, `</td>`, ...). They are text
// that people write, and no model marks its turns with them. `<s>` is missing because other models
// begin a text with it.
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

// Whether a word continues across a border of [begin, end), so that the match is not a whole word.
bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  if (end < text.size() && IsWordCharacter(DecodeAt(text, end).code_point)) return true;
  if (begin == 0) return false;
  const size_t at = LastCharacter(text, 0, begin);
  const CodePoint last = DecodeAt(text, at);
  return at + last.length == begin && last.valid && IsWordCharacter(last.code_point);
}

}  // namespace

Result<SpecialMatcher> SpecialMatcher::Create(const Vocabulary& vocabulary,
                                              std::span<const AddedTokenRule> rules,
                                              bool normalized, const Normalizer& normalizer) {
  SpecialMatcher matcher;
  std::unordered_map<TokenId, const AddedTokenRule*> rule_of;
  for (const AddedTokenRule& rule : rules) rule_of.emplace(rule.id, &rule);
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.Type(id);
    const bool is_cut_out = type == TokenType::kControl || type == TokenType::kUnknown ||
                            type == TokenType::kUserDefined;
    if (!is_cut_out || vocabulary.Text(id).empty()) continue;
    const auto found = rule_of.find(id);
    const AddedTokenRule rule = found != rule_of.end() ? *found->second : AddedTokenRule{};
    if (rule.normalized != normalized) continue;
    const std::string spelling =
        normalized ? normalizer.Apply(vocabulary.Text(id)) : std::string(vocabulary.Text(id));
    if (spelling.empty()) continue;
    if (spelling.size() > kMaxSpecialBytes || matcher.nodes_.size() > kMaxSpecialNodes) {
      return InvalidArgument("tokenizer_limit",
                             "special token " + std::to_string(id) + " of " +
                                 std::to_string(spelling.size()) + " bytes; the limits are " +
                                 std::to_string(kMaxSpecialBytes) + " for one and about " +
                                 std::to_string(kMaxSpecialNodes) + " for all");
    }
    const bool structure = type != TokenType::kUserDefined || IsMarkup(vocabulary.Text(id));
    RETURN_IF_ERROR(matcher.Insert(spelling, {.id = id,
                                              .structure = structure,
                                              .single_word = rule.single_word,
                                              .lstrip = rule.lstrip,
                                              .rstrip = rule.rstrip}));
  }
  return matcher;
}

Status SpecialMatcher::Insert(std::string_view spelling, const Node& token) {
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
  Node& place = nodes_[static_cast<size_t>(node)];
  if (place.id == kNoToken) place = token;  // of equal spellings the lowest id
  return OkStatus();
}

SpecialMatcher::Match SpecialMatcher::Next(std::string_view text,
                                           const std::vector<TextRange>& trusted, size_t from,
                                           Cursor& cursor) const {
  size_t& range = cursor.range;
  for (size_t at = from; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    while (range < trusted.size() && trusted[range].end <= at) ++range;
    const bool inside = range < trusted.size() && trusted[range].begin <= at;
    size_t end = at;
    const Node* const token = LongestAt(text, at, inside ? trusted[range].end : at, &end);
    if (token == nullptr) {
      ++at;
      continue;
    }
    if (token->single_word && TouchesWord(text, at, end)) {
      at = end;
      continue;
    }
    return {token->lstrip ? BeginOfSpace(text, from, at) : at,
            token->rstrip ? EndOfSpace(text, end) : end, token->id};
  }
  return {text.size(), text.size(), kNoToken};
}

const SpecialMatcher::Node* SpecialMatcher::LongestAt(std::string_view text, size_t at,
                                                      size_t trusted_end, size_t* end) const {
  const Node* longest = nullptr;
  int32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const PairTable::Value* child =
        children_.Find(PairTable::Key(node, static_cast<unsigned char>(text[i])));
    if (child == nullptr) break;
    node = child->first;
    const Node& here = nodes_[static_cast<size_t>(node)];
    if (here.id == kNoToken || (here.structure && i + 1 > trusted_end)) continue;
    longest = &here;
    *end = i + 1;
  }
  return longest;
}

}  // namespace tutti::tokenizer
