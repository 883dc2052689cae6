#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "protocol/json/json.h"
#include "services/usage/ledger_rows.h"

namespace tutti::usage {
namespace {

const Row kRow = {.time_ms = 1'769'860'800'123,
                  .tenant = "acme",
                  .key_id = "k1",
                  .user = "a \"b\", c",
                  .model = "m",
                  .route = "chat",
                  .outcome = "ok",
                  .prompt_tokens = 12,
                  .cached_tokens = 8,
                  .output_tokens = 5,
                  .queue_ms = 3,
                  .compute_ms = 250};

// Fields of each line, as RFC 4180 writes them. Empty: it is not written so.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> lines(1, {""});
  for (size_t i = 0; i < text.size();) {
    std::string& field = lines.back().back();
    if (text[i] == '"') {
      if (!field.empty()) return {};
      for (++i;; ++i) {
        if (i >= text.size()) return {};
        if (text[i] == '"' && text.compare(i, 2, "\"\"") != 0) break;
        if (text[i] == '"') ++i;
        field += text[i];
      }
      ++i;
      if (text[i] != ',' && text.compare(i, 2, "\r\n") != 0) return {};
    } else if (text[i] == ',') {
      lines.back().emplace_back();
      ++i;
    } else if (text.compare(i, 2, "\r\n") == 0) {
      lines.push_back({""});
      i += 2;
    } else if (text[i] == '\r' || text[i] == '\n') {
      return {};
    } else {
      field += text[i++];
    }
  }
  if (lines.back() != std::vector<std::string>{""}) return {};  // the last line has no end
  lines.pop_back();
  return lines;
}

TEST(Export, AJsonLineHoldsTheRow) {
  std::string line;
  AppendJsonLine(kRow, &line);
  EXPECT_EQ(line,
            "{\"time\":\"2026-01-31T12:00:00.123Z\",\"tenant\":\"acme\",\"key\":\"k1\","
            "\"user\":\"a \\\"b\\\", c\",\"model\":\"m\",\"route\":\"chat\",\"outcome\":\"ok\","
            "\"prompt_tokens\":12,\"cached_tokens\":8,\"output_tokens\":5,\"queue_ms\":3,"
            "\"compute_ms\":250}\n");
}

TEST(Export, ACsvLineHoldsTheSameInTheSameOrder) {
  std::string text;
  AppendCsvHeader(&text);
  AppendCsvLine(kRow, &text);
  EXPECT_EQ(text,
            "time,tenant,key,user,model,route,outcome,prompt_tokens,cached_tokens,output_tokens,"
            "queue_ms,compute_ms\r\n"
            "2026-01-31T12:00:00.123Z,acme,k1,\"a \"\"b\"\", c\",m,chat,ok,12,8,5,3,250\r\n");
}

TEST(Export, TimesOfEveryAgeAreWrittenInFull) {
  const auto time = [](int64_t ms) {
    std::string text;
    Row row;
    row.time_ms = ms;
    AppendCsvLine(row, &text);
    return text.substr(0, text.find(','));
  };
  EXPECT_EQ(time(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(time(951'782'399'999), "2000-02-28T23:59:59.999Z");
  EXPECT_EQ(time(951'782'400'000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(time(4'107'542'400'000), "2100-03-01T00:00:00.000Z");
}

// Both formats, read back, give the same rows for any text, and so the same sums.
TEST(Export, JsonAndCsvAgreeOnEveryField) {
  Random random(9);
  const std::vector<std::string> pieces = {",", "\"",   "\r", "\n", "a",
                                           "é", "=1+1", " ",  "\\", "\t"};
  const auto text = [&] {
    std::string made;
    for (int64_t i = random.Between(0, 6); i > 0; --i) made += pieces[random.Below(pieces.size())];
    return made;
  };
  std::string csv;
  AppendCsvHeader(&csv);
  std::vector<std::string> lines;
  std::map<std::string, int64_t> sums;
  for (int i = 0; i < 2000; ++i) {
    const Row row = {.time_ms = random.Between(0, 4'000'000'000'000),
                     .tenant = text(),
                     .key_id = text(),
                     .user = text(),
                     .model = text(),
                     .route = text(),
                     .outcome = text(),
                     .prompt_tokens = random.Between(0, kMaxInRow),
                     .cached_tokens = random.Between(0, kMaxInRow),
                     .output_tokens = random.Between(0, kMaxInRow),
                     .queue_ms = random.Between(0, kMaxInRow),
                     .compute_ms = random.Between(0, kMaxInRow)};
    AppendCsvLine(row, &csv);
    AppendJsonLine(row, &lines.emplace_back());
    sums["prompt_tokens"] += row.prompt_tokens;
    sums["compute_ms"] += row.compute_ms;
  }
  const std::vector<std::vector<std::string>> table = ReadCsv(csv);
  ASSERT_EQ(table.size(), lines.size() + 1);
  std::map<std::string, int64_t> csv_sums, json_sums;
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i].find('\n'), lines[i].size() - 1) << "one line each";
    const Result<protocol::JsonDocument> json = protocol::ParseJson(lines[i]);
    ASSERT_TRUE(json.ok()) << json.status();
    const protocol::JsonObject& object = json->root().as_object();
    ASSERT_EQ(object.size(), table[0].size());
    ASSERT_EQ(table[i + 1].size(), table[0].size());
    for (size_t f = 0; f < table[0].size(); ++f) {
      const protocol::Json& value = object.at(table[0][f]);
      const std::string& field = table[i + 1][f];
      if (value.is_string()) {
        ASSERT_EQ(std::string(value.as_string()), field);
        continue;
      }
      ASSERT_EQ(std::to_string(value.as_int64()), field);
      json_sums[table[0][f]] += value.as_int64();
      csv_sums[table[0][f]] += std::stoll(field);
    }
  }
  EXPECT_EQ(csv_sums, json_sums);
  for (const auto& [name, sum] : sums) EXPECT_EQ(csv_sums[name], sum) << name;
}

}  // namespace
}  // namespace tutti::usage
