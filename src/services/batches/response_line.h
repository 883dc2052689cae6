// ResponseLine: a line that asks /v1/responses, run to its whole answer as any other call; and what
// is to be kept of it, as the route keeps what is `store`. The record goes to the store with the
// line's end, so there is a response of that name exactly where the line tells of it.
//
// Belongs to one thread at a time; destroying it cancels what it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/calls/buffered_request.h"
#include "services/responses/response_end.h"
#include "services/responses/response_writer.h"
#include "wire/responses_request.h"

namespace tutti::batches {

class ResponseLine final : public calls::BufferedRequest {
 public:
  // `owner`: tenant. `unix_s`: the wall clock. Errors: as BufferedRequest::Parse;
  // unsupported_parameter of `background` and `conversation`, whose turns have an order.
  static Result<std::unique_ptr<ResponseLine>> Parse(std::string_view body, std::string owner,
                                                     calls::CallContext context,
                                                     api::Inference& inference,
                                                     std::function<int64_t()> unix_s);

  // The stored response that it goes on from; empty: none. What led to that one is given to
  // GoOnFrom() before Begin().
  const std::string& previous() const { return call_.previous_response_id; }
  void GoOnFrom(const std::vector<api::ChatMessage>& said_before);

  Status Begin(std::shared_ptr<Waker> waker) override;
  std::optional<Answer> Poll() override;
  int64_t progress() const override { return tokens_; }
  void Cancel() override { generation_.Cancel(); }
  // Once Poll() has given an answer: what of it is to be kept. Null: nothing.
  std::shared_ptr<const responses::ResponseRecord> TakeRecord() { return std::move(kept_); }

 private:
  ResponseLine(wire::ResponsesCall call, std::string owner, calls::CallContext context,
               api::Inference& inference, std::function<int64_t()> unix_s);
  Answer End(const api::StreamEvent& end);
  void Add(const api::StreamEvent& event);
  void AddReasoning(const std::string& text);

  wire::ResponsesCall call_;
  const calls::CallContext context_;
  api::Inference& inference_;
  const std::function<int64_t()> unix_s_;
  api::Generation generation_;  // none before and after
  responses::ResponseRecord record_;
  std::shared_ptr<const responses::ResponseRecord> kept_;
  std::string text_;
  std::vector<wire::OutputCall> calls_;
  std::vector<wire::OutputReasoning> reasoning_;
  std::string blank_;  // white space that reasoning began with, until there is more of it
  api::FinishReason finish_ = api::FinishReason::kStop;
  int64_t tokens_ = 0;
};

}  // namespace tutti::batches
