// ResponseLine: a batch line of /v1/responses, run to its complete answer like any other call. With
// `store` it makes the record of a stored response. The record is stored in the transaction that
// ends the line, so the response exists exactly if the line's answer names it.
//
// For use by one thread at a time; the destructor cancels the generation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/responses/request.h"
#include "services/calls/buffered_request.h"
#include "services/responses/call_state.h"
#include "services/responses/response_writer.h"

namespace tutti::batches {

class ResponseLine final : public calls::BufferedRequest {
 public:
  // `owner`: tenant. `unix_s`: the wall clock. Errors: as BufferedRequest::Parse;
  // unsupported_parameter of `background` and `conversation`, whose turns have an order.
  static Result<std::unique_ptr<ResponseLine>> Parse(std::string_view body, std::string owner,
                                                     calls::CallContext context,
                                                     api::Inference& inference,
                                                     std::function<int64_t()> unix_s);

  // Id of the stored response that this one continues; empty: none. Its messages are given to
  // GoOnFrom() before Begin().
  const std::string& previous() const { return call_.previous_response_id; }
  void GoOnFrom(const std::vector<api::ChatMessage>& said_before);

  Status Begin(std::shared_ptr<Waker> waker) override;
  std::optional<Answer> Poll() override;
  int64_t progress() const override { return tokens_; }
  void Cancel() override { generation_.Cancel(); }
  // The record to store, once Poll() has returned an answer. Null: none.
  std::shared_ptr<const responses::ResponseRecord> TakeRecord() { return std::move(kept_); }

 private:
  ResponseLine(protocol::ResponsesCall call, std::string owner, calls::CallContext context,
               api::Inference& inference, std::function<int64_t()> unix_s);
  Answer End(const api::StreamEvent& end);
  void Add(const api::StreamEvent& event);
  void AddReasoning(const std::string& text);

  protocol::ResponsesCall call_;
  const calls::CallContext context_;
  api::Inference& inference_;
  const std::function<int64_t()> unix_s_;
  api::Generation generation_;  // none before and after
  responses::ResponseRecord record_;
  std::shared_ptr<const responses::ResponseRecord> kept_;
  std::string text_;
  std::vector<protocol::OutputCall> calls_;
  std::vector<protocol::OutputReasoning> reasoning_;
  std::string blank_;  // white space that reasoning began with, until there is more of it
  api::FinishReason finish_ = api::FinishReason::kStop;
  int64_t tokens_ = 0;
};

}  // namespace tutti::batches
