// ResponseWriter: writes the events of a response to its log. The events depend only on the calls
// to the writer. A log can therefore be rebuilt with the same event numbers from the stored record
// (Replay), and a run repeated after a crash with the same seed writes the same log. Not
// protocol::ResponseWriter, which renders the answer of one call for its client.
//
//   [accepted] created [queued] [context.truncated] [in_progress]
//   [item added, part added, text delta ..., [text done, part done, item done]] ...
//   [item added, arguments delta ..., [arguments done, item done]] ...   terminal
//
// `queued`: background responses and turns of dialogs. Items of the output, messages, reasoning and
// calls, begin in any order; one that begins ends the item before it. Reasoning has the events of a
// message, with deltas of its own type. One delta for each piece of text, reasoning or arguments
// that the model's stream gives; reasoning that is white space alone gives no item. The `done`
// events of the last item follow an answer that ended well; one that completed without text and
// calls has an empty message. Belongs to the strand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/responses/events.h"
#include "services/responses/response.h"

namespace tutti::responses {

// Everything that is needed to rebuild the log of an ended response.
struct ResponseRecord {
  ResponseBase base;
  protocol::ResponseState end;   // final
  std::vector<uint32_t> pieces;  // bytes of each delta, item after item
  bool begun = false;            // its prompt was read
  DroppedContext dropped;
};

class ResponseWriter {
 public:
  explicit ResponseWriter(std::shared_ptr<Response> response) : response_(std::move(response)) {}

  void Open();                                    // first
  void Truncated(const DroppedContext& dropped);  // at most once, before Begin()
  void Begin();                                   // the prompt was read
  void Reason(std::string_view text);             // not empty
  // Not empty. `tokens`: those of the text, if log-probabilities were asked for.
  void Piece(std::string_view text, std::vector<api::TokenLogprobs> tokens = {});
  void Call(const api::ToolCallDelta& delta);  // more of the last call, or the next one's first
  // Exactly once, last. `end` is final, with the same text, calls and reasoning.
  void End(const protocol::ResponseState& end);

  bool begun() const { return begun_; }
  const std::shared_ptr<Response>& response() const { return response_; }
  ResponseRecord Record(const protocol::ResponseState& end) const;

 private:
  void Add(protocol::ResponseEvent event);
  void AddLifecycle(protocol::ResponseState state, bool created = false);
  size_t items() const { return messages_ + thoughts_ + calls_; }
  void OpenMessage();
  void OpenReasoning();
  void AddOpened(protocol::OutputItem item);
  void CloseItem(const protocol::ResponseState& state, std::string_view status);

  std::shared_ptr<Response> response_;
  std::vector<uint32_t> pieces_;
  bool begun_ = false;
  enum class OpenItem : uint8_t { kNone, kMessage, kReasoning, kCall };
  OpenItem open_ = OpenItem::kNone;  // the item that was added last and has no `done` events
  size_t messages_ = 0, thoughts_ = 0, calls_ = 0;  // items of each kind that were added
  std::string blank_;  // white space that reasoning began with, until there is more of it
};

std::shared_ptr<Response> Replay(const ResponseRecord& record, size_t log_bytes);

}  // namespace tutti::responses
