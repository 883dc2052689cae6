#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "broker/broker.h"
#include "broker/thread_broker.h"
#include "redis/connection.h"

namespace tutti::broker {
namespace {

// Maximum length of one mailbox, above what its writers have under way. Redis drops the oldest
// entries beyond it.
constexpr const char* kOldestKept = "-4096";
// Reads that are asked for at once; each brings one packet, or nothing after a second.
constexpr size_t kReadsAtOnce = 32;
constexpr const char* kReadS = "1";

class RedisBroker final : public ThreadBroker {
 public:
  explicit RedisBroker(Access access) : access_(std::move(access)) {}
  ~RedisBroker() override { Stop(); }

 private:
  Status Connect(const Mailboxes& mailboxes) override {
    read_ = {"BLPOP", mailboxes.own};
    if (!mailboxes.shared.empty()) read_.push_back(mailboxes.shared);
    read_.emplace_back(kReadS);
    redis::ConnectionOptions options;
    options.url = {.user = access_.url.user,
                   .host = access_.url.host,
                   .port = access_.url.port,
                   .database = std::stoi(access_.url.space)};  // as ParseRedisUrl() gave it
    options.password = access_.password;
    options.connect_timeout = kPatience;
    options.reply.bytes = kMaxPacketBytes;
    ASSIGN_OR_RETURN(auto writer, redis::Connection::Open(options));
    ASSIGN_OR_RETURN(auto reader, redis::Connection::Open(options));
    {
      const MutexLock lock(mutex_);
      writer_ = std::move(writer);
      reader_ = std::move(reader);
    }
    heard_ = clock_.Now();
    return AskForPackets();
  }

  // The reads run all the time: one that finds nothing waits at the server.
  Status AskForPackets() {
    const std::vector<std::string_view> words(read_.begin(), read_.end());
    while (reader_->outstanding() < kReadsAtOnce)
      RETURN_IF_ERROR(reader_->Send(words, clock_.Now() + kPatience));
    return OkStatus();
  }

  void Disconnect() override {
    const MutexLock lock(mutex_);
    writer_.reset();
    reader_.reset();
  }
  void Interrupt() override {
    const MutexLock lock(mutex_);
    for (redis::Connection* one : {writer_.get(), reader_.get()}) {
      if (one != nullptr) one->Interrupt();
    }
  }

  Status Write(std::span<const Outgoing> packets) override {
    const std::string life =
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(kPacketLife).count());
    for (const Outgoing& each : packets) {
      const TimePoint until = clock_.Now() + kPatience;
      RETURN_IF_ERROR(Ask({"RPUSH", each.mailbox, each.packet}, until));
      RETURN_IF_ERROR(Ask({"LTRIM", each.mailbox, kOldestKept, "-1"}, until));
      RETURN_IF_ERROR(Ask({"PEXPIRE", each.mailbox, life}, until));
    }
    while (writer_->outstanding() > 0) {
      ASSIGN_OR_RETURN(const redis::Reply reply, writer_->Receive(clock_.Now() + kPatience));
      if (reply.is_error()) return redis::RefusedBy(reply);
    }
    return OkStatus();
  }
  Status Ask(std::initializer_list<std::string_view> words, TimePoint until) {
    return writer_->Send({words.begin(), words.size()}, until);
  }

  Status Read() override {
    while (true) {
      ASSIGN_OR_RETURN(std::optional<redis::Reply> reply, reader_->ReceiveNow());
      if (!reply) break;
      heard_ = clock_.Now();
      if (reply->is_error()) return redis::RefusedBy(*reply);
      // Two items: mailbox and packet; else the wait timed out.
      if (reply->items.size() == 2) Deliver(std::move(reply->items[1].text));
    }
    if (clock_.Now() - heard_ > kPatience)
      return Unavailable("redis_timeout", "the server does not answer");
    return AskForPackets();
  }

  void Descriptors(std::pair<int, int>* descriptors) const override {
    descriptors->first = reader_->descriptor();
  }

  const Access access_;
  const SteadyClock clock_;
  std::vector<std::string> read_;  // the command
  Mutex mutex_;                    // held to replace them, and by other threads
  std::unique_ptr<redis::Connection> writer_, reader_;
  TimePoint heard_;
};

}  // namespace

std::unique_ptr<Broker> MakeRedis(Access access) {
  return std::make_unique<RedisBroker>(std::move(access));
}

}  // namespace tutti::broker
