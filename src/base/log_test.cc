#include "base/log.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace tutti {
namespace {

class Lines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

// The line without its time stamp.
std::string Rest(const std::string& line) { return line.substr(25); }

TEST(Log, OneEventIsOneLineOfWordsAndFields) {
  auto lines = std::make_shared<Lines>();
  Logger log(LogLevel::kInfo, lines);
  log.Info("model.loaded", {{"name", "smol"}, {"ms", 12.3456}, {"tensors", 272}, {"empty", ""}});
  ASSERT_EQ(lines->lines.size(), 1u);
  EXPECT_EQ(Rest(lines->lines[0]), "INFO model.loaded name=smol ms=12.346 tensors=272 empty=\"\"");
  EXPECT_EQ(lines->lines[0][10], 'T');
  EXPECT_EQ(lines->lines[0][23], 'Z');
}

TEST(Log, ALevelThatDoesNotExistIsRefusedAndNotTakenForAnother) {
  EXPECT_EQ(*ParseLogLevel("warn"), LogLevel::kWarn);
  for (const char* name : {"debug", "info", "warn", "error", "off"}) {
    EXPECT_TRUE(ParseLogLevel(name).ok()) << name;
  }
  for (const char* name : {"trace", "INFO", "warning", ""}) {
    EXPECT_EQ(ParseLogLevel(name).status().reason(), "invalid_value") << name;
  }
}

TEST(Log, LevelsBelowTheChosenOneAreLeftOut) {
  auto lines = std::make_shared<Lines>();
  Logger log(LogLevel::kWarn, lines);
  log.Info("a");
  log.Warn("b");
  log.Error("c");
  EXPECT_EQ(lines->lines.size(), 2u);
  Logger off(LogLevel::kOff, lines);
  off.Error("d");
  EXPECT_EQ(lines->lines.size(), 2u);
  EXPECT_FALSE(off.Enabled(LogLevel::kError));
}

TEST(Log, NoValueCanForgeALineAFieldOrATerminalCommand) {
  auto lines = std::make_shared<Lines>();
  Logger log(LogLevel::kInfo, lines);
  for (const std::string& evil :
       {std::string("x\r\n2026-01-01T00:00:00.000Z INFO forged"), std::string("a\" status=200"),
        std::string("\x1b[2J\x07"), std::string("nul\0x", 5), std::string("\xff\xfe\xc3\xa9"),
        std::string("%s%n{}{0}"), std::string("\\")}) {
    log.Info("event", {{"value", evil}});
  }
  ASSERT_EQ(lines->lines.size(), 7u);
  for (const std::string& line : lines->lines) {
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << line;
  }
  EXPECT_EQ(Rest(lines->lines[1]), "INFO event value=\"a\\\" status=200\"");
  EXPECT_EQ(Rest(lines->lines[5]), "INFO event value=\"%s%n{}{0}\"");
}

TEST(Log, ValuesAreCut) {
  EXPECT_EQ(LogEscape(std::string(1000, 'x')).size(), 256u + 5u);
  EXPECT_EQ(LogEscape(std::string(256, 'x')), std::string(256, 'x'));
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  auto lines = std::make_shared<Lines>();
  Logger log(LogLevel::kInfo, lines);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 250; ++i)
        log.Info("e", {{"t", t}, {"text", std::string(50, static_cast<char>('a' + t))}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(lines->lines.size(), 1000u);
  for (const std::string& line : lines->lines)
    EXPECT_EQ(line.size(), 25 + std::string("INFO e t=0 text=").size() + 50);
}

}  // namespace
}  // namespace tutti
