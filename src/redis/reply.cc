#include "redis/reply.h"

#include <hiredis/read.h>

#include <new>
#include <utility>

namespace tutti::redis {
namespace {

Status NoReply(const char* why) {
  return Unavailable("redis_protocol", std::string("what came from Redis is no reply: ") + why);
}

}  // namespace

// hiredis calls back for each value, in the order in which it comes; an array before what is in it,
// so that a value's place in it exists. A callback that gives null ends the reply as without
// memory.
struct ReplyReader::Parser {
  explicit Parser(const ReplyLimits& most) : limits(most) {
    functions.createString = &CreateText;
    functions.createArray = &CreateArray;
    functions.createInteger = &CreateInteger;
    functions.createNil = &CreateNil;
    functions.freeObject = [](void*) {};  // they are all in `root`
    reader.reset(redisReaderCreateWithFunctions(&functions));
    if (reader != nullptr) reader->privdata = this;
  }

  // The target of the value of `task`: an element of its array, or the reply itself.
  static Reply* Place(const redisReadTask* task) {
    auto* self = static_cast<Parser*>(task->privdata);
    if (task->parent == nullptr) return &self->root;
    return &static_cast<Reply*>(task->parent->obj)->items[static_cast<size_t>(task->idx)];
  }

  static void* CreateText(const redisReadTask* task, char* bytes, size_t size) noexcept {
    auto* const self = static_cast<Parser*>(task->privdata);
    if (size > self->limits.bytes - self->bytes) return nullptr;
    self->bytes += size;
    try {
      Reply* const reply = Place(task);
      reply->kind = task->type == REDIS_REPLY_ERROR ? Reply::Kind::kError : Reply::Kind::kText;
      reply->text.assign(bytes, size);
      return reply;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  // `Size`: int, or size_t from hiredis 1.1 on.
  template <typename Size>
  static void* CreateArray(const redisReadTask* task, Size size) noexcept {
    auto* const self = static_cast<Parser*>(task->privdata);
    // The size of an array is announced before its items are sent, so it must be bounded before
    // memory is reserved. A negative one is too large as well.
    if (static_cast<size_t>(size) > self->limits.items - self->items) return nullptr;
    // From 1.0 on, hiredis itself takes any depth, and who frees the reply goes as deep.
    int depth = 0;
    for (const redisReadTask* each = task; each != nullptr; each = each->parent) ++depth;
    if (depth > self->limits.depth) return nullptr;
    try {
      Reply* const reply = Place(task);
      reply->kind = Reply::Kind::kArray;
      reply->items.resize(static_cast<size_t>(size));
      self->items += static_cast<size_t>(size);
      return reply;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  static void* CreateInteger(const redisReadTask* task, long long value) noexcept {
    Reply* const reply = Place(task);
    reply->kind = Reply::Kind::kInteger;
    reply->integer = value;
    return reply;
  }

  static void* CreateNil(const redisReadTask* task) noexcept {
    Reply* const reply = Place(task);
    reply->kind = Reply::Kind::kNil;
    return reply;
  }

  struct Free {
    void operator()(redisReader* made) const { redisReaderFree(made); }
  };
  const ReplyLimits limits;
  redisReplyObjectFunctions functions{};
  std::unique_ptr<redisReader, Free> reader;
  Reply root;        // of the reply that is being read
  size_t items = 0;  // of its arrays
  size_t bytes = 0;  // of its texts
};

ReplyReader::ReplyReader(const ReplyLimits& limits) : parser_(std::make_unique<Parser>(limits)) {}
ReplyReader::~ReplyReader() = default;

Status ReplyReader::Feed(std::string_view bytes) {
  redisReader* const reader = parser_->reader.get();
  if (reader == nullptr) return NoReply("no memory");
  // hiredis may keep parsed bytes; their values are counted instead.
  if (reader->len - reader->pos + bytes.size() > parser_->limits.bytes)
    return NoReply("it is too long");
  if (redisReaderFeed(reader, bytes.data(), bytes.size()) != REDIS_OK)
    return NoReply(reader->errstr);
  return OkStatus();
}

Result<std::optional<Reply>> ReplyReader::Next() {
  redisReader* const reader = parser_->reader.get();
  if (reader == nullptr) return NoReply("no memory");
  void* made = nullptr;
  if (redisReaderGetReply(reader, &made) != REDIS_OK) return NoReply(reader->errstr);
  if (made == nullptr) return std::optional<Reply>();
  parser_->items = parser_->bytes = 0;
  return std::optional<Reply>(std::exchange(parser_->root, Reply()));
}

bool ReplyReader::empty() const {
  const redisReader* const reader = parser_->reader.get();
  return reader != nullptr && reader->ridx < 0 && reader->pos == reader->len;
}

}  // namespace tutti::redis
