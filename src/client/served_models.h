// The models that a server lists, for a program that calls one of them, and hints for a user whom a
// server refuses. Blocking; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "client/http_client.h"

namespace tutti::client {

struct ListedModel {
  std::string id;
  std::vector<std::string> tasks;  // empty if the server does not list tasks

  // Whether the model has the task, or its tasks are unknown.
  bool Takes(std::string_view task) const;
};

// "minilm (embed), chat (generate)": the first few models.
std::string ListText(const std::vector<ListedModel>& models);

// Chooses the model for `task`: `wanted`; or, if that is empty, the first model that lists the
// task, else the first that lists no tasks. `where`: the server's name, for the error. Errors:
// model_not_found, with the models there are.
Result<std::string> PickModel(const std::vector<ListedModel>& models, const std::string& wanted,
                              std::string_view task, const std::string& where);

// A server over HTTP.
struct ModelServer {
  Server server;
  std::string api_key;
  std::chrono::milliseconds patience{60'000};
};

// Returns `wanted`, which a server may accept without listing it; or, if that is empty, the choice
// of PickModel() from GET /v1/models. Errors: also those of the request, with hints; bad_response.
Result<std::string> ChooseModel(const ModelServer& from, const std::string& wanted,
                                std::string_view task);

// Adds a hint to the failure of a request to `model`: NOT_FOUND gets the list of models,
// UNAUTHENTICATED the source of the key. May query the server.
Status Explained(const ModelServer& from, const std::string& model, std::string_view task,
                 Status failure);

// Adds to an UNAUTHENTICATED failure where the key comes from; returns other failures unchanged.
Status WithKeyHint(Status failure, const std::string& api_key);

}  // namespace tutti::client
