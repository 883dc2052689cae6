#include "app/conversation_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "api/names.h"
#include "base/threads.h"
#include "protocol/json/json_writer.h"
#include "protocol/responses/events.h"

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

constexpr size_t kMaxLines = 1000, kMaxTextBytes = 64 << 10;

std::string TimeText(int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char rest[8];
  std::snprintf(rest, sizeof rest, ".%03dZ", static_cast<int>(unix_ms % 1000));
  return std::string(text, size) + rest;
}

// The beginning of a text that is written, in whole characters.
std::string_view Head(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return text;
  size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

Status IoError(const std::string& file) {
  return Unavailable("io_error", file + ": " + std::generic_category().message(errno));
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

// The file and its thread. A failing disk is logged once, and the lines are lost.
class ConversationLog::Writer {
 public:
  Writer(std::string file, int64_t max_bytes, Logger* log)
      : file_(std::move(file)), max_bytes_(max_bytes), log_(*log) {}
  ~Writer() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (descriptor_ >= 0) close(descriptor_);
  }

  Status Start() {
    if (!OpenFile()) return IoError(file_);
    try {
      thread_ = std::thread([this] { Main(); });
    } catch (const std::system_error&) {
      return Unavailable("overloaded", "cannot start a thread for " + file_);
    }
    return OkStatus();
  }
  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kMaxLines) {
      ++dropped_;
      return;
    }
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  void Flush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return lines_.empty() && !writes_; });
  }

 private:
  bool OpenFile() {
    descriptor_ = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat info {};
    if (descriptor_ < 0 || fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    // An existing file may have wider permissions.
    if (fchmod(descriptor_, 0600) != 0) return false;
    bytes_ = info.st_size;
    return true;
  }
  void Rotate() {
    close(descriptor_);
    const auto older = [this](int number) { return file_ + "." + std::to_string(number); };
    for (int i = kOlderFiles; i > 1; --i) (void)rename(older(i - 1).c_str(), older(i).c_str());
    (void)rename(file_.c_str(), older(1).c_str());
    if (!OpenFile()) descriptor_ = -1;
  }
  void WriteLine(const std::string& line) {
    const auto size = static_cast<int64_t>(line.size());
    if (bytes_ > 0 && bytes_ + size > max_bytes_) Rotate();
    if (descriptor_ >= 0 && write(descriptor_, line.data(), line.size()) == size) {
      bytes_ += size;
    } else if (!std::exchange(failed_, true)) {
      log_.Error("conversations.not_written", {{"why", IoError(file_).message()}});
    }
  }
  void Main() {
    NameThread("tutti-debug");
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stops_ || !lines_.empty(); });
      if (lines_.empty()) return;
      std::deque<std::string> lines = std::exchange(lines_, {});
      const uint64_t dropped = std::exchange(dropped_, 0);
      writes_ = true;
      lock.unlock();
      for (const std::string& line : lines) WriteLine(line);
      if (dropped > 0) WriteLine("{\"left_out\":" + std::to_string(dropped) + "}\n");
      lock.lock();
      writes_ = false;
      changed_.notify_all();
    }
  }

  const std::string file_;
  const int64_t max_bytes_;
  Logger& log_;
  int descriptor_ = -1;  // of the thread, once it runs
  int64_t bytes_ = 0;
  bool failed_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  uint64_t dropped_ = 0;
  bool stops_ = false, writes_ = false;
  std::thread thread_;
};

Result<std::unique_ptr<ConversationLog>> ConversationLog::Open(Options options, const Clock* clock,
                                                               std::function<int64_t()> unix_ms,
                                                               Logger* log) {
  if (options.session.empty()) {
    return InvalidArgument("invalid_value",
                           "debug.conversations also needs debug.session: whose conversation "
                           "is to be written down? (* means everybody's)")
        .WithParam("debug.session");
  }
  auto writer = std::make_unique<Writer>(options.file, options.file_bytes, log);
  RETURN_IF_ERROR(writer->Start());
  log->Warn("conversations.written", {{"file", options.file},
                                      {"session", options.session},
                                      {"for_s", ToMillis(options.time) / 1000}});
  return std::unique_ptr<ConversationLog>(
      new ConversationLog(std::move(options), clock, std::move(unix_ms), log, std::move(writer)));
}

ConversationLog::ConversationLog(Options options, const Clock* clock,
                                 std::function<int64_t()> unix_ms, Logger* log,
                                 std::unique_ptr<Writer> writer)
    : options_(std::move(options)),
      clock_(*clock),
      unix_ms_(std::move(unix_ms)),
      log_(*log),
      until_(clock->Now() + options_.time),
      writer_(std::move(writer)) {}

ConversationLog::~ConversationLog() = default;

void ConversationLog::Flush() { writer_->Flush(); }

bool ConversationLog::Follows(const sessions::SessionKey& key) {
  if (over_) return false;
  if (clock_.Now() >= until_) {
    over_ = true;
    log_.Warn("conversations.ended", {{"file", options_.file}});
    return false;
  }
  return options_.session == "*" || options_.session == key.session;
}

void ConversationLog::OnAccepted(const sessions::SessionKey& key, int64_t turn,
                                 const sessions::Message& message) {
  if (!Follows(key)) return;
  if (message.system_prompt.has_value()) Write(key, turn, "system", *message.system_prompt, "");
  for (const api::ChatMessage& each : message.input)
    Write(key, turn, api::RoleName(each.role), each.content, "");
}

void ConversationLog::OnEnded(const sessions::SessionKey& key, int64_t turn,
                              const protocol::ResponseState& end) {
  if (!Follows(key)) return;
  Write(key, turn, "assistant", end.text, protocol::ResponseStatusName(end.status));
}

void ConversationLog::Write(const sessions::SessionKey& key, int64_t turn, std::string_view role,
                            std::string_view text, std::string_view status) {
  const std::string_view head = Head(text);
  std::string line;
  protocol::JsonWriter json(&line);
  json.BeginObject().Member("time", TimeText(unix_ms_())).Member("tenant", key.tenant);
  json.Member("project", key.project).Member("session", key.session).Member("turn", turn);
  json.Member("role", role).Member("text", Redact(head));
  if (head.size() < text.size()) json.Member("cut", true);
  if (!status.empty()) json.Member("status", status);
  json.EndObject();
  line += '\n';
  writer_->Add(std::move(line));
}

}  // namespace tutti::app
