// Handler: handles one request, from its head to its answer. Made by MakeHandler() for the route,
// owned by its Connection, used on the connection's thread. The destructor cancels the request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/http/connection/http_server.h"
#include "server/http/connection/response.h"
#include "server/http/routes.h"
#include "services/batches/files.h"

namespace tutti::http {

class Connection;

class Handler {
 public:
  virtual ~Handler() = default;
  virtual void Start() = 0;  // may answer at once
  virtual void Pump() {}     // streams have grown, or the socket has accepted bytes
  virtual TimePoint Due() const { return TimePoint::max(); }
  virtual void OnTimer(TimePoint) {}  // at or after Due()
  // After Connection::BeginTunnel(): bytes from the client. Returns the number of consumed bytes;
  // the rest is passed again, with the bytes after it, when the handler calls ReadOn().
  virtual size_t OnBytes(std::string_view bytes) { return bytes.size(); }
  // For upload routes: the handler starts when the head has arrived, and gets the body in pieces
  // and then its end. After it has answered, it gets no more calls.
  virtual void OnBody(std::string /*bytes*/) {}
  virtual void OnBodyEnd() {}
  // False: nothing more is read before Connection::ReadBody().
  virtual bool WantsBody() const { return true; }
  // Whether comments of server-sent events may be inserted into its stream at any time.
  virtual bool StreamsEvents() const { return true; }
  // Called before any byte of the answer is written: with a complete answer, or, OnStream(), before
  // a streamed one.
  virtual void OnAnswer(int /*status*/, const HeaderList& /*headers*/,
                        const std::string& /*body*/) {}
  virtual void OnStream() {}
  virtual void OnDrain() {}  // the server stops once no request is being answered
};

// Whether a server with these dependencies offers the routes that need it.
bool Offers(const HttpServer::Dependencies& deps, Needs needs);

std::unique_ptr<Handler> MakeHandler(const Route& route, Connection& connection);
// Makes the handler of a request that is neither a repetition (TakesIdempotencyKey) nor a job
// (WantsJob).
std::unique_ptr<Handler> MakeRouteHandler(const Route& route, Connection& connection);

// Answers that are known at once: models, health, metrics (handler.cc).
std::unique_ptr<Handler> MakeImmediateHandler(RouteId route, Connection& connection);
// Changes of the server by its operator (admin_handler.cc); keys, users, jobs and batches of all
// tenants (operator_handler.cc).
std::unique_ptr<Handler> MakeAdminHandler(RouteId route, Connection& connection);
// The live state, once or as events, and the traces of a request (live_handler.cc).
std::unique_ptr<Handler> MakeLiveHandler(RouteId route, Connection& connection);
// GET /, which browsers get the page from, and the page's files (web/web_handler.cc).
std::unique_ptr<Handler> MakeRootHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeWebHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeOperatorHandler(RouteId route, Connection& connection);
// The caller itself (caller_handler.cc).
std::unique_ptr<Handler> MakeCallerHandler(RouteId route, Connection& connection);
// Loading and unloading of models (models_handler.cc).
std::unique_ptr<Handler> MakeModelsHandler(RouteId route, Connection& connection);
// The four generating routes (generation_handler.cc), those of encoders (encoding_handler.cc),
// and the tokenizer routes (tokenizer_handler.cc).
std::unique_ptr<Handler> MakeGenerationHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeEncodingHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeTokenizerHandler(RouteId route, Connection& connection);
// The caller's pinned prefixes (prefixes_handler.cc).
std::unique_ptr<Handler> MakePrefixesHandler(RouteId route, Connection& connection);
// Responses API: creation, and operations on a stored response (responses_handler.cc).
std::unique_ptr<Handler> MakeResponsesHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeStoredResponseHandler(RouteId route, Connection& connection);
// Responses API and chat over WebSocket (socket_handler.cc).
std::unique_ptr<Handler> MakeSocketHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeConversationsHandler(RouteId route, Connection& connection);
// Durable jobs: a call that is accepted to run later (respond_async_handler.cc), and operations on
// existing jobs (jobs_handler.cc).
bool WantsJob(const Route& route, Connection& connection);
std::unique_ptr<Handler> MakeRespondAsyncHandler(RouteId route, Connection& connection);
// Requests with an idempotency key, which may be repeated (idempotency_handler.cc).
bool TakesIdempotencyKey(const Route& route, Connection& connection);
std::unique_ptr<Handler> MakeIdempotencyHandler(const Route& route, Connection& connection);
std::unique_ptr<Handler> MakeJobsHandler(RouteId route, Connection& connection);
// Files: uploads, downloads and the rest of their routes (files_handler.cc); batches
// (batches_handler.cc).
std::unique_ptr<Handler> MakeUploadHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeFileContentHandler(RouteId route, Connection& connection);
// Answers with a file of that media type. `open` is called once, and passes the file to its
// argument, on any thread.
using OpenDownload =
    std::function<void(std::function<void(Result<batches::Files::Content>)> opened)>;
std::unique_ptr<Handler> MakeDownloadHandler(Connection& connection, std::string media_type,
                                             OpenDownload open);
std::unique_ptr<Handler> MakeFilesHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeBatchesHandler(RouteId route, Connection& connection);
// Anthropic's message batches (batches_handler.cc).
std::unique_ptr<Handler> MakeMessageBatchesHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeMessageBatchResultsHandler(RouteId route, Connection& connection);
// Ollama's pull, copy and delete (library_handler.cc).
std::unique_ptr<Handler> MakeLibraryHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeAdaptersHandler(RouteId route, Connection& connection);
// KServe v2: metadata, one answer, a stream (kserve_handler.cc).
std::unique_ptr<Handler> MakeKserveHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeKserveInferHandler(RouteId route, Connection& connection);
std::unique_ptr<Handler> MakeKserveStreamHandler(RouteId route, Connection& connection);

}  // namespace tutti::http
