// OpenAI dialect, outbound: stream events -> response objects and SSE frames. Pure; one object per
// call.
//
// A ResponseWriter is fed the events of each generation of its call in order and appends what the
// client is to see: nothing until the end for a JSON answer, whole SSE events for a stream. It is
// owned and used by one connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/types.h"
#include "base/status.h"
#include "wire/error.h"
#include "wire/openai_request.h"

namespace tutti::wire {

// The same in all objects of one response.
struct ResponseHead {
  std::string id;           // "chatcmpl-...", "cmpl-...", "gen-..."
  std::string model;        // the served name
  int64_t created_s = 0;    // unix seconds
  std::string fingerprint;  // of the weights
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  // One event of the generation of requests[prompt]. kEnd carries its usage and timings.
  virtual void OnEvent(int prompt, const api::StreamEvent& event, std::string* out) = 0;
  // After the kEnd of every generation, all of them OK.
  virtual void OnDone(std::string* out) = 0;
  // In place of OnDone, and only after something was sent: the error event of the dialect.
  virtual void OnError(const ErrorView& error, std::string* out) = 0;
};

// `echo_texts`: for completions with echo, the text of each prompt. The call must outlive the
// writer.
std::unique_ptr<ResponseWriter> MakeResponseWriter(const GenerationCall& call, ResponseHead head,
                                                   std::vector<std::string> echo_texts);

// A comment that keeps proxies and clients from timing out; never carries an id.
inline constexpr std::string_view kSsePing = ": ping\n\n";

void AppendUsage(const api::Usage& usage, std::string* out);  // the usage object

// How a token's bytes show as text: themselves, or bytes:\xe2\x80 when they are not UTF-8 on their
// own.
std::string TokenBytesAsText(std::string_view bytes);

}  // namespace tutti::wire
