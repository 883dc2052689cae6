#include "gateway/served_model.h"

#include <algorithm>

namespace tutti::gateway {

SpecialFrame FrameOf(const tokenizer::Tokenizer& tokenizer, int types) {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  const tokenizer::SpecialIds& special = vocabulary.special();
  SpecialFrame frame;
  if (vocabulary.kind() == tokenizer::ModelKind::kWordPiece) {
    frame.before = {special.cls};
    frame.between = {special.sep};
    frame.after = {special.sep};
  } else {
    if (vocabulary.add_bos()) frame.before = {special.bos};
    if (vocabulary.add_eos()) {
      frame.between = {special.eos, special.eos};
      frame.after = {special.eos};
    }
  }
  frame.second_type = types > 1 ? 1 : 0;
  return frame;
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
