#include "gateway/live_view.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/live_watch.h"

namespace tutti::gateway {
namespace {

// Calls visit(name, engine) for each engine. A model may have two, over the same weights.
template <typename Visit>
void ForEachEngine(const Gateway& gateway, const Visit& visit) {
  for (const auto& model : gateway.ServedBases()) {
    if (model->engine != nullptr) visit(model->info.id, *model->engine);
    if (model->encoder != nullptr) visit(model->info.id, *model->encoder->engine);
  }
}

}  // namespace

void LiveView::Ask() {
  {
    const TimePoint now = clock_.Now();
    const MutexLock lock(mutex_);
    if (now < next_ask_) return;
    next_ask_ = now + kMinInterval;
  }
  ForEachEngine(gateway_, [](const auto&, engine::EngineBase& engine) { engine.live().Ask(); });
}

bool LiveView::TakenSince(TimePoint since) const {
  bool taken = true;
  ForEachEngine(gateway_, [&](const auto&, engine::EngineBase& engine) {
    taken &= engine.live().taken() >= since;
  });
  return taken;
}

api::LiveState LiveView::Read() const {
  api::LiveState state;
  ForEachEngine(gateway_, [&](const std::string& name, engine::EngineBase& engine) {
    api::LiveEngine taken;
    if (!engine.live().Read(&taken)) return;
    taken.model = name;
    state.engines.push_back(std::move(taken));
  });
  gateway_.ListWaiting(&state);
  state.preparing = gateway_.preparing();
  return state;
}

}  // namespace tutti::gateway
