// ChatAnswer: the answer to one frame of a chat, if the answer takes time: the turn of a message
// with its events, the events of a response from a position on, the notice that a response has
// ended, or the states of a job. A turn continues without its ChatAnswer.
//
// Owned by its ChatDialect; used on the connection's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "protocol/chat/chat_frame.h"
#include "protocol/responses/request.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/job_follow.h"
#include "server/http/handlers/response_feed.h"
#include "server/http/handlers/response_start.h"
#include "server/http/memory_budget.h"
#include "services/sessions/history.h"

namespace tutti::http {

class ChatAnswer;

// Interface of an answer to its dialect and the other answers of the connection.
class ChatHost {
 public:
  virtual void Send(std::string event, const protocol::FrameTag& tag) = 0;
  virtual void SendError(const Status& why, Connection::Origin origin,
                         const protocol::FrameTag& tag) = 0;
  // Reports that a message is refused; some refusals end the connection.
  virtual void Refuse(const Status& why, Connection::Origin origin,
                      const protocol::FrameTag& tag) = 0;
  // Ends the other answers that send the same response with the same stream_id; `newer` takes over
  // their dialog.
  virtual void Supersede(ChatAnswer& newer) = 0;
  // How much an answer may send now. Turns of a dialog are sent in order, each to its end before
  // the next continues; a waiting turn may only send that it has begun.
  enum class May { kNothing, kBegin, kAll };
  virtual May MaySend(const ChatAnswer& answer) const = 0;
  // Whether this connection still sends events of `response`: a notice of its end must follow them.
  virtual bool Sends(const responses::Response& response) const = 0;
  virtual void Changed() = 0;  // an answer has something to send, or has ended and may be deleted

 protected:
  ~ChatHost() = default;
};

class ChatAnswer {
 public:
  ChatAnswer(Connection& connection, ChatHost& host, protocol::FrameTag tag)
      : connection_(connection), host_(host), tag_(std::move(tag)) {}
  ChatAnswer(const ChatAnswer&) = delete;
  ChatAnswer& operator=(const ChatAnswer&) = delete;

  // --- one of these, once ---
  void Ask(const sessions::SessionKey& key, protocol::ResponsesCall call,
           ResponseStart::Given given, BudgetShare share);
  // Sends the events of a response after number `starting_after`. Errors: those of
  // ResponseCursor::Open.
  Status SendFrom(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  // Sends `word` when the response has ended, and nothing before. Errors: those of
  // ResponseCursor::Open.
  Status AwaitEnd(const std::shared_ptr<responses::Response>& response, std::string word);
  void Follow(std::string job_id, int64_t version);

  // Sends a few events, if there are any and the host has room. True: it sent something.
  bool Pump();
  void GiveUp() { ended_ = true; }
  bool ended() const { return ended_; }

  const protocol::FrameTag& tag() const { return tag_; }
  bool tells_events() const { return !ended_ && cursor_.has_value() && !word_.has_value(); }
  // The dialog of the answer, if it is known.
  const std::optional<sessions::SessionKey>& key() const { return key_; }
  void set_key(std::optional<sessions::SessionKey> key) { key_ = std::move(key); }
  bool follows_job() const { return job_ != nullptr; }
  bool begun() const { return begun_; }  // an event was sent
  // Number of the turn in its dialog; 0: none.
  int64_t turn() const;
  // Null if it is not known yet, or does not exist.
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
  const protocol::FrameTag tag_;
  std::optional<sessions::SessionKey> key_;
  BudgetShare share_;
  std::shared_ptr<ResponseStart> start_;
  std::optional<ResponseCursor> cursor_;
  std::deque<ResponseCursor::Event> read_;  // events read, but not sent yet
  bool begun_ = false;
  std::optional<std::string> word_;
  std::shared_ptr<JobFollow> job_;
  bool ended_ = false;
};

}  // namespace tutti::http
