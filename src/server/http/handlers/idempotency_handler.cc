// A request with an Idempotency-Key on a route that generates or embeds: answered as another with
// this key was, or waits for that one's answer; otherwise the route's own handler answers it, and
// what it answers is kept.
//
// A stream is not kept: while it runs another request with its key is refused.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/message_parser.h"
#include "server/http/handler.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_fields.h"
#include "services/idempotency/keys.h"

namespace tutti::http {
namespace {

bool MayRepeat(RouteId route) {
  switch (route) {
    case RouteId::kChat:
    case RouteId::kText:
    case RouteId::kGenerate:
    case RouteId::kInfill:
    case RouteId::kDecisions:
    case RouteId::kSystemOne:
    case RouteId::kMessages:
    case RouteId::kOllamaChat:
    case RouteId::kOllamaGenerate:
    case RouteId::kOllamaEmbed:
    case RouteId::kOllamaEmbeddings:
    case RouteId::kResponses:
    case RouteId::kEmbeddings:
    case RouteId::kRerank:
    case RouteId::kRerankOrTei:
    case RouteId::kScore:
    case RouteId::kTeiEmbed:
    case RouteId::kTeiEmbedAll:
    case RouteId::kTeiSparse:
    case RouteId::kTeiPredict:
    case RouteId::kTeiSimilarity:
    case RouteId::kTeiRoot:
    case RouteId::kKserveInfer:
    case RouteId::kKserveGenerate:
    case RouteId::kKserveGenerateStream:
      return true;
    default:
      return false;
  }
}

// Fields that belong to the body of a stored answer, and are sent with it again; the other fields
// are those of the repeated request.
constexpr std::array<std::string_view, 6> kKeptFields = {
    "content-type",    "content-encoding",       "vary", "inference-header-content-length",
    "x-tutti-ignored", "x-context-dropped-items"};

std::string HeadToKeep(const HeaderList& headers) {
  std::string head;
  for (const auto& [name, value] : headers) {
    const std::string lower = AsciiLower(name);
    if (std::find(kKeptFields.begin(), kKeptFields.end(), lower) == kKeptFields.end()) continue;
    head += name + ": " + value + "\n";
  }
  return head;
}

HeaderList HeadersOf(std::string_view head) {
  HeaderList headers;
  while (!head.empty()) {
    const size_t end = std::min(head.find('\n'), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 1, head.size()));
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;  // none that we wrote
    headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  return headers;
}

class IdempotencyHandler final : public Handler {
 public:
  IdempotencyHandler(const Route& route, Connection& connection)
      : route_(route),
        connection_(connection),
        idempotency_keys_(*connection.context().deps.idempotency_keys) {}

  void Start() override {
    Result<std::string> key = ReadIdempotencyKey(connection_.request());
    if (!key.ok()) return connection_.RespondError(key.status());
    asked_.key = *std::move(key);
    asked_.tenant = connection_.request_context().tenant();
    asked_.method = route_.method;
    asked_.path = CanonicalPath(connection_.request().target).value_or("");
    // The caller's allowed models are part of the request's identity, so that a key gives no access
    // to answers of other models.
    for (const std::string& model : connection_.request_context().caller()->models)
      asked_.path += "\n" + model;
    if (connection_.request().body.size() <= kInlineJsonBytes)
      return Ask(idempotency::CanonicalBodyHash(connection_.request().body));
    auto body = std::make_shared<Connection::Body>(connection_.TakeBody());
    connection_.Offload(connection_.context().json_helper,
                        [this, body]() -> Connection::Continuation {
                          std::string body_hash = idempotency::CanonicalBodyHash(body->text);
                          return [this, body, body_hash] {
                            connection_.PutBack(std::move(*body));
                            Ask(body_hash);
                          };
                        });
  }

  void Pump() override {
    if (inner_ != nullptr) inner_->Pump();
  }
  TimePoint Due() const override { return inner_ == nullptr ? TimePoint::max() : inner_->Due(); }
  void OnTimer(TimePoint now) override {
    if (inner_ != nullptr) inner_->OnTimer(now);
  }

  void OnAnswer(int status, const HeaderList& headers, const std::string& body) override {
    const std::shared_ptr<idempotency::IdempotencyKeys::Turn> turn = std::exchange(turn_, nullptr);
    if (turn == nullptr) return;
    // Neither an error nor an answer above the limit is stored. The key is released before the
    // client can read this answer, so that its next request is processed anew.
    if (status != 200 ||
        static_cast<int64_t>(body.size()) > idempotency_keys_.limits().answer_bytes)
      return turn->Decline();
    turn->Answer({status, HeadToKeep(headers), body});
  }
  void OnStream() override {
    if (turn_ != nullptr) turn_->Streams();
  }

 private:
  void Ask(std::string body_hash) {
    asked_.body_hash = std::move(body_hash);
    idempotency_keys_.Ask(
        std::move(asked_),
        connection_.Later(
            [this](const Result<idempotency::IdempotencyKeys::Found>& found) { OnFound(found); }));
  }

  void OnFound(const Result<idempotency::IdempotencyKeys::Found>& found) {
    if (!found.ok()) return connection_.RespondError(found.status());
    if (found->kept != nullptr) return Replay(*found->kept);
    turn_ = found->turn;
    inner_ = MakeRouteHandler(route_, connection_);
    inner_->Start();
  }

  void Replay(const idempotency::StoredAnswer& kept) {
    if (!connection_.HoldAnswer(kept.body.size())) {
      return connection_.RespondError(
          NoRoomForAnswer(kept.body.size(), connection_.context().memory_budget));
    }
    HeaderList headers = HeadersOf(kept.head);
    headers.emplace_back("Idempotency-Replayed", "true");
    connection_.Respond(kept.status, std::move(headers), kept.body);
  }

  const Route& route_;
  Connection& connection_;
  idempotency::IdempotencyKeys& idempotency_keys_;
  idempotency::RequestIdentity asked_;  // until it is asked
  std::shared_ptr<idempotency::IdempotencyKeys::Turn> turn_;
  std::unique_ptr<Handler> inner_;  // goes first: what it answers ends the turn
};

}  // namespace

bool TakesIdempotencyKey(const Route& route, Connection& connection) {
  return connection.context().deps.idempotency_keys != nullptr && MayRepeat(route.id) &&
         connection.request().Find(kIdempotencyKey) != nullptr;
}

std::unique_ptr<Handler> MakeIdempotencyHandler(const Route& route, Connection& connection) {
  return std::make_unique<IdempotencyHandler>(route, connection);
}

}  // namespace tutti::http
