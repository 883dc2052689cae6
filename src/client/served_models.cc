#include "client/served_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "base/log.h"
#include "base/quote.h"

namespace tutti::client {
namespace {

constexpr size_t kMaxNamed = 8;

std::string NameOf(const Server& server) {
  return "http://" + server.host + ":" + server.port + server.base;
}

// Escapes a server's text for a terminal.
std::string Escaped(const std::string& text) { return LogEscape(text.substr(0, 64)); }

Result<std::vector<ListedModel>> ListModels(const ModelServer& from) {
  ASSIGN_OR_RETURN(const std::string body,
                   Get(from.server, "/v1/models", from.api_key, from.patience));
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(body, failed);
  const boost::json::value* data = failed ? nullptr : json.find_pointer("/data", failed);
  if (failed || data == nullptr || !data->is_array()) {
    return Unavailable("bad_response",
                       "GET /v1/models gives no list of models; name the model to ask for");
  }
  std::vector<ListedModel> models;
  for (const boost::json::value& item : data->get_array()) {
    const boost::json::value* id = item.find_pointer("/id", failed);
    if (id == nullptr || !id->is_string()) continue;
    ListedModel model{std::string(id->get_string()), {}};
    const boost::json::value* tasks = item.find_pointer("/tasks", failed);
    if (tasks != nullptr && tasks->is_array()) {
      for (const boost::json::value& task : tasks->get_array())
        if (task.is_string()) model.tasks.emplace_back(task.get_string());
    }
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace

bool ListedModel::Takes(std::string_view task) const {
  return tasks.empty() || std::find(tasks.begin(), tasks.end(), task) != tasks.end();
}

std::string ListText(const std::vector<ListedModel>& models) {
  std::string text;
  for (size_t i = 0; i < models.size() && i < kMaxNamed; ++i) {
    if (i > 0) text += ", ";
    text += Escaped(models[i].id);
    std::string tasks;
    for (const std::string& task : models[i].tasks)
      tasks += (tasks.empty() ? "" : ", ") + Escaped(task);
    if (!tasks.empty()) text += " (" + tasks.substr(0, 128) + ")";
  }
  if (models.size() > kMaxNamed) text += fmt::format(", {} more", models.size() - kMaxNamed);
  return text;
}

Result<std::string> PickModel(const std::vector<ListedModel>& models, const std::string& wanted,
                              std::string_view task, const std::string& where) {
  const auto none = [&](const std::string& what) -> Status {
    return NotFound(
        "model_not_found",
        fmt::format("{} serves no model {}{}", where, what,
                    models.empty() ? "; it lists none" : "; it has " + ListText(models)));
  };
  const auto first = [&](const auto& fits) {
    return std::find_if(models.begin(), models.end(), fits);
  };
  if (!wanted.empty()) {
    const auto found = first([&](const ListedModel& model) { return model.id == wanted; });
    if (found == models.end()) return none(Quote(wanted));
    if (!found->Takes(task)) return none(fmt::format("{} for {}", Quote(wanted), task));
    return wanted;
  }
  auto found = first([&](const ListedModel& m) { return !m.tasks.empty() && m.Takes(task); });
  if (found == models.end()) found = first([&](const ListedModel& m) { return m.Takes(task); });
  if (found == models.end()) return none(fmt::format("for {}", task));
  return found->id;
}

Result<std::string> ChooseModel(const ModelServer& from, const std::string& wanted,
                                std::string_view task) {
  if (!wanted.empty()) return wanted;
  const auto models = ListModels(from);
  if (!models.ok()) return WithKeyHint(models.status(), from.api_key);
  return PickModel(*models, "", task, NameOf(from.server));
}

Status Explained(const ModelServer& from, const std::string& model, std::string_view task,
                 Status failure) {
  if (failure.code() != StatusCode::kNotFound) return WithKeyHint(std::move(failure), from.api_key);
  const auto models = ListModels(from);
  if (!models.ok()) return failure;
  const auto picked = PickModel(*models, model, task, NameOf(from.server));
  return picked.ok() ? failure : picked.status();
}

Status WithKeyHint(Status failure, const std::string& api_key) {
  if (failure.code() != StatusCode::kUnauthenticated) return failure;
  const char* const hint = api_key.empty() ? "no key was sent; one is taken from TUTTI_API_KEY"
                                           : "the key in TUTTI_API_KEY is not that of this server";
  return Status(failure.code(), failure.reason(), failure.message() + " (" + hint + ")");
}

}  // namespace tutti::client
