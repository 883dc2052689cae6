#include "services/batches/control.h"

#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/control.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/batch.h"
#include "services/batches/batch_rows.h"
#include "services/batches/batches.h"

namespace tutti::batches {
namespace {

using protocol::BadControl;
using protocol::BatchView;
using protocol::Json;
using protocol::JsonObject;
using protocol::JsonWriter;
using store::Database;

constexpr size_t kMaxRequestBytes = 4096, kMaxValues = 16;
constexpr int64_t kMaxListed = 1000;

// The members of a batch, and its tenant.
void WriteBatch(const BatchView& batch, const std::string& owner, JsonWriter* json) {
  json->Key("batch").Raw(protocol::BatchJson(batch)).Member("tenant", owner);
}

Status List(store::Store& store, const JsonObject& asked, JsonWriter* json) {
  BatchQuery query;
  ASSIGN_OR_RETURN(query.owner, protocol::OptionalText(asked, "tenant"));
  ASSIGN_OR_RETURN(const std::optional<std::string> after, protocol::OptionalText(asked, "after"));
  query.after = after.value_or("");
  if (const Json* limit = asked.if_contains("limit"); limit != nullptr) {
    ASSIGN_OR_RETURN(query.limit, protocol::ControlNumber(*limit, "limit", 1, kMaxListed,
                                                          "a whole number from 1 to 1000"));
  }
  const auto most = static_cast<size_t>(query.limit++);
  std::vector<BatchRow> rows;
  RETURN_IF_ERROR(store.ReadNow([&](Database& database) -> Status {
    ASSIGN_OR_RETURN(rows, ListBatches(database, query));
    return OkStatus();
  }));
  const bool more = rows.size() > most;
  if (more) rows.resize(most);
  json->Key("batches").BeginArray();
  for (const BatchRow& row : rows) {
    json->BeginObject();
    WriteBatch(row.view, row.owner, json);
    json->EndObject();
  }
  json->EndArray().Member("more", more);
  return OkStatus();
}

Status One(store::Store& store, Batches& batches, bool cancel, const std::string& id,
           JsonWriter* json) {
  std::optional<std::string> owner;
  RETURN_IF_ERROR(store.ReadNow([&](Database& rows) -> Status {
    ASSIGN_OR_RETURN(owner, OwnerOf(rows, id));
    return OkStatus();
  }));
  if (!owner.has_value()) return NotFound("not_found", "there is no such batch");
  std::promise<Result<BatchView>> answer;
  const auto done = [&answer](Result<BatchView> batch) { answer.set_value(std::move(batch)); };
  if (cancel) {
    batches.Cancel(*owner, id, done);
  } else {
    batches.Get(*owner, id, done);
  }
  ASSIGN_OR_RETURN(const BatchView batch, answer.get_future().get());
  WriteBatch(batch, *owner, json);
  return OkStatus();
}

}  // namespace

bool IsBatchesRequest(std::string_view request) {
  return protocol::HasOperation(request, "batches.");
}

Result<std::string> HandleControl(store::Store& store, Batches& batches, std::string_view request) {
  return protocol::AnswerControl(
      request, kMaxRequestBytes, kMaxValues,
      [&](const JsonObject& asked, JsonWriter* json) -> Status {
        const std::string_view op = protocol::ControlOperation(asked);
        if (op == "batches.list") return List(store, asked, json);
        if (op != "batches.show" && op != "batches.cancel") {
          return BadControl("op", "is none of batches: batches.list, batches.show, batches.cancel");
        }
        ASSIGN_OR_RETURN(const std::string id, protocol::RequiredText(asked, "id"));
        return One(store, batches, op == "batches.cancel", id, json);
      });
}

}  // namespace tutti::batches
