// ChatAnswer: what one frame of a chat is answered by, as far as that takes time: the turn of a
// message with its events, the events of a response from a place on, the word that one has ended,
// or the states of a job. Turns go on without it.
//
// Owned by its ChatDialect; its thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "doors/http/connection.h"
#include "doors/http/job_follow.h"
#include "doors/http/memory_budget.h"
#include "doors/http/response_cursor.h"
#include "doors/http/response_start.h"
#include "services/sessions/history.h"
#include "wire/chat_frame.h"
#include "wire/responses_request.h"

namespace tutti::http {

class ChatAnswer;

// What an answer needs of those beside it.
class ChatHost {
 public:
  virtual void Say(std::string event, const wire::FrameTag& tag) = 0;
  virtual void SayError(const Status& why, Connection::Origin origin,
                        const wire::FrameTag& tag) = 0;
  // Of a message: some refusals end the connection.
  virtual void Refuse(const Status& why, Connection::Origin origin, const wire::FrameTag& tag) = 0;
  // Others that tell the same response to the same stream_id are given up for it, which is in their
  // dialog then.
  virtual void Supersede(ChatAnswer& newer) = 0;
  // How much an answer may tell now: turns of one dialog are told in their order, each to its end
  // before the next goes on, but that one which waits may say so.
  enum class May { kNothing, kBegin, kAll };
  virtual May MayTell(const ChatAnswer& answer) const = 0;
  // Whether events of it are still being told here: a word about its end comes behind them.
  virtual bool Tells(const responses::Response& response) const = 0;
  virtual void Changed() = 0;  // there is something to tell, or it has ended; it may go then

 protected:
  ~ChatHost() = default;
};

class ChatAnswer {
 public:
  ChatAnswer(Connection& connection, ChatHost& host, wire::FrameTag tag)
      : connection_(connection), host_(host), tag_(std::move(tag)) {}
  ChatAnswer(const ChatAnswer&) = delete;
  ChatAnswer& operator=(const ChatAnswer&) = delete;

  // --- one of these, once ---
  void Ask(const sessions::SessionKey& key, wire::ResponsesCall call, ResponseStart::Given given,
           BudgetShare share);
  // The events of a response behind that one. Errors: those of ResponseCursor::Open.
  Status Tell(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  // `word` when it has ended, and nothing before. Errors: likewise.
  Status AwaitEnd(const std::shared_ptr<responses::Response>& response, std::string word);
  void Follow(std::string job_id, int64_t version);

  // Tells a few events, if there are some; true: it told any. While the host has room.
  bool Pump();
  void GiveUp() { ended_ = true; }
  bool ended() const { return ended_; }

  const wire::FrameTag& tag() const { return tag_; }
  bool tells_events() const { return !ended_ && cursor_.has_value() && !word_.has_value(); }
  // The dialog that it answers in, as far as that was said; else absent.
  const std::optional<sessions::SessionKey>& key() const { return key_; }
  void set_key(std::optional<sessions::SessionKey> key) { key_ = std::move(key); }
  bool follows_job() const { return job_ != nullptr; }
  bool begun() const { return begun_; }  // an event was told
  // Of its dialog; 0: of none.
  int64_t turn() const;
  // Null: not known yet, or none.
  std::shared_ptr<responses::Response> response() const {
    return cursor_.has_value() ? cursor_->response() : nullptr;
  }

 private:
  void OnStarted(const Status& why, Connection::Origin origin);
  Status Open(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  bool Fail(const Status& why);
  void End();

  Connection& connection_;
  ChatHost& host_;
  const wire::FrameTag tag_;
  std::optional<sessions::SessionKey> key_;
  BudgetShare share_;
  std::shared_ptr<ResponseStart> start_;
  std::optional<ResponseCursor> cursor_;
  std::deque<ResponseCursor::Event> read_;  // and not told yet
  bool begun_ = false;
  std::optional<std::string> word_;
  std::shared_ptr<JobFollow> job_;
  bool ended_ = false;
};

}  // namespace tutti::http
