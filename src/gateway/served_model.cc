#include "gateway/served_model.h"

#include <algorithm>
#include <atomic>

namespace tutti::gateway {

uint64_t ServedModel::NextInstance() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool ServedModel::Answers(std::string_view name) const {
  return name == info.id ||
         std::find(info.aliases.begin(), info.aliases.end(), name) != info.aliases.end();
}

void ServedModel::BeginDrain() const {
  if (engine != nullptr) engine->BeginDrain();
  if (encoder != nullptr) encoder->engine->BeginDrain();
}

bool ServedModel::Drain(TimePoint deadline) const {
  const bool generated = engine == nullptr || engine->Drain(deadline);
  return (encoder == nullptr || encoder->engine->Drain(deadline)) && generated;
}

Status ServedModel::Live() const {
  if (engine != nullptr) RETURN_IF_ERROR(engine->Live());
  return encoder == nullptr ? OkStatus() : encoder->engine->Live();
}

}  // namespace tutti::gateway
