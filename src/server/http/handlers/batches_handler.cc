// The routes below /v1/batches and /v1/messages/batches, over the same service.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/anthropic/message_batch.h"
#include "protocol/json/json.h"
#include "protocol/openai/batch.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/json_handler.h"
#include "services/batches/batches.h"
#include "services/calls/buffered_request.h"

namespace tutti::http {
namespace {

// --- /v1/batches: creation from a file, state, cancellation, list ---

using protocol::BatchView;

class BatchesHandler final : public JsonHandler {
 public:
  BatchesHandler(RouteId route, Connection& connection) : JsonHandler(connection), route_(route) {}

  void Start() override {
    switch (route_) {
      case RouteId::kBatchCreate:
        return Create();
      case RouteId::kBatches:
        return List();
      case RouteId::kBatchCancel:
        return Service().Cancel(Owner(), Id(), ThenJson<BatchView>(&protocol::BatchJson));
      default:
        return Service().Get(Owner(), Id(), ThenJson<BatchView>(&protocol::BatchJson));
    }
  }

 private:
  void Create() {
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [strict = connection_.context().options.strict](
            std::string_view body) -> Result<protocol::BatchCreate> {
          ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
          return protocol::ParseBatchCreate(document.root(), {.strict = strict});
        },
        [this](Result<protocol::BatchCreate> create) {
          if (!create.ok()) return connection_.RespondError(create.status());
          ignored_ = create->ignored;
          Service().Create({.owner = Owner(),
                            .caller = connection_.request_context().caller(),
                            .create = *std::move(create)},
                           ThenJson<BatchView>(&protocol::BatchJson));
        });
  }

  void List() {
    const auto query = TakeQuery(&protocol::ParseListQuery);
    if (!query.ok()) return connection_.RespondError(query.status());
    Service().List(Owner(), /*endpoint=*/"", query->after, query->limit,
                   ThenPage<BatchView>(query->limit, &protocol::BatchListJson));
  }

  batches::Batches& Service() { return *connection_.context().deps.batches; }

  const RouteId route_;
};

// --- /v1/messages/batches: Anthropic's message batches ---
//
// The requests of a new batch become its input file, which is deleted once the batch has its own
// copy of the lines; the results are a file that the batch writes.

using batches::Batches;
using batches::Files;
using protocol::MessageBatchCreate;

constexpr int64_t kResultsKeptSeconds = int64_t{29} * 24 * 3600;  // as Anthropic keeps them

// Batches of other endpoints are not there on these routes.
Result<BatchView> IfOfMessages(Result<BatchView> batch) {
  if (batch.ok() && batch->endpoint != protocol::kMessagesEndpoint)
    return NotFound("not_found", "there is no such batch");
  return batch;
}

Status NoResultsYet(const BatchView& batch) {
  return NotFound("not_found", protocol::Ended(batch.state) ? "the batch has no results"
                                                            : "the batch has not ended yet");
}

class MessageBatchesHandler final : public JsonHandler {
 public:
  MessageBatchesHandler(RouteId route, Connection& connection)
      : JsonHandler(connection), route_(route) {}

  void Start() override {
    switch (route_) {
      case RouteId::kMessageBatchCreate:
        return Create();
      case RouteId::kMessageBatches:
        return List();
      case RouteId::kMessageBatchCancel:
        return WithBatch(
            [this](const BatchView& batch) { Service().Cancel(Owner(), batch.id, ThenBatch()); });
      case RouteId::kMessageBatchDelete:
        return WithBatch([this](const BatchView& batch) { Delete(batch); });
      default:
        return WithBatch(
            [this](const BatchView& batch) { Json(protocol::MessageBatchJson(batch)); });
    }
  }

 private:
  void Create() {
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [options = connection_.request_context().parse_options(),
         caller = connection_.request_context().caller(),
         &inference = *connection_.context().deps.inference](
            std::string_view body) -> Result<MessageBatchCreate> {
          ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
          ASSIGN_OR_RETURN(MessageBatchCreate create,
                           protocol::ParseMessageBatch(document.root(), options));
          for (const std::string& model : create.models)
            RETURN_IF_ERROR(calls::CheckModel(model, /*generates=*/true, caller, inference));
          return create;
        },
        [this](Result<MessageBatchCreate> create) { OnParsed(std::move(create)); });
  }

