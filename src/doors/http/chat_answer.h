// ChatAnswer: what one frame of a chat is answered by, as far as that takes time: the turn of a
// message with its events, the events of a response from a place on, the word that one has ended,
// or the states of a job. Turns go on without it.
//
// Owned by its ChatDialect; its thread.
#pragma once

#include <cstdint>
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
  // Others that tell the same response to the same stream_id are given up for it.
  virtual void Supersede(const ChatAnswer& newer) = 0;
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
  // Of a message's answer; else absent.
  const std::optional<sessions::SessionKey>& key() const { return key_; }
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
  std::optional<std::string> word_;
  std::shared_ptr<JobFollow> job_;
  bool ended_ = false;
};

}  // namespace tutti::http
