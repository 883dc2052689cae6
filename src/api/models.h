// Selection of a served model, by name or for a request without a name, lists derived from others,
// and the sampling defaults that a model's publisher recommends. Functions are pure; returned
// pointers point into `models`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/encoding.h"
#include "api/types.h"
#include "base/mutex.h"

namespace tutti::api {

// The model with that id or alias; null if there is none.
const ModelInfo* FindModel(std::span<const ModelInfo> models, std::string_view name);

// Like FindModel, for requests that generate or tokenize: falls back to the model that answers any
// name.
const ModelInfo* FindGenerator(std::span<const ModelInfo> models, std::string_view name);

// Default model of requests that generate or tokenize: the first one that generates. If none does,
// the first model, which then refuses the request. Null if there are no models.
const ModelInfo* DefaultGenerator(std::span<const ModelInfo> models);

// Whether a model is a reranker: a cross-encoder with one score per pair of texts.
bool Ranks(const ModelInfo& model);

// Default model of encode requests: the first one that can produce `output`. Models that also
// generate are chosen last. `pairs`: only models that read pairs, rerankers first. Null if there is
// none.
const ModelInfo* DefaultEncoder(std::span<const ModelInfo> models, EncodeOutput output,
                                bool pairs = false);

// The model for `request`: by its name, else DefaultEncoder(). Null if there is none;
// Inference::Encode then returns the error.
const ModelInfo* EncoderFor(std::span<const ModelInfo> models, const EncodeRequest& request);

// Whether `caller` may use the model, by its name or an alias.
bool MayUse(const Caller& caller, const ModelInfo& model);
// The models that `caller` may use.
ModelList ModelsFor(const Caller& caller, const ModelList& models);

// A list that is made from another one and kept until that changes. Thread-safe.
class DerivedModels {
 public:
  // `source`, changed by `change`, which also depends on `*settings` alone. Settings are never
  // changed, but replaced.
  ModelList Of(const ModelList& source, std::shared_ptr<const void> settings,
               const std::function<void(std::vector<ModelInfo>*)>& change) const;

 private:
  mutable Mutex mutex_;
  mutable ModelList source_ GUARDED_BY(mutex_), derived_ GUARDED_BY(mutex_);
  mutable std::shared_ptr<const void> settings_ GUARDED_BY(mutex_);
};

// Replaces each parameter that the request did not set with the value in `defaults`, if any.
void ApplyDefaults(const SamplingDefaults& defaults, SamplingParams* params);

// Bit mask of the parameters that the request did not set, for code that stores or transmits
// requests. MarkSilent() ignores unknown bits.
uint32_t SilentParameters(const SamplingParams& params);
void MarkSilent(uint32_t silent, SamplingParams* params);

}  // namespace tutti::api
