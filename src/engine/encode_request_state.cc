#include "engine/encode_request_state.h"

#include <utility>

namespace tutti::engine {
namespace {

int RowWidth(api::EncodeOutput output, const EncoderLimits& limits) {
  return output == api::EncodeOutput::kScores ? limits.labels : limits.width;
}

}  // namespace

void ItemList::PushBack(WorkItem& item) {
  item.previous = last;
  item.next = nullptr;
  (last == nullptr ? first : last->next) = &item;
  last = &item;
}

void ItemList::Remove(WorkItem& item) {
  (item.previous == nullptr ? first : item.previous->next) = item.next;
  (item.next == nullptr ? last : item.next->previous) = item.previous;
  item.previous = item.next = nullptr;
}

std::span<float> EncodeRequestState::Out(const WorkItem& item) {
  const bool by_token = request.output == api::EncodeOutput::kTokens;
  const auto width = static_cast<size_t>(result.width);
  const auto row = static_cast<size_t>(by_token ? item.first : item.index);
  const auto rows = static_cast<size_t>(by_token ? item.tokens : 1);
  return std::span(result.values).subspan(row * width, rows * width);
}

bool IsSmall(const TokenizedRequest& request, const EncoderOptions& options) {
  return request.priority == api::Priority::kInteractive &&
         request.lengths.size() <= static_cast<size_t>(options.small_items) &&
         request.tokens.size() <= static_cast<size_t>(options.batch_tokens);
}

int64_t ResultFloats(const TokenizedRequest& request, const EncoderLimits& limits) {
  const size_t rows =
      request.output == api::EncodeOutput::kTokens ? request.tokens.size() : request.lengths.size();
  return static_cast<int64_t>(rows) * RowWidth(request.output, limits);
}

std::unique_ptr<EncodeRequestState> MakeEncodeRequestState(
    AdmissionPermit permit, TokenizedRequest request, std::shared_ptr<api::EncodingState> state,
    const EncoderLimits& limits, bool small, TimePoint now) {
  auto work = std::make_unique<EncodeRequestState>();
  work->result.width = RowWidth(request.output, limits);
  work->result.values.resize(static_cast<size_t>(ResultFloats(request, limits)));
  work->result.tokens = request.lengths;
  if (request.output == api::EncodeOutput::kTokens) work->result.rows = request.lengths;
  work->items.resize(request.lengths.size());
  int first = 0;
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    WorkItem& item = work->items[i];
    item.work = work.get();
    item.index = static_cast<int>(i);
    item.first = first;
    item.tokens = request.lengths[i];
    first += item.tokens;
  }
  work->left = static_cast<int>(work->items.size());
  work->control = permit.control();
  work->permit = std::move(permit);
  work->request = std::move(request);
  work->state = std::move(state);
  work->small = small;
  work->submitted_at = now;
  return work;
}

}  // namespace tutti::engine
