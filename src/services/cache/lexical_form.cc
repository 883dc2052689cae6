#include "services/cache/lexical_form.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "services/cache/lexical_tables.h"

namespace tutti::cache {
namespace {

using LexicalWords = std::vector<std::string>;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

bool Negates(const std::string& word) {
  static const std::set<std::string_view> words(std::begin(lexical::kNegations),
                                                std::end(lexical::kNegations));
  return words.contains(word);
}
bool KeepsItsCase(const std::string& word) {
  static const std::set<std::string_view> words(std::begin(lexical::kCased),
                                                std::end(lexical::kCased));
  return words.contains(word);
}
// Replacements of words; In() returns "" for a word without one.
using Table = std::map<std::string_view, std::string_view>;
std::string_view In(const Table& table, std::string_view word) {
  const auto found = table.find(word);
  return found == table.end() ? std::string_view() : found->second;
}
std::string_view Expanded(std::string_view word) {
  static const Table table(std::begin(lexical::kContractions), std::end(lexical::kContractions));
  return In(table, word);
}
std::string_view Respelt(std::string_view word) {
  static const Table table(std::begin(lexical::kSpelling), std::end(lexical::kSpelling));
  return In(table, word);
}
std::string_view NumberOf(std::string_view word) {
  static const Table table(std::begin(lexical::kNumbers), std::end(lexical::kNumbers));
  return In(table, word);
}

LexicalWords Split(std::string_view phrase) {
  LexicalWords words;
  while (!phrase.empty()) {
    const size_t blank = std::min(phrase.find(' '), phrase.size());
    if (blank > 0) words.emplace_back(phrase.substr(0, blank));
    phrase.remove_prefix(std::min(blank + 1, phrase.size()));
  }
  return words;
}

// One piece of the text as it stands.
struct Piece {
  enum class Kind { kWord, kNumber, kSymbol, kQuotation };
  Kind kind = Kind::kWord;
  std::string text;
  bool begins = false;  // a sentence
};

// U+2018 and U+2019 are apostrophes, U+201C and U+201D quotation marks, U+2212 a minus.
std::string Plain(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kMarks[] = {
      {"\xe2\x80\x98", '\''}, {"\xe2\x80\x99", '\''}, {"\xe2\x80\x9c", '"'},
      {"\xe2\x80\x9d", '"'},  {"\xe2\x88\x92", '-'},  {"\xc2\xa0", ' '}};
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const auto* mark = std::find_if(std::begin(kMarks), std::end(kMarks),
                                    [&](const auto& one) { return text.starts_with(one.first); });
    if (mark != std::end(kMarks)) {
      plain += mark->second;
      text.remove_prefix(mark->first.size());
    } else {
      plain += text[0];
      text.remove_prefix(1);
    }
  }
  return plain;
}

class Reader {
 public:
  explicit Reader(std::string text) : text_(std::move(text)) {}

  std::vector<Piece> Read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '`' || (c == '\'' && OpensQuotation())) {
        Quotation(c);
      } else if (IsDigit(c)) {
        Number();
      } else if (IsLetter(c)) {
        Word();
      } else {
        Other(c);
      }
    }
    return std::move(pieces_);
  }

 private:
  char Before() const { return at_ == 0 ? ' ' : text_[at_ - 1]; }
  char After() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : ' '; }
  bool OpensQuotation() const {
    return !IsLetter(Before()) && !IsDigit(Before()) && (IsLetter(After()) || IsDigit(After())) &&
           text_.find('\'', at_ + 1) != std::string::npos;
  }
  void Add(Piece::Kind kind, std::string text) {
    pieces_.push_back({kind, std::move(text), begins_});
    begins_ = false;
  }
  void Quotation(char mark) {
    const size_t end = text_.find(mark, at_ + 1);
    if (end == std::string::npos) {  // a mark alone, an inch
      Add(Piece::Kind::kSymbol, std::string(1, mark));
      ++at_;
      return;
    }
    Add(Piece::Kind::kQuotation, text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
  }
  // 1,000.50 and 12:30 and 2024-05-01 and 3/4 are one number each; 5km is two pieces.
  void Number() {
    std::string number;
    if (Before() == '-' && (at_ < 2 || !(IsLetter(text_[at_ - 2]) || IsDigit(text_[at_ - 2]))))
      number = "-";
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool joins = (c == '.' || c == ',' || c == ':' || c == '/' || c == '-') &&
                         IsDigit(After()) && IsDigit(Before());
      if (!IsDigit(c) && !joins) break;
      if (c != ',') number += c;
      ++at_;
    }
    Add(Piece::Kind::kNumber, std::move(number));
  }
  void Word() {
    const size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool apostrophe = c == '\'' && IsLetter(After()) && IsLetter(Before());
      if (!IsLetter(c) && !IsDigit(c) && !apostrophe) break;
      ++at_;
    }
    Add(Piece::Kind::kWord, text_.substr(begin, at_ - begin));
  }
  void Other(char c) {
    static constexpr std::string_view kSymbols = "+*/=<>^&|~#@%$\\_";
    if (kSymbols.find(c) != std::string_view::npos) Add(Piece::Kind::kSymbol, std::string(1, c));
    if (c == '-' && Before() == ' ' && After() == ' ') Add(Piece::Kind::kSymbol, "-");
    if (c == '.' || c == '!' || c == '?' || c == '\n') begins_ = true;
    ++at_;
  }

  const std::string text_;
  size_t at_ = 0;
  bool begins_ = true;
  std::vector<Piece> pieces_;
};

