#include "gateway/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace tutti::gateway {

uint64_t ServedModel::NextInstance() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Status ServedModel::CheckRows(std::span<const TokenId> tokens, const std::string& param) const {
  if (tokenizer->vocabulary_size() <= info.vocab_size) return OkStatus();
  for (const TokenId id : tokens) {
    if (id < info.vocab_size) continue;
    return InvalidArgument(
               "token_out_of_range",
               fmt::format("token {} {} has no row in the model's embedding of {}; "
                           "leave it out",
                           id, Quote(tokenizer->vocabulary().Text(id), 40), info.vocab_size))
        .WithParam(param);
  }
  return OkStatus();
}

std::shared_ptr<ServedModel> WithAdapter(const ServedModel& base, std::string name,
                                         std::shared_ptr<const engine::Adapter> adapter) {
  auto model = std::make_shared<ServedModel>(base);
  model->instance = ServedModel::NextInstance();
  model->info.id = std::move(name);
  model->info.parent = base.info.id;
  model->info.aliases.clear();
  model->info.created_unix_s = UnixSeconds();
  // Caches and clients tell models apart by these.
  model->info.digest = adapter->digest();
  if (!base.identity.empty()) model->identity = base.identity + " lora " + adapter->digest();
  // Embeddings of the base do not use the adapter.
  model->info.encoder.reset();
  model->encoder = nullptr;
  model->adapter = std::move(adapter);
  model->load_adapter = nullptr;
  return model;
}

std::shared_ptr<const api::TokenizerInfo> DescribeTokenizer(const tokenizer::Tokenizer& tokenizer) {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  // Texts of a vocabulary may be any bytes; only valid UTF-8 can be shown.
  const auto plain = [](std::string_view text) {
    return std::string(IsValidUtf8(text) ? text : std::string_view());
  };
  const auto text = [&](TokenId id) {
    return vocabulary.Contains(id) ? plain(vocabulary.Text(id)) : std::string();
  };
  const tokenizer::SpecialIds& ids = vocabulary.special();
  api::TokenizerInfo info;
  info.bos = text(ids.bos);
  info.eos = text(ids.eos);
  info.unk = text(ids.unk);
  info.pad = text(ids.pad);
  info.add_bos = vocabulary.add_bos();
  info.add_eos = vocabulary.add_eos();
  info.chat_template = plain(tokenizer.chat_template());
  return std::make_shared<const api::TokenizerInfo>(std::move(info));
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

int ServedModel::unfinished() const {
  return (engine == nullptr ? 0 : engine->unfinished()) +
         (encoder == nullptr ? 0 : encoder->engine->unfinished());
}

}  // namespace tutti::gateway
