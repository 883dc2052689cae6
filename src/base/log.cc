#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <time.h>

#include <array>
#include <mutex>

namespace tutti {
namespace {

constexpr char kHex[] = "0123456789abcdef";

bool IsPlain(unsigned char c) {
  constexpr std::string_view kOthers = "._:/+-,*[]{}";
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         kOthers.find(static_cast<char>(c)) != std::string_view::npos;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kOff:
      break;
  }
  return "OFF";
}

class CallbackSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CallbackSink(std::shared_ptr<Logger::Sink> lines) : lines_(std::move(lines)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_->Line({message.payload.data(), message.payload.size()});
  }
  void flush_() override {}
  const std::shared_ptr<Logger::Sink> lines_;
};

spdlog::sink_ptr OpenSink(const std::string& path) {
  if (!path.empty()) {
    try {  // the library reports by exception
      return std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    } catch (const spdlog::spdlog_ex&) {
    }
  }
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

// 2026-01-31T12:00:00.123Z
std::string TimeStamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now.tv_nsec / 1000000);
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return InvalidArgument("invalid_value", "a log level is one of debug, info, warn, error, off");
}

std::string LogEscape(std::string_view value, size_t max_bytes) {
  const bool cut = value.size() > max_bytes;
  if (cut) value = value.substr(0, max_bytes);
  std::string text;
  bool plain = !value.empty() && !cut;
  for (const char raw : value) {
    const auto c = static_cast<unsigned char>(raw);
    plain = plain && IsPlain(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += raw;
    } else if (c < 0x20 || c >= 0x7F) {  // bytes of other alphabets too: a line is ASCII
      text += "\\x";
      text += kHex[c >> 4];
      text += kHex[c & 15];
    } else {
      text += raw;
    }
  }
  if (plain) return text;
  return '"' + text + (cut ? "...\"" : "\"");
}

LogField::LogField(std::string_view field_key, double number)
    : key(field_key), value(fmt::format("{:.3f}", number)) {}

struct Logger::Impl {
  Impl(LogLevel least, spdlog::sink_ptr sink) : level(least), logger("tutti", std::move(sink)) {
    logger.set_level(ToSpdlog(least));
    logger.set_pattern("%v");
    logger.flush_on(spdlog::level::warn);
  }
  const LogLevel level;
  spdlog::logger logger;
};

Logger::Logger(LogLevel level, const std::string& path)
    : impl_(std::make_unique<Impl>(level, OpenSink(path))) {}
Logger::Logger(LogLevel level, std::shared_ptr<Sink> sink)
    : impl_(std::make_unique<Impl>(level, std::make_shared<CallbackSink>(std::move(sink)))) {}
Logger::~Logger() { Flush(); }

bool Logger::Enabled(LogLevel level) const {
  return level >= impl_->level && impl_->level != LogLevel::kOff;
}

void Logger::Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!Enabled(level)) return;
  std::string line = TimeStamp();
  line += ' ';
  line += LevelName(level);
  line += ' ';
  line += event;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    line += field.value;
  }
  impl_->logger.log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

void Logger::Flush() { impl_->logger.flush(); }

}  // namespace tutti
