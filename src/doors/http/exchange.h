// Exchange: what happens between a request and its answer. Made by MakeExchange() for the route,
// owned by its Connection, used on its thread; destroying it gives up the request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "doors/http/memory_budget.h"
#include "doors/http/response.h"
#include "doors/http/routes.h"
#include "services/batches/files.h"

namespace tutti::http {

class Connection;

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Start() = 0;  // may answer at once
  virtual void Pump() {}     // streams have grown, or the socket has taken bytes
  virtual TimePoint Due() const { return TimePoint::max(); }
  virtual void OnTimer(TimePoint) {}  // at or after Due()
  // Behind Connection::BeginTunnel(): what the client sends. Returns how much was taken from the
  // front; the rest is shown again, with what follows, once it asks for it (ReadOn()).
  virtual size_t OnBytes(std::string_view bytes) { return bytes.size(); }
  // Of a route that takes uploads: begun when the head is there, it is given the body as it comes
  // and told when it is over. Once it has answered there is no more of either.
  virtual void OnBody(std::string /*bytes*/) {}
  virtual void OnBodyEnd() {}
  // False: nothing more is read before Connection::ReadBody().
  virtual bool WantsBody() const { return true; }
  // Whether a comment of server-sent events may be written into its stream at any time.
  virtual bool StreamsEvents() const { return true; }
  // What the connection is about to answer, whole; or that it will be a stream. Both before
  // anything of it is written.
  virtual void OnAnswer(int /*status*/, const HeaderList& /*headers*/,
                        const std::string& /*body*/) {}
  virtual void OnStream() {}
  virtual void OnDrain() {}  // likewise: the door stops as soon as nothing is answered any more
};

std::unique_ptr<Exchange> MakeExchange(const Route& route, Connection& connection);
// Of a request that does not come again, nor for later.
std::unique_ptr<Exchange> MakeRouteExchange(const Route& route, Connection& connection);

// The four generating routes (generation_exchange.cc), those of encoders (encoding_exchange.cc),
// and the tokenizer routes (tokenizer_exchange.cc).
std::unique_ptr<Exchange> MakeGenerationExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeEncodingExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeTokenizerExchange(RouteId route, Connection& connection);
// Of the Responses API: making one (responses_exchange.cc), and what can be done with one that is
// there (stored_response_exchange.cc).
std::unique_ptr<Exchange> MakeResponsesExchange(Connection& connection);
// The same, and chat, over WebSocket (socket_exchange.cc).
std::unique_ptr<Exchange> MakeSocketExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeStoredResponseExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeConversationsExchange(RouteId route, Connection& connection);
// Durable jobs: a call that is accepted for later (respond_async_exchange.cc), and what can be done
// with one that is there (jobs_exchange.cc).
bool WantsJob(const Route& route, Connection& connection);
std::unique_ptr<Exchange> MakeRespondAsyncExchange(RouteId route, Connection& connection);
// Requests that may come again (repeat_exchange.cc).
bool MayComeAgain(const Route& route, Connection& connection);
std::unique_ptr<Exchange> MakeRepeatExchange(const Route& route, Connection& connection);
std::unique_ptr<Exchange> MakeJobsExchange(RouteId route, Connection& connection);
// Files: uploads and downloads (file_transfer_exchange.cc), the rest of their routes and those of
// batches (batches_exchange.cc).
std::unique_ptr<Exchange> MakeUploadExchange(Connection& connection);
std::unique_ptr<Exchange> MakeFileContentExchange(Connection& connection);
// A file as the answer, of that media type. `open` is called once and gives the file to what it is
// called with, on any thread.
using OpenDownload =
    std::function<void(std::function<void(Result<batches::Files::Content>)> opened)>;
std::unique_ptr<Exchange> MakeDownloadExchange(Connection& connection, std::string media_type,
                                               OpenDownload open);
std::unique_ptr<Exchange> MakeFilesExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeBatchesExchange(RouteId route, Connection& connection);
// Anthropic's message batches (message_batches_exchange.cc).
std::unique_ptr<Exchange> MakeMessageBatchesExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeMessageBatchResultsExchange(Connection& connection);
// Those of KServe v2: questions (kserve_exchange.cc), one answer (kserve_infer_exchange.cc), a
// stream (kserve_stream_exchange.cc).
std::unique_ptr<Exchange> MakeKserveExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeKserveInferExchange(RouteId route, Connection& connection);
std::unique_ptr<Exchange> MakeKserveStreamExchange(Connection& connection);

// Bytes of JSON that an io thread parses itself.
inline constexpr size_t kInlineJsonBytes = 16 << 10;

// Names of unknown fields into x-tutti-ignored: "a, b".
void AddIgnored(const std::vector<std::string>& names, HeaderList* headers);
// Why an answer of so many bytes cannot be held.
Status NoRoomForAnswer(size_t bytes, const MemoryBudget& budget);
// Of an answer in JSON.
HeaderList JsonHeaders(const std::vector<std::string>& ignored);

}  // namespace tutti::http
