// What a server says that it serves, for a program that is to ask one of its models, and what to
// tell a user whom a server does not let in. Blocking; any thread.
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
  std::vector<std::string> tasks;  // "embed"; none where the server does not tell them

  // Whether it may have that task.
  bool Takes(std::string_view task) const;
};

// "minilm (embed), chat (generate)", the first few of them.
std::string ListText(const std::vector<ListedModel>& models);

// The model of `models` to ask for `task`: `wanted`, or where that is empty the first that says it
// has it, else the first that says nothing. `where`: the server, for people. Errors:
// model_not_found, naming those there are.
Result<std::string> PickModel(const std::vector<ListedModel>& models, const std::string& wanted,
                              std::string_view task, const std::string& where);

// Where to find what a server over HTTP serves.
struct ModelServer {
  Server server;
  std::string api_key;
  std::chrono::milliseconds patience{60'000};
};

// `wanted`, which a server may take without listing it, or where that is empty what PickModel()
// finds in GET /v1/models. Errors: also those of the request, explained; bad_response.
Result<std::string> ChooseModel(const ModelServer& from, const std::string& wanted,
                                std::string_view task);

// `failure` of a request to `model`, with what its user could do: of NOT_FOUND the models there
// are, of UNAUTHENTICATED where a key would come from. May ask the server.
Status Explained(const ModelServer& from, const std::string& model, std::string_view task,
                 Status failure);

// Of UNAUTHENTICATED where a key would come from; leaves everything else.
Status WithKeyHint(Status failure, const std::string& api_key);

}  // namespace tutti::client
