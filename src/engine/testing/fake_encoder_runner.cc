#include "engine/testing/fake_encoder_runner.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tutti::engine::testing {
namespace {

uint64_t MixItem(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 33);
}

}  // namespace

EncoderLimits FakeEncoderRunner::DefaultLimits() {
  EncoderLimits limits;
  limits.max_items = 64;
  limits.max_tokens = 2048;
  limits.max_item_tokens = 512;
  limits.vocab_size = 1 << 20;
  limits.types = 2;
  limits.width = 4;
  limits.labels = 1;
  return limits;
}

void FakeEncoderRunner::Fill(std::span<const TokenId> tokens, std::span<const uint8_t> types,
                             api::EncodeOutput output, std::span<float> out) {
  uint64_t hash = MixItem(static_cast<uint64_t>(output) + 1, tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = MixItem(hash, static_cast<uint64_t>(tokens[i]));
    hash = MixItem(hash, types.empty() ? 0 : types[i]);
  }
  for (float& value : out) {
    hash = MixItem(hash, 1);
    value = static_cast<float>(hash >> 40);  // exact
  }
}

void FakeEncoderRunner::CheckBatch(const EncodeBatch& batch) {
  const auto violate = [&](const std::string& text) {
    violations_.push_back("batch " + std::to_string(batch.number) + ": " + text);
  };
  if (in_flight_) violate("launched while another is in flight");
  if (batch.items.empty()) violate("no items");
  if (static_cast<int>(batch.items.size()) > limits_.max_items) violate("too many items");
  if (static_cast<int>(batch.tokens.size()) > limits_.max_tokens) violate("too many tokens");
  if (!batch.types.empty() && batch.types.size() != batch.tokens.size()) violate("types");
  if (batch.offsets.size() != batch.items.size() + 1) return violate("offsets");
  int next = 0, index = 0;
  for (const EncodeItem& item : batch.items) {
    if (batch.offsets[static_cast<size_t>(index++)] != next) violate("an offset");
    if (item.first != next || item.tokens < 1) violate("not packed");
    if (item.tokens > limits_.max_item_tokens) violate("an item is too long");
    const int rows = item.output == api::EncodeOutput::kTokens ? item.tokens : 1;
    if (item.out.size() != static_cast<size_t>(rows) * static_cast<size_t>(Width(item.output)))
      violate("wrong room for the result");
    next += item.tokens;
  }
  if (batch.offsets.back() != next) violate("the last offset");
  if (next != static_cast<int>(batch.tokens.size())) violate("tokens left over");
}

void FakeEncoderRunner::Launch(const EncodeBatch& batch) {
  CheckBatch(batch);
  in_flight_ = true;
  const TimePoint begin = clock_ == nullptr ? TimePoint{} : clock_->Now();
  status_ = fault ? fault(batch) : OkStatus();
  for (const EncodeItem& item : batch.items) {
    const auto first = static_cast<size_t>(item.first), count = static_cast<size_t>(item.tokens);
    const auto tokens = batch.tokens.subspan(first, count);
    if (poison != kNoToken && std::find(tokens.begin(), tokens.end(), poison) != tokens.end())
      status_ = Internal("poisoned");
    Fill(tokens, batch.types.empty() ? batch.types : batch.types.subspan(first, count), item.output,
         item.out);
    if (tokens[0] == nan) item.out.back() = std::numeric_limits<float>::quiet_NaN();
  }
  if (!status_.ok()) {  // what a failed batch leaves behind means nothing
    for (const EncodeItem& item : batch.items) std::fill(item.out.begin(), item.out.end(), -1.0f);
  }
  const Duration took = time ? time(batch) : Duration(0);
  if (clock_ != nullptr) clock_->Advance(took);
  if (!trace) return;
  BatchTrace& kept = batches_.emplace_back();
  kept.begin = begin;
  kept.end = clock_ == nullptr ? TimePoint{} : clock_->Now();
  kept.tokens = static_cast<int64_t>(batch.tokens.size());
  kept.ok = status_.ok();
  for (const EncodeItem& item : batch.items) {
    kept.lengths.push_back(item.tokens);
    kept.first.push_back(batch.tokens[static_cast<size_t>(item.first)]);
  }
}

Status FakeEncoderRunner::Collect() {
  if (!in_flight_) violations_.push_back("collected without a launch");
  in_flight_ = false;
  return std::move(status_);
}

std::vector<float> FakeEncoderRunner::Answer(const TokenizedRequest& request) const {
  std::vector<float> values;
  size_t first = 0;
  for (const int32_t length : request.lengths) {
    const auto count = static_cast<size_t>(length);
    const size_t rows = request.output == api::EncodeOutput::kTokens ? count : 1;
    std::vector<float> out(rows * static_cast<size_t>(Width(request.output)));
    const std::span<const TokenId> tokens(request.tokens);
    const std::span<const uint8_t> types(request.types);
    Fill(tokens.subspan(first, count), types.empty() ? types : types.subspan(first, count),
         request.output, out);
    values.insert(values.end(), out.begin(), out.end());
    first += count;
  }
  return values;
}

Duration EncodeTimingModel::TimeOf(const EncodeBatch& batch) const {
  int64_t squares = 0;
  for (const EncodeItem& item : batch.items) squares += int64_t{item.tokens} * item.tokens;
  return head + per_token * static_cast<int64_t>(batch.tokens.size()) + per_square * squares;
}

TokenizedRequest TestEncoding(int name, const std::vector<int>& lengths) {
  TokenizedRequest request;
  request.lengths.assign(lengths.begin(), lengths.end());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const TokenId first = name + static_cast<TokenId>(i);
    for (int t = 0; t < lengths[i]; ++t)
      request.tokens.push_back(t == 0 ? first : 1 + (first * 31 + t * 7) % 30000);
  }
  return request;
}

}  // namespace tutti::engine::testing
