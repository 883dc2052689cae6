// ResponseStart: starts the response to a parsed call of the Responses API: looks up the previous
// items, then submits to the dialog or to the model. Its owner then sends the response.
//
// Owned by a handler, or by a part of one; used on its thread. If it is destroyed before it is
// done, it makes no further requests. While it lives, it keeps the client's part in the response
// (Attachment).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/responses/request.h"
#include "server/http/connection/connection.h"
#include "services/responses/responses.h"
#include "services/sessions/message.h"
#include "services/sessions/sessions.h"

namespace tutti::http {

class ResponseStart : public std::enable_shared_from_this<ResponseStart> {
 public:
  using Messages = responses::Responses::Messages;
  struct Given {
    std::optional<std::string> if_match;  // expected version of the conversation
    // The items before previous_response_id, if the owner remembers them itself.
    std::optional<Messages> said_before;
    // The dialog, if it is not the conversation named in the call; and the admission check of its
    // message (sessions::Message::admit).
    std::optional<sessions::SessionKey> session = {};
    std::function<Result<sessions::Admitted>()> admit = {};
  };
  // `call`: its request gets the caller, id and deadline here.
  ResponseStart(Connection& connection, protocol::ResponsesCall call, Given given)
      : connection_(connection), call_(std::move(call)), given_(std::move(given)) {}

  // Calls `done` once, at once or later. On OK there is a response(); otherwise the origin is that
  // of the refusal. `done` may destroy this object.
  using Done = std::function<void(const Status&, Connection::Origin)>;
  void Run(Done done);

  const protocol::ResponsesCall& call() const { return call_; }  // its request has been moved out
  const std::shared_ptr<responses::Response>& response() const { return response_; }
  // Set if the turn was accepted, also if its answer is no longer kept.
  const std::optional<sessions::Acceptance>& acceptance() const { return acceptance_; }
  // All items that led to the answer except instructions, oldest first; only for responses that are
  // not stored.
  Messages TakeDialog() { return std::move(dialog_); }

 private:
  void OnChain(Result<Messages> chain);
  void FindConversation();
  void OnConversation(Status status);
  void Submit(std::optional<int64_t> version);
  void OnAccepted(const Result<sessions::Acceptance>& accepted);
  void OnFound(Result<std::shared_ptr<responses::Response>> found);
  void Begin();
  void End(const Status& status, Connection::Origin origin = Connection::Origin::kServer);
  sessions::SessionKey Key() const;
  protocol::ResponseState Skeleton() const;
  std::string ServedName() const;
  // Wraps `then` to run on this thread, unless this object is destroyed before.
  template <typename Value, typename Then>
  std::function<void(Value)> Later(Then then);

  Connection& connection_;
  protocol::ResponsesCall call_;
  Given given_;
  Done done_;
  responses::Attachment attachment_;
  std::optional<sessions::Acceptance> acceptance_;
  std::shared_ptr<responses::Response> response_;
  Messages dialog_;
};

}  // namespace tutti::http
