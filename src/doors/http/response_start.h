// ResponseStart: from a call of the Responses API that was understood to its response: what was
// said before is found, the dialog asked or the model. For whoever shows that response then.
//
// Its exchange's own, or of a part of it; its thread. Given up before it is done, it asks for
// nothing any more; while it lives, so does the asker's part in the response (Attachment).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "doors/http/connection.h"
#include "services/responses/responses.h"
#include "services/sessions/message.h"
#include "services/sessions/sessions.h"
#include "wire/responses_request.h"

namespace tutti::http {

class ResponseStart : public std::enable_shared_from_this<ResponseStart> {
 public:
  using Messages = responses::Responses::Messages;
  struct Given {
    std::optional<std::string> if_match;  // a version of the conversation
    // What previous_response_id stands for, where the asker remembers that itself.
    std::optional<Messages> said_before;
    // The dialog, where it is no conversation that the call names; and what is asked of its message
    // (sessions::Message::admit).
    std::optional<sessions::SessionKey> session = {};
    std::function<Result<sessions::Admitted>()> admit = {};
  };
  // `call`: its request is signed here, and has its id and deadline.
  ResponseStart(Connection& connection, wire::ResponsesCall call, Given given)
      : connection_(connection), call_(std::move(call)), given_(std::move(given)) {}

  // Calls `done` once, here or later; unless it was refused there is a response then. The origin is
  // that of the refusal. It may destroy this.
  using Done = std::function<void(const Status&, Connection::Origin)>;
  void Run(Done done);

  const wire::ResponsesCall& call() const { return call_; }  // of its request nothing is left
  const std::shared_ptr<responses::Response>& response() const { return response_; }
  // Of a turn that was accepted, also where its answer is no longer kept.
  const std::optional<sessions::Acceptance>& acceptance() const { return acceptance_; }
  // All that led to the answer but instructions, oldest first; of what is not stored alone.
  Messages TakeDialog() { return std::move(dialog_); }

 private:
  void OnChain(Result<Messages> chain);
  void FindConversation();
  void OnConversation(Status status);
  void Submit(std::optional<int64_t> version);
  void OnAccepted(const Result<sessions::Acceptance>& accepted);
  void OnFound(Result<std::shared_ptr<responses::Response>> found);
  void Begin();
  void End(const Status& status, Connection::Origin origin = Connection::Origin::kDoor);
  sessions::SessionKey Key() const;
  wire::ResponseState Skeleton() const;
  std::string ServedName() const;
  // `then` on this thread, unless this is gone by then.
  template <typename Value, typename Then>
  std::function<void(Value)> Later(Then then);

  Connection& connection_;
  wire::ResponsesCall call_;
  Given given_;
  Done done_;
  responses::Attachment attachment_;
  std::optional<sessions::Acceptance> acceptance_;
  std::shared_ptr<responses::Response> response_;
  Messages dialog_;
};

}  // namespace tutti::http
