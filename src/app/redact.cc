#include "app/redact.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace tutti::app {
namespace {

constexpr std::string_view kMask = "***";
constexpr size_t kRandomBytes = 24;  // a word that long, of letters and digits mixed, is no word
constexpr size_t kLeastCardDigits = 13, kMaxCardDigits = 19;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
// True for bytes that occur in keys and tokens.
bool IsTokenByte(char c) {
  return IsDigit(c) || IsLetter(c) || c == '-' || c == '_' || c == '.' || c == '+' || c == '/' ||
         c == '=' || c == '~';
}
char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool StartsWithWord(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char wanted, char there) { return wanted == Lower(there); });
}

size_t TokenLength(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsTokenByte) -
                             text.begin());
}

size_t SpacesAt(std::string_view text, size_t at) {
  const size_t end = text.find_first_not_of(" \t", at);
  return (end == std::string_view::npos ? text.size() : end) - at;
}

// "-----BEGIN ... PRIVATE KEY-----" to its end, or that of the text.
size_t PrivateKeyLength(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kKey = "PRIVATE KEY-----", kEnd = "-----END ";
  if (!text.starts_with(kBegin)) return 0;
  const size_t line = std::min(text.find('\n'), text.size());
  if (text.substr(0, line).find(kKey) == std::string_view::npos) return 0;
  const size_t end = text.find(kEnd);
  if (end == std::string_view::npos) return text.size();
  return std::min(text.find("-----", end + kEnd.size()), text.size() - 5) + 5;
}

// 13 to 19 digits, with single spaces or dashes between them.
size_t CardLength(std::string_view text) {
  size_t digits = 0, end = 0;
  for (size_t i = 0; i < text.size() && digits <= kMaxCardDigits; ++i) {
    if (IsDigit(text[i])) {
      ++digits;
      end = i + 1;
    } else if ((text[i] != ' ' && text[i] != '-') || end != i) {
      break;
    }
  }
  return digits >= kLeastCardDigits && digits <= kMaxCardDigits ? end : 0;
}

// `password: x`, `"api_key": "x"`, `token=x`: where the value begins and how long it is; a length
// of 0: no such thing.
struct Value {
  size_t begin = 0, size = 0;
};
Value NamedValue(std::string_view text) {
  constexpr std::array<std::string_view, 9> kNames = {
      "password", "passwd", "passphrase", "secret", "api_key", "api-key", "apikey", "token", "pwd"};
  for (const std::string_view name : kNames) {
    if (!StartsWithWord(text, name)) continue;
    size_t at = name.size();
    if (at < text.size() && (text[at] == '"' || text[at] == '\'')) ++at;
    at += SpacesAt(text, at);
    if (StartsWithWord(text.substr(at), "is ")) {
      at += 2;
    } else if (at < text.size() && (text[at] == ':' || text[at] == '=')) {
      ++at;
    } else {
      continue;
    }
    at += SpacesAt(text, at);
    const char quote = at < text.size() ? text[at] : ' ';
    const bool quoted = quote == '"' || quote == '\'';
    if (quoted) ++at;
    const size_t end = text.find_first_of(quoted ? std::string_view(&quote, 1) : " \t\r\n,;}", at);
    return {at, std::min(end, text.size()) - at};
  }
  return {};
}

bool LooksRandom(std::string_view token) {
  if (token.size() < kRandomBytes || token.find("//") != std::string_view::npos) return false;
  const auto letters = std::count_if(token.begin(), token.end(), IsLetter);
  const auto digits = std::count_if(token.begin(), token.end(), IsDigit);
  return letters >= 4 && digits >= 4;
}

// Length of the secret that begins with the first byte of `text`; 0 if there is none.
size_t SecretLength(std::string_view text) {
  if (const size_t length = PrivateKeyLength(text); length > 0) return length;
  if (const size_t length = CardLength(text); length > 0) return length;
  const size_t length = TokenLength(text);
  const std::string_view token = text.substr(0, length);
  const bool key = token.starts_with("sk-") && length >= 11;
  const bool jwt = token.starts_with("eyJ") && std::count(token.begin(), token.end(), '.') == 2;
  return key || jwt || LooksRandom(token) ? length : 0;
}

}  // namespace

std::string Redact(std::string_view text) {
  std::string out;
  bool word_begins = true;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (word_begins) {
      if (const size_t length = SecretLength(rest); length > 0) {
        out += kMask;
        at += length;
        word_begins = false;
        continue;
      }
      constexpr std::string_view kBearer = "bearer ";
      Value value = NamedValue(rest);
      if (StartsWithWord(rest, kBearer))
        value = {kBearer.size(), TokenLength(rest.substr(kBearer.size()))};
      if (value.size > 0) {
        out += rest.substr(0, value.begin);
        out += kMask;
        at += value.begin + value.size;
        word_begins = false;
        continue;
      }
    }
    const char c = rest.front();
    word_begins = !IsDigit(c) && !IsLetter(c);
    out += c;
    ++at;
  }
  return out;
}

}  // namespace tutti::app
