#include "api/models.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <variant>

namespace tutti::api {
namespace {

bool Gives(const ModelInfo& model, EncodeOutput output, bool pairs) {
  if (!model.encoder.has_value() || (pairs && !model.encoder->pairs)) return false;
  if (output == EncodeOutput::kScores) return !model.encoder->labels.empty();
  return (output == EncodeOutput::kTokens ? model.encoder->row_width() : model.encoder->width) > 0;
}

template <typename T>
void Apply(const std::optional<T>& value, Parameter<T>* parameter) {
  if (value.has_value() && !parameter->given()) *parameter = Parameter<T>::Default(*value);
}

// Calls `visit` with each of the parameters, in the order of their bits. `Params` may be const.
template <typename Params, typename Visit>
void ForEach(Params& params, const Visit& visit) {
  visit(params.temperature);
  visit(params.top_p);
  visit(params.top_k);
  visit(params.min_p);
  visit(params.repetition_penalty);
}

}  // namespace

const ModelInfo* FindModel(std::span<const ModelInfo> models, std::string_view name) {
  const auto found = std::find_if(models.begin(), models.end(), [&](const ModelInfo& model) {
    return model.id == name ||
           std::find(model.aliases.begin(), model.aliases.end(), name) != model.aliases.end();
  });
  return found == models.end() ? nullptr : &*found;
}

const ModelInfo* FindGenerator(std::span<const ModelInfo> models, std::string_view name) {
  if (const ModelInfo* const named = FindModel(models, name)) return named;
  const auto found = std::find_if(models.begin(), models.end(),
                                  [](const ModelInfo& model) { return model.answers_any_name; });
  return found == models.end() ? nullptr : &*found;
}

const ModelInfo* DefaultGenerator(std::span<const ModelInfo> models) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [](const ModelInfo& model) { return model.generates; });
  if (found != models.end()) return &*found;
  return models.empty() ? nullptr : &models.front();
}

bool Ranks(const ModelInfo& model) {
  return model.encoder.has_value() && model.encoder->pairs && model.encoder->labels.size() == 1;
}

const ModelInfo* DefaultEncoder(std::span<const ModelInfo> models, EncodeOutput output,
                                bool pairs) {
  const bool scores = output == EncodeOutput::kScores;
  // Score of a model for the preferred properties; ranking weighs more.
  const auto worth = [&](const ModelInfo& model) {
    return (scores && pairs && Ranks(model) ? 2 : 0) + (model.generates ? 0 : 1);
  };
  const ModelInfo* best = nullptr;
  for (const ModelInfo& model : models) {
    if (!Gives(model, output, pairs)) continue;
    if (best == nullptr || worth(model) > worth(*best)) best = &model;
  }
  return best;
}

const ModelInfo* EncoderFor(std::span<const ModelInfo> models, const EncodeRequest& request) {
  if (!request.model.empty()) return FindModel(models, request.model);
  const bool pairs =
      std::any_of(request.inputs.begin(), request.inputs.end(),
                  [](const EncodeInput& input) { return std::holds_alternative<TextPair>(input); });
  return DefaultEncoder(models, request.output, pairs);
}

bool MayUse(const Caller& caller, const ModelInfo& model) {
  const auto given = [&](const std::string& name) {
    return std::find(caller.models.begin(), caller.models.end(), name) != caller.models.end();
  };
  return caller.models.empty() || given(model.id) ||
         std::any_of(model.aliases.begin(), model.aliases.end(), given);
}

ModelList ModelsFor(const Caller& caller, const ModelList& models) {
  if (caller.models.empty()) return models;
  std::vector<ModelInfo> theirs;
  std::copy_if(models.begin(), models.end(), std::back_inserter(theirs),
               [&](const ModelInfo& model) { return MayUse(caller, model); });
  return theirs;
}

ModelList DerivedModels::Of(const ModelList& source, std::shared_ptr<const void> settings,
                            const std::function<void(std::vector<ModelInfo>*)>& change) const {
  const MutexLock lock(mutex_);
  if (settings != settings_ || !source.SharesWith(source_)) {
    std::vector<ModelInfo> models = source.Copy();
    change(&models);
    derived_ = std::move(models);
    source_ = source;
    settings_ = std::move(settings);
  }
  return derived_;
}

uint32_t SilentParameters(const SamplingParams& params) {
  uint32_t silent = 0, bit = 1;
  ForEach(params, [&](const auto& parameter) {
    if (!parameter.given()) silent |= bit;
    bit <<= 1;
  });
  return silent;
}

void MarkSilent(uint32_t silent, SamplingParams* params) {
  uint32_t bit = 1;
  ForEach(*params, [&](auto& parameter) {
    if ((silent & bit) != 0)
      parameter = std::remove_reference_t<decltype(parameter)>::Default(parameter.value());
    bit <<= 1;
  });
}

void ApplyDefaults(const SamplingDefaults& defaults, SamplingParams* params) {
  Apply(defaults.temperature, &params->temperature);
  Apply(defaults.top_p, &params->top_p);
  Apply(defaults.top_k, &params->top_k);
  Apply(defaults.min_p, &params->min_p);
  Apply(defaults.repetition_penalty, &params->repetition_penalty);
}

}  // namespace tutti::api
