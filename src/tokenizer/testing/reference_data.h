// Reads the folder of reference data that tools/tokenizer_reference.py makes (see there for its
// layout).
//
// For tests and benchmarks only, hence header-only and linked with zlib by them alone. A missing or
// broken file fails a CHECK: the data belong to the tests.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "test_paths.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer::testing {

// TUTTI_TEST_TOKENIZER_DATA, when set, points the same tests at a larger set made by the same tool.
inline std::string DataFolder() {
  if (const char* folder = std::getenv("TUTTI_TEST_TOKENIZER_DATA")) return folder;
  return support::SourcePath("tests/data/tokenizer");
}

// Names of the vocabularies in DATA/vocab, sorted; at least one, or a CHECK fails.
inline std::vector<std::string> VocabularyNames() {
  constexpr std::string_view kEnding = ".json.gz";
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(DataFolder() + "/vocab", error)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(kEnding)) names.push_back(file.substr(0, file.size() - kEnding.size()));
  }
  CHECK(!names.empty()) << "no vocabularies in " << DataFolder();
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string ReadGzip(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  CHECK(file != nullptr) << "cannot open " << path;
  std::string out;
  char buffer[65536];
  int count = 0;
  while ((count = gzread(file, buffer, sizeof(buffer))) > 0)
    out.append(buffer, static_cast<size_t>(count));
  CHECK(count == 0) << "cannot read " << path;
  gzclose(file);
  return out;
}

inline boost::json::value ReadJson(const std::string& path) {
  return boost::json::parse(ReadGzip(path));
}

inline bool Exists(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file != nullptr) gzclose(file);
  return file != nullptr;
}

inline TokenizerSpec SpecFromJson(const boost::json::object& json) {
  TokenizerSpec spec;
  spec.model = json.at("model").as_string();
  spec.pre = json.at("pre").as_string();
  for (const auto& token : json.at("tokens").as_array())
    spec.tokens.emplace_back(token.as_string());
  for (const auto& run : json.at("types").as_array()) {
    spec.token_types.insert(spec.token_types.end(), run.at(1).to_number<size_t>(),
                            run.at(0).to_number<int32_t>());
  }
  if (const auto* scores = json.if_contains("scores")) {
    for (const auto& score : scores->as_array()) spec.scores.push_back(score.to_number<float>());
  }
  const auto& merges = json.at("merges").as_array();
  size_t merged = 0;
  for (size_t i = 0; i + 1 < merges.size(); i += 2) {
    merged += static_cast<size_t>(merges[i].to_number<int64_t>());
    const std::string& text = spec.tokens.at(merged);
    const auto left = merges[i + 1].to_number<size_t>();
    spec.merges.push_back(text.substr(0, left) + " " + text.substr(left));
  }
  const auto id = [&](const char* key, std::optional<int64_t>& out) {
    if (const auto* value = json.if_contains(key)) out = value->to_number<int64_t>();
  };
  id("bos", spec.bos);
  id("eos", spec.eos);
  id("eot", spec.eot);
  id("eom", spec.eom);
  id("unk", spec.unk);
  id("sep", spec.sep);
  id("pad", spec.pad);
  id("cls", spec.cls);
  id("mask", spec.mask);
  const auto flag = [&](const char* key, std::optional<bool>& out) {
    if (const auto* value = json.if_contains(key)) out = value->as_bool();
  };
  flag("add_bos", spec.add_bos);
  flag("add_eos", spec.add_eos);
  flag("add_space_prefix", spec.add_space_prefix);
  flag("lowercase", spec.lowercase);
  if (const auto* plain = json.if_contains("plain"))
    spec.wordpiece_plain_vocabulary = plain->as_bool();
  return spec;
}

// `name` is a file of DATA/vocab without its endings.
inline TokenizerSpec LoadSpec(const std::string& name) {
  return SpecFromJson(ReadJson(DataFolder() + "/vocab/" + name + ".json.gz").as_object());
}

// Kept for the life of the test program: the tests of one program share them. One thread.
inline std::shared_ptr<const Tokenizer> LoadTokenizer(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> kept;
  std::shared_ptr<const Tokenizer>& tokenizer = kept[name];
  if (tokenizer == nullptr) {
    auto created = Tokenizer::Create(LoadSpec(name));
    CHECK(created.ok()) << name << ": " << created.status();
    tokenizer = std::move(created).value();
  }
  return tokenizer;
}

// The texts of one kind: "corpus" or "hostile".
inline std::vector<std::string> LoadTexts(const char* kind) {
  const boost::json::value json = ReadJson(DataFolder() + "/texts.json.gz");
  std::vector<std::string> texts;
  for (const auto& text : json.at(kind).as_array()) texts.emplace_back(text.as_string());
  return texts;
}

// FNV-1a 64, as 16 hexadecimal digits.
inline std::string DigestBytes(std::string_view bytes) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016" PRIx64, hash);
  return digits;
}

// Digest of the ids as little-endian 32-bit numbers.
inline std::string Digest(const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>((static_cast<uint32_t>(id) >> shift) & 0xFF));
    }
  }
  return DigestBytes(bytes);
}

}  // namespace tutti::tokenizer::testing
