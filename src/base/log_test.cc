#include "base/log.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
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
  for (const char* name : {"info", "warn", "error", "off"}) {
    EXPECT_TRUE(ParseLogLevel(name).ok()) << name;
  }
  for (const char* name : {"debug", "INFO", "warning", ""}) {
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

// A sink that takes no line while the gate is shut.
class Gate final : public Logger::Sink {
 public:
  void Line(std::string_view line) override {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    lines.emplace_back(line);
  }
  void AwaitArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ > 0; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::vector<std::string> lines;  // after Flush()

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

TEST(Log, BlockedSinkDelaysNoCallerAndDroppedLinesAreCounted) {
  auto gate = std::make_shared<Gate>();
  Logger log(LogLevel::kInfo, gate, 4);
  log.Info("first");
  gate->AwaitArrival();
  for (int i = 0; i < 10; ++i) log.Info("e", {{"i", i}});  // would hang here if it waited
  gate->Open();
  log.Flush();
  std::vector<std::string> rest;
  for (const std::string& line : gate->lines) rest.push_back(Rest(line));
  EXPECT_EQ(rest, (std::vector<std::string>{"INFO first", "INFO e i=0", "INFO e i=1", "INFO e i=2",
                                            "INFO e i=3", "WARN log.dropped lines=6"}));
  log.Info("again");
  log.Flush();
  EXPECT_EQ(Rest(gate->lines.back()), "INFO again");
}

TEST(Log, WhatWaitsWhenTheLoggerEndsIsWritten) {
  auto gate = std::make_shared<Gate>();
  std::jthread opener;
  {
    Logger log(LogLevel::kInfo, gate, 100);
    for (int i = 0; i < 50; ++i) log.Info("e", {{"i", i}});
    opener = std::jthread([&] { gate->Open(); });
  }
  EXPECT_EQ(gate->lines.size(), 50u);
}

}  // namespace
}  // namespace tutti