  void OnParsed(Result<MessageBatchCreate> create) {
    if (!create.ok()) return connection_.RespondError(create.status());
    if (!connection_.HoldAnswer(create->input.size())) {
      return connection_.RespondError(
          Unavailable("overloaded", "too many large requests are being read"));
    }
    ignored_ = std::move(create->ignored);
    // Continues if the client disconnects meanwhile, so that the input file is not left behind.
    Kept().Put(Owner(), "messages.jsonl", std::move(create->input),
               [&files = Kept(), &service = Service(), owner = Owner(),
                caller = connection_.request_context().caller(),
                respond = ThenBatch()](const Result<protocol::FileView>& file) {
                 if (!file.ok()) return respond(file.status());
                 batches::NewBatch batch{.owner = owner, .caller = caller};
                 batch.create.endpoint = protocol::kMessagesEndpoint;
                 batch.create.input_file_id = file->id;
                 batch.create.output_expires_s = kResultsKeptSeconds;
                 service.Create(std::move(batch), ThenDeleteInput(files, owner, file->id, respond));
               });
  }

  // The batch has its own copy of the lines.
  static Batches::Callback ThenDeleteInput(Files& files, const std::string& owner,
                                           const std::string& file, Batches::Callback respond) {
    return [&files, owner, file, respond = std::move(respond)](Result<BatchView> made) {
      files.Delete(owner, file, [](const Status&) {});
      respond(std::move(made));
    };
  }

  void List() {
    const auto query = TakeQuery(&protocol::ParseMessageBatchListQuery);
    if (!query.ok()) return connection_.RespondError(query.status());
    Service().List(Owner(), std::string(protocol::kMessagesEndpoint), query->after, query->limit,
                   ThenPage<BatchView>(query->limit, &protocol::MessageBatchListJson));
  }

  // The results first: a batch without them can be deleted again.
  void Delete(const BatchView& batch) {
    if (!protocol::Ended(batch.state) || batch.output_file.empty()) return DeleteBatch(batch.id);
    Kept().Delete(Owner(), batch.output_file,
                  connection_.Later([this, id = batch.id](const Status& status) {
                    if (!status.ok() && status.reason() != "not_found")
                      return connection_.RespondError(status);
                    DeleteBatch(id);
                  }));
  }

  void DeleteBatch(const std::string& id) {
    Service().Delete(Owner(), id, ThenDone([id] { return protocol::MessageBatchDeletedJson(id); }));
  }

  template <typename Then>
  void WithBatch(Then then) {
    Service().Get(Owner(), Id(), connection_.Later([this, then](Result<BatchView> found) {
      const Result<BatchView> batch = IfOfMessages(std::move(found));
      if (!batch.ok()) return connection_.RespondError(batch.status());
      then(*batch);
    }));
  }

  Batches::Callback ThenBatch() { return ThenJson<BatchView>(&protocol::MessageBatchJson); }
  Batches& Service() { return *connection_.context().deps.batches; }
  Files& Kept() { return *connection_.context().deps.files; }

  const RouteId route_;
};

}  // namespace

std::unique_ptr<Handler> MakeBatchesHandler(RouteId route, Connection& connection) {
  return std::make_unique<BatchesHandler>(route, connection);
}

std::unique_ptr<Handler> MakeMessageBatchesHandler(RouteId route, Connection& connection) {
  return std::make_unique<MessageBatchesHandler>(route, connection);
}

std::unique_ptr<Handler> MakeMessageBatchResultsHandler(RouteId /*route*/, Connection& connection) {
  Batches& service = *connection.context().deps.batches;
  Files& files = *connection.context().deps.files;
  return MakeDownloadHandler(
      connection, "application/x-jsonl",
      [&service, &files, owner = connection.request_context().tenant(),
       id = connection.request_context().decision().argument](
          std::function<void(Result<Files::Content>)> done) {
        service.Get(owner, id, [&files, owner, done = std::move(done)](Result<BatchView> found) {
          const Result<BatchView> batch = IfOfMessages(std::move(found));
          if (!batch.ok()) return done(batch.status());
          if (batch->output_file.empty()) return done(NoResultsYet(*batch));
          files.OpenContent(owner, batch->output_file, done);
        });
      });
}

}  // namespace tutti::http