bool AllUpper(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](char c) { return IsUpper(c) || IsDigit(c); });
}

// Whether the writer uses capitals at all, and not for everything.
bool CapitalsMean(const std::vector<Piece>& pieces) {
  bool lower = false;
  for (const Piece& piece : pieces) {
    lower = lower || (piece.kind == Piece::Kind::kWord &&
                      std::any_of(piece.text.begin(), piece.text.end(),
                                  [](char c) { return c >= 'a' && c <= 'z'; }));
  }
  return lower;
}

void AddWord(const Piece& piece, bool capitals, LexicalForm* form) {
  const std::string lower = Lower(piece.text);
  if (const std::string_view whole = Expanded(lower); !whole.empty()) {
    for (std::string& word : Split(whole)) form->words.push_back(std::move(word));
    return;
  }
  if (lower.ends_with("n't") && lower.size() > 3) {
    form->words.push_back(lower.substr(0, lower.size() - 3));
    form->words.emplace_back("not");
    return;
  }
  std::string stem = lower;
  const bool owns = stem.ends_with("'s");
  if (owns) stem.resize(stem.size() - 2);
  if (const std::string_view other = Respelt(stem); !other.empty()) stem = other;
  const bool upper = capitals && IsUpper(piece.text[0]);
  const bool acronym = upper && piece.text.size() > 1 && AllUpper(piece.text);
  if (acronym || (upper && !piece.begins)) {
    if (stem != "i") form->names.push_back(stem);
    if (KeepsItsCase(stem)) stem = "^" + stem;
  }
  form->words.push_back(std::move(stem));
  if (owns) form->words.emplace_back("'s");
}

// "twenty five" is 25.
void ReadNumberWords(LexicalForm* form) {
  LexicalWords out;
  for (std::string& word : form->words) {
    const std::string number(NumberOf(word));
    if (number.size() == 1 && IsDigit(number[0]) && number != "0" && !out.empty() &&
        out.back().size() == 3 && out.back()[0] == '#' && out.back()[2] == '0' &&
        out.back()[1] >= '2') {
      out.back()[2] = number[0];
      continue;
    }
    out.push_back(number.empty() ? std::move(word) : "#" + number);
  }
  form->words = std::move(out);
}

bool StandsAt(const LexicalWords& words, size_t at, const LexicalWords& phrase) {
  return at + phrase.size() <= words.size() &&
         std::equal(phrase.begin(), phrase.end(), words.begin() + static_cast<std::ptrdiff_t>(at));
}

void TakeFillersAway(LexicalWords* words) {
  static const std::vector<LexicalWords> fillers = [] {
    std::vector<LexicalWords> all;
    for (const std::string_view filler : lexical::kFillers) all.push_back(Split(filler));
    std::stable_sort(all.begin(), all.end(), [](const LexicalWords& a, const LexicalWords& b) {
      return a.size() > b.size();
    });
    return all;
  }();
  LexicalWords out;
  for (size_t at = 0; at < words->size();) {
    const auto filler =
        std::find_if(fillers.begin(), fillers.end(), [&](const LexicalWords& phrase) {
          // "can you" asks politely at the beginning alone; "well" and "hi" may be names elsewhere.
          const bool anywhere =
              phrase.size() == 1 && (phrase[0] == "the" || phrase[0] == "a" || phrase[0] == "an" ||
                                     phrase[0] == "please" || phrase[0] == "kindly");
          const bool ends = at + phrase.size() == words->size();
          return (anywhere || out.empty() || (ends && phrase[0].starts_with("thank"))) &&
                 StandsAt(*words, at, phrase);
        });
    if (filler != fillers.end()) {
      at += filler->size();
    } else {
      out.push_back(std::move((*words)[at++]));
    }
  }
  *words = std::move(out);
}

