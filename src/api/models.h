// Finding a model among those that are served: by its name, or for a request that names none.
// Pure; what is returned points into `models`.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/encoding.h"
#include "api/types.h"

namespace tutti::api {

// Null when no model has that id or alias.
const ModelInfo* FindModel(std::span<const ModelInfo> models, std::string_view name);

// The same for requests of text or tokens: the model that answers any name where none has that one.
const ModelInfo* FindGenerator(std::span<const ModelInfo> models, std::string_view name);

// The model that a request without a name goes to where it asks for text or for a tokenizer,
// through every door: the first that generates. Where none does, the first, whose refusal says so.
// Null when there are none.
const ModelInfo* DefaultGenerator(std::span<const ModelInfo> models);

// Whether a model tells by one score how well two texts fit: a cross-encoder with one label.
bool Ranks(const ModelInfo& model);

// The same of vectors and scores: the first that gives `output`. One that generates too only where
// there is no other; `pairs`: one that reads them, and of these one that ranks where there is any.
// Null when none gives it.
const ModelInfo* DefaultEncoder(std::span<const ModelInfo> models, EncodeOutput output,
                                bool pairs = false);

// The model that `request` goes to: by its name, or DefaultEncoder() of what it asks for. Null when
// there is none, which the waist says best.
const ModelInfo* EncoderFor(std::span<const ModelInfo> models, const EncodeRequest& request);

// Whether it was given to `caller`, by its name or an alias.
bool MayUse(const Caller& caller, const ModelInfo& model);
// Those that were.
std::vector<ModelInfo> ModelsFor(const Caller& caller, std::vector<ModelInfo> models);

}  // namespace tutti::api
