// Model::State: the loaded model that all its handles share. Immutable after Load; any thread.
#pragma once

#include <memory>

#include "app/config/settings.h"
#include "app/local_inference.h"
#include "gateway/served_model.h"
#include "tutti/model.h"

namespace tutti {

struct Model::State {
  explicit State(app::Settings resolved)
      : settings(std::move(resolved)), inference(settings, nullptr) {}

  const app::Settings settings;
  app::LocalInference inference;
  std::shared_ptr<const gateway::ServedModel> served;
  ModelInfo info;
};

}  // namespace tutti
