// ResponseWriter: the interface that renders the events of a call's generations as the HTTP answer
// of a dialect (OpenAI's, Anthropic's, `/generate`, `/infill`). It gets the events of each
// generation in order and appends output for the client: whole SSE events for a stream, or nothing
// until the end for a JSON answer. Pure; one object per call; its connection owns and uses it.
//
// Also here: the factory for the dialects of protocol/openai (Anthropic's is in
// anthropic/response.h), and what all dialects share. Not responses::ResponseWriter, which writes
// the log of a stored response.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/types.h"
#include "base/status.h"
#include "protocol/error.h"
#include "protocol/openai/request.h"

namespace tutti::protocol {

// The same in all objects of one response.
struct ResponseHead {
  std::string id;                   // "chatcmpl-...", "cmpl-...", "gen-..."
  std::string model;                // the served name
  int64_t created_s = 0;            // unix seconds
  std::string fingerprint;          // names the model's files; empty: not known, and left out
  double decision_temperature = 1;  // as ModelInfo has it; 0: not known
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  // Renders one event of the generation of requests[prompt]. kEnd has its usage and timings.
  virtual void OnEvent(int prompt, const api::StreamEvent& event, std::string* out) = 0;
  // Called after the kEnd of every generation, if all are OK.
  virtual void OnDone(std::string* out) = 0;
  // Called in place of OnDone, and only after output was sent: appends the dialect's error event.
  virtual void OnError(const ErrorView& error, std::string* out) = 0;
};

// The writer of a call that protocol/openai has parsed, in the call's dialect.
// `echo_texts`: for completions with echo, the text of each prompt. The call must outlive the
// writer.
std::unique_ptr<ResponseWriter> MakeResponseWriter(const GenerationCall& call, ResponseHead head,
                                                   std::vector<std::string> echo_texts);

// An SSE comment that keeps proxies and clients from timing out; has no id.
inline constexpr std::string_view kSsePing = ": ping\n\n";

void AppendUsage(const api::Usage& usage, std::string* out);  // the usage object

// Text form of a token's bytes: the bytes themselves, or bytes:\xe2\x80 if they are not valid
// UTF-8.
std::string TokenBytesAsText(std::string_view bytes);

}  // namespace tutti::protocol
