#include "library/loading.h"

#include <exception>
#include <utility>
#include <vector>

#include "app/loading/model_registry.h"
#include "library/convert.h"

namespace tutti::library {
namespace {

using Values = std::map<std::string, std::string>;

// The library's options have no dashes: "--threads must be" -> "threads must be".
Status InOptionSpelling(const Status& status) {
  std::string message = status.message();
  for (const app::OptionSpec& option : app::AllOptions()) {
    const std::string flag = app::FlagName(option);
    for (size_t at = message.find(flag); at != std::string::npos; at = message.find(flag, at + 1))
      message.erase(at, 2);
  }
  return Status(status.code(), status.reason(), std::move(message)).WithParam(status.param());
}

std::vector<std::string> ModelOptionNames() {
  std::vector<std::string> names;
  for (const app::OptionSpec& option : app::AllOptions()) {
    if (option.group == app::OptionGroup::kModel) names.emplace_back(option.key);
  }
  return names;
}

Result<app::Settings> ResolveSettings(const Values& values, const Values& defaults) {
  app::Settings::Inputs inputs;
  inputs.flags_name = "option";
  // No queue age limit: a program must not be rejected by its own process, so accepted requests
  // wait.
  inputs.flags["sched.queue_age_s"] = "0";
  for (const auto& [name, value] : defaults) inputs.flags[name] = value;
  for (const auto& [name, value] : values) {
    const app::OptionSpec* option = app::FindOption(name);
    if (option == nullptr || option->group != app::OptionGroup::kModel) {
      const std::string meant = app::Suggestion(name.substr(0, 64), ModelOptionNames());
      return InvalidArgument("unknown_parameter",
                             "no model option is called " + name.substr(0, 64) +
                                 (meant.empty() ? "" : "; did you mean " + meant + "?"))
          .WithParam(name);
    }
    inputs.flags[option->key] = value;
  }
  Result<app::Settings> settings = app::Settings::Resolve(inputs);
  if (!settings.ok()) return InOptionSpelling(settings.status());
  return settings;
}

Result<std::shared_ptr<Model::State>> LoadState(const ModelOptions::Impl& options,
                                                const Values& defaults, Error* failed) {
  ASSIGN_OR_RETURN(app::Settings settings, ResolveSettings(options.values, defaults));
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(options.model));
  const NoSignalsHere scope;
  auto state = std::make_shared<Model::State>(std::move(settings));
  Result<app::OpenedModel> opened = state->inference.Open(ref);
  if (!opened.ok()) return InOptionSpelling(opened.status());
  state->info.summary = opened->summary();
  // An exception of the callback must not pass through the loader, which is running threads.
  std::exception_ptr thrown;
  const auto progress = [&](size_t done, size_t total) {
    if (options.progress == nullptr || thrown != nullptr) return thrown == nullptr;
    try {
      options.progress(done, total);
    } catch (...) {
      thrown = std::current_exception();
    }
    return thrown == nullptr;
  };
  const Status loaded = state->inference.Load(*std::move(opened), progress);
  if (thrown != nullptr) {
    *failed = Error(ErrorCode::kAborted, "handler_failed", "the progress callback threw")
                  .WithCause(thrown);
  }
  RETURN_IF_ERROR(loaded);
  ASSIGN_OR_RETURN(state->served, state->inference.gateway().Find(""));
  const api::ModelInfo& info = state->served->info;
  state->info.name = info.id;
  state->info.architecture = info.architecture;
  state->info.quantisation = info.quantisation;
  state->info.digest = info.digest;
  state->info.context = info.max_model_len;
  state->info.vocabulary = info.vocab_size;
  return state;
}

}  // namespace

Expected<std::shared_ptr<Model::State>> LoadModel(const ModelOptions& options,
                                                  const Values& defaults) {
  Error callback_failed;
  Result<std::shared_ptr<Model::State>> state =
      LoadState(options.impl(), defaults, &callback_failed);
  if (!callback_failed.ok()) return callback_failed;
  if (!state.ok()) return ToError(state.status());
  return *std::move(state);
}

}  // namespace tutti::library
