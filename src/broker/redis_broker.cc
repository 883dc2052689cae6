#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "broker/brokers.h"
#include "broker/thread_broker.h"

namespace tutti::broker {
namespace {

constexpr timeval kPatienceOfRedis{
    std::chrono::duration_cast<std::chrono::seconds>(Broker::kPatience).count(), 0};
// Of one mailbox; more than its writers have under way. The oldest go.
constexpr const char* kMostLetters = "4096";
// Reads that are asked for at once; each brings one letter, or nothing after a second.
constexpr int kReadsAtOnce = 32;
constexpr const char* kReadS = "1";

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

Status FailedOf(const redisContext* context) {
  return Unavailable("broker_lost", context == nullptr || context->errstr[0] == '\0'
                                        ? "the connection ended"
                                        : std::string(context->errstr));
}

using Words = std::vector<std::string_view>;

bool AppendWords(redisContext* context, const Words& words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  return redisAppendCommandArgv(context, static_cast<int>(words.size()), texts.data(),
                                sizes.data()) == REDIS_OK;
}

// Waits for the next reply, kPatience at most. Errors: also what the server refused.
Result<Reply> NextReply(redisContext* context) {
  void* got = nullptr;
  if (redisGetReply(context, &got) != REDIS_OK || got == nullptr) return FailedOf(context);
  Reply reply(static_cast<redisReply*>(got));
  if (reply->type == REDIS_REPLY_ERROR)
    return Unavailable("broker_lost", std::string(reply->str, reply->len));
  return reply;
}

Status Ask(redisContext* context, const Words& words) {
  if (!AppendWords(context, words)) return FailedOf(context);
  return NextReply(context).status();
}

class RedisBroker final : public ThreadBroker {
 public:
  explicit RedisBroker(Access access) : access_(std::move(access)) {}
  ~RedisBroker() override { Stop(); }

 private:
  Status Connect(const Mailboxes& mailboxes) override {
    read_ = {"BLPOP", mailboxes.own};
    if (!mailboxes.shared.empty()) read_.push_back(mailboxes.shared);
    read_.emplace_back(kReadS);
    RETURN_IF_ERROR(Open(&writer_));
    RETURN_IF_ERROR(Open(&reader_));
    heard_ = clock_.Now();
    asked_ = 0;
    return AskForLetters();
  }

  Status Open(Context* context) const {
    context->reset(
        redisConnectWithTimeout(access_.url.host.c_str(), access_.url.port, kPatienceOfRedis));
    if (*context == nullptr || (*context)->err != 0) return FailedOf(context->get());
    if (redisSetTimeout(context->get(), kPatienceOfRedis) != REDIS_OK)
      return FailedOf(context->get());
    redisEnableKeepAlive(context->get());
    if (!access_.password.empty()) {
      RETURN_IF_ERROR(access_.url.user.empty()
                          ? Ask(context->get(), {"AUTH", access_.password})
                          : Ask(context->get(), {"AUTH", access_.url.user, access_.password}));
    }
    return Ask(context->get(), {"SELECT", access_.url.space});
  }

  // The reads run all the time: one that finds nothing waits at the server.
  Status AskForLetters() {
    const Words words(read_.begin(), read_.end());
    for (; asked_ < kReadsAtOnce; ++asked_) {
      if (!AppendWords(reader_.get(), words)) return FailedOf(reader_.get());
    }
    for (int done = 0; done == 0;) {
      if (redisBufferWrite(reader_.get(), &done) != REDIS_OK) return FailedOf(reader_.get());
    }
    return OkStatus();
  }

  void Disconnect() override {
    writer_.reset();
    reader_.reset();
  }

  Status Write(std::span<const Outgoing> letters) override {
    const std::string life =
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(kLetterLife).count());
    const std::string last = std::string("-") + kMostLetters;
    redisContext* context = writer_.get();
    for (const Outgoing& each : letters) {
      if (!AppendWords(context, {"RPUSH", each.mailbox, each.letter}) ||
          !AppendWords(context, {"LTRIM", each.mailbox, last, "-1"}) ||
          !AppendWords(context, {"PEXPIRE", each.mailbox, life}))
        return FailedOf(context);
    }
    for (size_t i = 0; i < letters.size() * 3; ++i) RETURN_IF_ERROR(NextReply(context).status());
    return OkStatus();
  }

  Status Read() override {
    redisContext* context = reader_.get();
    // What is there, without waiting.
    pollfd polled{context->fd, POLLIN, 0};
    if (poll(&polled, 1, 0) > 0 && redisBufferRead(context) != REDIS_OK) return FailedOf(context);
    while (true) {
      void* got = nullptr;
      if (redisGetReplyFromReader(context, &got) != REDIS_OK) return FailedOf(context);
      if (got == nullptr) break;
      const Reply reply(static_cast<redisReply*>(got));
      --asked_;
      heard_ = clock_.Now();
      if (reply->type == REDIS_REPLY_ERROR)
        return Unavailable("broker_lost", std::string(reply->str, reply->len));
      if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) continue;  // nothing came
      const redisReply* letter = reply->element[1];
      if (letter->type == REDIS_REPLY_STRING && letter->len <= kMostLetterBytes)
        Deliver(std::string(letter->str, letter->len));
    }
    if (clock_.Now() - heard_ > kPatience)
      return Unavailable("broker_lost", "the server does not answer");
    return AskForLetters();
  }

  void Descriptors(std::pair<int, int>* descriptors) const override {
    descriptors->first = reader_->fd;
  }

  const Access access_;
  const SteadyClock clock_;
  std::vector<std::string> read_;  // the command
  Context writer_, reader_;
  int asked_ = 0;  // reads whose replies have not come
  TimePoint heard_;
};

}  // namespace

std::unique_ptr<Broker> MakeRedis(Access access) {
  return std::make_unique<RedisBroker>(std::move(access));
}

}  // namespace tutti::broker
