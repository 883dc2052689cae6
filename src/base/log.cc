#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <time.h>

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/threads.h"

namespace tutti {
namespace {

constexpr size_t kQueueLines = 4096;  // 1 to 2 MiB; of a busy server some seconds
constexpr char kHex[] = "0123456789abcdef";

bool IsPlain(unsigned char c) {
  constexpr std::string_view kOthers = "._:/+-,*[]{}";
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         kOthers.find(static_cast<char>(c)) != std::string_view::npos;
}

// Names of a level as an option has it and as lines have it, by LogLevel.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kLevels = {
    {{"info", "INFO"}, {"warn", "WARN"}, {"error", "ERROR"}, {"off", "OFF"}}};

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

std::string Prefix(LogLevel level, std::string_view event) {
  std::string line = TimeStamp();
  line += ' ';
  line += kLevels[static_cast<size_t>(level)].second;
  line += ' ';
  line += event;
  return line;
}

// Levels are filtered before a line gets here: the library gets every line at the same level.
class Output {
 public:
  explicit Output(spdlog::sink_ptr sink) : logger_("tutti", std::move(sink)) {
    logger_.set_pattern("%v");
  }
  void Write(std::string_view line) {
    logger_.log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  }
  void Flush() { logger_.flush(); }

 private:
  spdlog::logger logger_;
};

// Queue of lines for an output that may block. Holds up to `most` lines, and as many again while
// the writer thread writes the previous ones.
class LineQueue {
 public:
  LineQueue(Output& output, size_t most)
      : output_(output), max_(most), thread_([this] { Main(); }) {}
  ~LineQueue() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyOne();
    thread_.join();
  }
  LineQueue(const LineQueue&) = delete;
  LineQueue& operator=(const LineQueue&) = delete;

  void Push(std::string line) {
    {
      const MutexLock lock(mutex_);
      if (lines_.size() >= max_) {
        ++dropped_;
        return;
      }
      lines_.push_back(std::move(line));
    }
    changed_.NotifyOne();
  }

  void Flush() {
    const MutexLock lock(mutex_);
    while (!lines_.empty() || writing_) written_.Wait(mutex_);
  }

 private:
  void Main() {
    NameThread("tutti-log");
    std::deque<std::string> lines;
    while (true) {
      size_t dropped = 0;
      {
        const MutexLock lock(mutex_);
        writing_ = false;
        written_.NotifyAll();
        while (lines_.empty() && !stopping_) changed_.Wait(mutex_);
        if (lines_.empty()) return;
        lines_.swap(lines);
        dropped = std::exchange(dropped_, 0);
        writing_ = true;
      }
      for (const std::string& line : lines) output_.Write(line);
      lines.clear();
      if (dropped > 0)
        output_.Write(Prefix(LogLevel::kWarn, "log.dropped") + " lines=" + std::to_string(dropped));
      output_.Flush();
    }
  }

  Output& output_;
  const size_t max_;
  Mutex mutex_;
  CondVar changed_, written_;
  std::deque<std::string> lines_ GUARDED_BY(mutex_);
  size_t dropped_ GUARDED_BY(mutex_) = 0;  // while `lines_` was full
  bool writing_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i].first == name) return static_cast<LogLevel>(i);
  }
  return InvalidArgument("invalid_value", "a log level is one of info, warn, error, off");
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
  Impl(LogLevel least, spdlog::sink_ptr sink, size_t queue_lines)
      : level(least), output(std::move(sink)) {
    if (queue_lines > 0) queue.emplace(output, queue_lines);
  }
  std::atomic<LogLevel> level;
  Output output;
  std::optional<LineQueue> queue;
};

Logger::Logger(LogLevel level, const std::string& path)
    : impl_(std::make_unique<Impl>(level, OpenSink(path), kQueueLines)) {}
Logger::Logger(LogLevel level, std::shared_ptr<Sink> sink, size_t queue_lines)
    : impl_(std::make_unique<Impl>(level, std::make_shared<CallbackSink>(std::move(sink)),
                                   queue_lines)) {}
Logger::~Logger() = default;

bool Logger::Enabled(LogLevel level) const {
  const LogLevel least = impl_->level.load(std::memory_order_relaxed);
  return level >= least && least != LogLevel::kOff;
}

void Logger::SetLevel(LogLevel level) { impl_->level.store(level, std::memory_order_relaxed); }

void Logger::Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!Enabled(level)) return;
  std::string line = Prefix(level, event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    line += field.value;
  }
  if (impl_->queue.has_value()) return impl_->queue->Push(std::move(line));
  impl_->output.Write(line);
}

void Logger::Flush() {
  if (impl_->queue.has_value()) impl_->queue->Flush();
  impl_->output.Flush();
}

}  // namespace tutti
