// tutti.v1: Generate, a stream of text.
#include <tutti/v1/tutti.pb.h>

#include <string>
#include <utility>
#include <vector>

#include "api/finish_reason.h"
#include "server/counting/request_counts.h"
#include "server/grpc/generate_request.h"
#include "server/grpc/services.h"
#include "server/grpc/unary.h"
#include "services/auth/caller.h"

namespace tutti::rpc {
namespace {

// Bytes of text, reasoning and arguments that wait in messages which were not written yet.
constexpr size_t kMaxPendingBytes = 64 << 10;

class GenerateHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& stream) override {
    v1::GenerateRequest message;
    if (!message.ParseFromZeroCopyStream(&stream)) return call_.Finish(Unreadable());
    Result<api::GenerateRequest> request = ReadGenerateRequest(message);
    if (!request.ok()) return call_.Finish(request.status());
    request->request_id = call_.info().request_id;
    request->caller = auth::CallerOf(*call_.info().principal);
    request->route = "grpc.generate";
    request->cache = call_.cache_control();
    request->cache_report = call_.NewCacheReport();
    request->deadline = call_.info().deadline;
    choices_.resize(static_cast<size_t>(request->n));
    Result<api::Generation> generation =
        call_.context().deps.inference->Generate(*std::move(request), call_.waker());
    if (!generation.ok()) return call_.Finish(generation.status());
    generation_ = *std::move(generation);
    Pump();
  }
  void OnEnd() override {
    if (!generation_) call_.Finish(Unreadable());
  }
  void OnWritten() override {
    writing_ = false;
    Pump();
  }
  bool waits() const override { return static_cast<bool>(generation_); }
  int unprepared() const override {
    return generation_ && generation_.stream().size() == 0 ? 1 : 0;
  }

  // Writes one message at a time; output that arrives meanwhile goes into the next message of its
  // choice.
  void Pump() override {
    if (!generation_ || writing_) return;
    Take();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[next_];
      if (choice.news) return Send(choice);
      next_ = (next_ + 1) % choices_.size();
    }
    if (!ended_) return;
    if (!generation_.stream().status().ok()) {
      return call_.Finish(generation_.stream().status());
    }
    if (std::exchange(told_usage_, true)) return call_.Finish(OkStatus());
    v1::GenerateResponse response;
    response.mutable_usage()->set_prompt_tokens(usage_.prompt_tokens);
    response.mutable_usage()->set_cached_tokens(usage_.cached_tokens);
    response.mutable_usage()->set_completion_tokens(usage_.completion_tokens);
    response.mutable_usage()->set_reasoning_tokens(usage_.reasoning_tokens);
    writing_ = true;
    call_.Write(response);
  }

 private:
  struct Choice {
    v1::GenerateResponse unsent;
    bool news = false;
  };

  static size_t BytesOf(const std::vector<api::ToolCallDelta>& deltas) {
    size_t bytes = 0;
    for (const api::ToolCallDelta& delta : deltas)
      bytes += delta.id.size() + delta.name.size() + delta.arguments.size();
    return bytes;
  }

  // Pieces of one call that wait for the same message are joined.
  static void Append(const api::ToolCallDelta& delta, v1::GenerateResponse* response) {
    const int count = response->tool_calls_size();
    v1::ToolCall* call = count > 0 ? response->mutable_tool_calls(count - 1) : nullptr;
    if (call == nullptr || call->index() != delta.index) {
      call = response->add_tool_calls();
      call->set_index(delta.index);
    }
    if (!delta.id.empty()) call->set_id(delta.id);
    if (!delta.name.empty()) call->set_name(delta.name);
    call->mutable_arguments()->append(delta.arguments);
  }

  void Take() {
    for (size_t bytes = 0; bytes < kMaxPendingBytes;) {
      const api::StreamEvent* event = generation_.Next();
      if (event == nullptr) return;
      const size_t size = event->text.size() + event->reasoning.size() + BytesOf(event->tool_calls);
      bytes += size;
      generation_.Consumed(event->text.size());
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        ended_ = true;
        usage_ = event->usage;
        if (generation_.stream().status().ok())
          counting::CountStages(event->timings, call_.context().deps.metrics);
        return;
      }
      if (event->kind == api::StreamEvent::Kind::kStarted) continue;
      Choice& choice = choices_[static_cast<size_t>(event->choice)];
      choice.unsent.set_choice(event->choice);
      choice.unsent.mutable_text()->append(event->text);
      choice.unsent.mutable_reasoning()->append(event->reasoning);
      for (const api::ToolCallDelta& delta : event->tool_calls) Append(delta, &choice.unsent);
      choice.news = choice.news || size > 0;
      if (event->kind != api::StreamEvent::Kind::kChoiceEnd) continue;
      choice.news = true;
      choice.unsent.set_finish_reason(std::string(api::FinishReasonName(event->finish_reason)));
      if (const auto* token = std::get_if<TokenId>(&event->stop_reason)) {
        choice.unsent.set_stop_reason(std::to_string(*token));
      } else if (const auto* text = std::get_if<std::string>(&event->stop_reason)) {
        choice.unsent.set_stop_reason(*text);
      }
    }
  }

  void Send(Choice& choice) {
    writing_ = true;
    call_.Write(choice.unsent);
    choice.unsent.Clear();
    choice.news = false;
    next_ = (next_ + 1) % choices_.size();
  }

  api::Generation generation_;
  std::vector<Choice> choices_;
  size_t next_ = 0;  // whose turn it is
  bool writing_ = false, ended_ = false, told_usage_ = false;
  api::Usage usage_;
};

}  // namespace

std::unique_ptr<CallHandler> MakeGenerate(Call& call) {
  return std::make_unique<GenerateHandler>(call);
}

}  // namespace tutti::rpc