void ReadFrame(LexicalWords* words) {
  for (const auto& [frame, stands_for] : lexical::kFrames) {
    const LexicalWords phrase = Split(frame);
    // Something must be left that is asked.
    if (words->size() <= phrase.size() || !StandsAt(*words, 0, phrase)) continue;
    words->erase(words->begin(), words->begin() + static_cast<std::ptrdiff_t>(phrase.size()));
    const LexicalWords instead = Split(stands_for);
    words->insert(words->begin(), instead.begin(), instead.end());
    return;
  }
}

// The words of `a` that `b` lacks, as a multiset.
LexicalWords Missing(LexicalWords a, LexicalWords b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  LexicalWords missing;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(missing));
  return missing;
}

bool Opposed(const LexicalWords& a, const LexicalWords& b) {
  static const std::set<lexical::Pair> pairs = [] {
    std::set<lexical::Pair> both;
    for (const auto& [one, other] : lexical::kAntonyms) {
      both.emplace(one, other);
      both.emplace(other, one);
    }
    return both;
  }();
  return std::any_of(a.begin(), a.end(), [&](const std::string& one) {
    return std::any_of(b.begin(), b.end(), [&](const std::string& other) {
      return pairs.contains({one, other}) || one == "un" + other || other == "un" + one ||
             one == "in" + other || other == "in" + one || one == "dis" + other ||
             other == "dis" + one || one == "non" + other || other == "non" + one;
    });
  });
}

}  // namespace

LexicalForm FormOf(std::string_view text) {
  LexicalForm form;
  if (text.size() > kMaxFormBytes) return form;
  const std::vector<Piece> pieces = Reader(Plain(text)).Read();
  const bool capitals = CapitalsMean(pieces);
  for (const Piece& piece : pieces) {
    switch (piece.kind) {
      case Piece::Kind::kWord:
        AddWord(piece, capitals, &form);
        break;
      case Piece::Kind::kNumber:
        form.words.push_back("#" + piece.text);
        break;
      case Piece::Kind::kSymbol:
        form.words.push_back("=" + piece.text);
        break;
      case Piece::Kind::kQuotation:
        form.words.push_back("\"" + piece.text);
        break;
    }
  }
  ReadNumberWords(&form);
  TakeFillersAway(&form.words);
  ReadFrame(&form.words);
  for (const std::string& word : form.words) {
    form.negations += Negates(word) ? 1 : 0;
    if (word[0] == '#' || word[0] == '=' || word[0] == '"') form.strict.push_back(word);
  }
  std::sort(form.names.begin(), form.names.end());
  return form;
}

std::string TextOf(const LexicalForm& form) {
  std::string text;
  for (const std::string& word : form.words) {
    if (!text.empty() && word != "'s") text += ' ';
    const bool marked =
        word.size() > 1 && std::string_view("#=\"^").find(word[0]) != std::string_view::npos;
    text += marked ? word.substr(1) : word;
  }
  return text;
}

Likeness Compare(const LexicalForm& a, const LexicalForm& b) {
  if (a.words.empty() || b.words.empty()) return Likeness::kDifferent;
  if (a.words == b.words) return Likeness::kSame;
  if (a.strict != b.strict || a.negations != b.negations) return Likeness::kDifferent;
  const LexicalWords only_a = Missing(a.words, b.words), only_b = Missing(b.words, a.words);
  // The same words in another order: from here to there, or from there to here.
  if (only_a.empty() && only_b.empty()) return Likeness::kDifferent;
  if (Opposed(only_a, only_b)) return Likeness::kDifferent;
  // A name of the one that the other does not even have as a word.
  const auto foreign = [](const LexicalWords& names, const LexicalWords& words) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::find(words.begin(), words.end(), name) == words.end() &&
             std::find(words.begin(), words.end(), "^" + name) == words.end();
    });
  };
  if (foreign(a.names, b.words) || foreign(b.names, a.words)) return Likeness::kDifferent;
  return Likeness::kOpen;
}

bool AnswersAgree(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const LexicalForm one = FormOf(a), other = FormOf(b);
  if (one.words.empty() || other.words.empty()) return false;
  if (one.strict != other.strict || one.negations != other.negations) return false;
  const std::set<std::string> first(one.words.begin(), one.words.end()),
      second(other.words.begin(), other.words.end());
  size_t both = 0;
  for (const std::string& word : first) both += second.contains(word) ? 1 : 0;
  return static_cast<double>(both) >=
         0.6 * static_cast<double>(first.size() + second.size() - both);
}

}  // namespace tutti::cache
