#include "tutti/encoder.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "api/encoding.h"
#include "app/blocking_waker.h"
#include "library/convert.h"
#include "library/loading.h"
#include "library/state.h"
#include "protocol/encoding/errors.h"

namespace tutti {
namespace {

using Inputs = std::vector<api::EncodeInput>;

// Texts of one request, at most: a few batches. Two requests are under way, so that the model is
// not idle between them and memory stays bounded however many texts there are.
constexpr size_t kTextsAtOnce = 512;
constexpr size_t kRequestsAtOnce = 2;

// A request of the inputs from `first` on, and what its end is waited for with.
struct Group {
  size_t first;
  std::shared_ptr<app::BlockingWaker> waker;
  api::Encoding encoding;
};

// What the caller calls the inputs.
struct Name {
  std::string text;
  bool list = true;  // else there is one
};

// The error of a group under the position that its text has among all: "input[3]" of the second
// group is "texts[515]".
Error WithPosition(const Status& status, const Name& name, size_t first) {
  const std::optional<size_t> index = protocol::BlamedInput(status.param());
  if (!index.has_value()) return library::ToError(protocol::BlameList(name.text, status));
  std::string message = status.message();
  const std::string counted = "input " + std::to_string(*index) + " ";
  const std::string position =
      name.list ? name.text + "[" + std::to_string(first + *index) + "]" : name.text;
  if (message.starts_with(counted)) message.replace(0, counted.size() - 1, position);
  return library::ToError(
      Status(status.code(), status.reason(), std::move(message)).WithParam(position));
}

api::EncodeRequest RequestOf(const EncodeOptions& options, api::EncodeOutput output) {
  api::EncodeRequest request;
  request.output = output;
  request.normalize = options.normalize;
  request.dimensions = options.dimensions;
  request.prompt_name = options.prompt_name;
  request.raw_scores = options.raw_scores;
  if (options.truncate) request.truncation = api::Truncation::kRight;
  return request;
}

// Encodes inputs in groups. An error ends what is under way.
Expected<Vectors> Encode(Model::State& state, const api::EncodeRequest& shared, Inputs inputs,
                         const Name& name) {
  Vectors all;
  all.tokens.reserve(inputs.size());
  std::deque<Group> groups;
  for (size_t next = 0; next < inputs.size() || !groups.empty();) {
    if (next < inputs.size() && groups.size() < kRequestsAtOnce) {
      const size_t end = std::min(inputs.size(), next + kTextsAtOnce);
      api::EncodeRequest request = shared;
      const auto at = [&](size_t i) { return inputs.begin() + static_cast<std::ptrdiff_t>(i); };
      request.inputs.assign(std::move_iterator(at(next)), std::move_iterator(at(end)));
      auto waker = std::make_shared<app::BlockingWaker>();
      Result<api::Encoding> begun = state.inference.gateway().Encode(std::move(request), waker);
      if (!begun.ok()) return WithPosition(begun.status(), name, next);
      groups.push_back({next, std::move(waker), *std::move(begun)});
      next = end;
      continue;
    }
    Group& oldest = groups.front();
    Result<api::EncodeResult> result = oldest.waker->Await(oldest.encoding);
    if (!result.ok()) return WithPosition(result.status(), name, oldest.first);
    all.width = result->width;
    all.values.insert(all.values.end(), result->values.begin(), result->values.end());
    all.tokens.insert(all.tokens.end(), result->tokens.begin(), result->tokens.end());
    groups.pop_front();
  }
  return all;
}

// The first of `names` that the model has a prompt of.
std::optional<std::string> PromptOf(const api::EncoderInfo& info,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::find(info.prompts.begin(), info.prompts.end(), name) != info.prompts.end())
      return name;
  }
  return std::nullopt;
}

// Models of vectors may read pairs too, and score none.
bool IsCrossEncoder(const api::EncoderInfo& info) { return info.pairs && !info.labels.empty(); }

}  // namespace

Expected<Encoder> Encoder::Load(const ModelOptions& options) {
  Expected<std::shared_ptr<Model::State>> state =
      library::LoadModel(options, {{"encode.decoders", "on"}});
  if (!state.ok()) return state.error();
  if (!(*state)->served->info.encoder.has_value()) {
    return Error(ErrorCode::kInvalidArgument, "invalid_value",
                 "model " + (*state)->info.name + " gives neither vectors nor scores")
        .WithParam("model");
  }
  return Encoder(*std::move(state));
}

Encoder::Encoder(std::shared_ptr<Model::State> state) : state_(std::move(state)) {}
Encoder::Encoder(const Encoder&) = default;
Encoder& Encoder::operator=(const Encoder&) = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;
Encoder::~Encoder() = default;

Expected<Vectors> Encoder::Embed(const std::vector<std::string>& texts,
                                 const EncodeOptions& options) const {
  return Encode(*state_, RequestOf(options, api::EncodeOutput::kPooled),
                Inputs(texts.begin(), texts.end()), {"texts"});
}

Expected<Vectors> Encoder::Classify(const std::vector<std::string>& texts,
                                    const EncodeOptions& options) const {
  return Encode(*state_, RequestOf(options, api::EncodeOutput::kScores),
                Inputs(texts.begin(), texts.end()), {"texts"});
}

Expected<std::vector<float>> Encoder::Rank(const std::string& query,
                                           const std::vector<std::string>& documents,
                                           const EncodeOptions& options) const {
  const api::EncoderInfo& info = *state_->served->info.encoder;
  if (IsCrossEncoder(info)) {
    Inputs pairs;
    pairs.reserve(documents.size());
    for (const std::string& document : documents) pairs.push_back(api::TextPair{query, document});
    Expected<Vectors> scores = Encode(*state_, RequestOf(options, api::EncodeOutput::kScores),
                                      std::move(pairs), {"documents"});
    if (!scores.ok()) return scores.error();
    if (scores->values.size() != documents.size())
      return library::ToError(protocol::RanksNothing(state_->info.name));
    return std::move(scores->values);
  }
  api::EncodeRequest request = RequestOf(options, api::EncodeOutput::kPooled);
  request.normalize = true;
  if (!options.prompt_name.has_value()) request.prompt_name = PromptOf(info, {"query"});
  const Expected<Vectors> asked = Encode(*state_, request, {query}, {"query", false});
  if (!asked.ok()) return asked.error();
  if (!options.prompt_name.has_value())
    request.prompt_name = PromptOf(info, {"document", "passage"});
  const Expected<Vectors> found =
      Encode(*state_, request, Inputs(documents.begin(), documents.end()), {"documents"});
  if (!found.ok()) return found.error();
  std::vector<float> scores;
  scores.reserve(documents.size());
  const auto width = static_cast<size_t>(asked->width);
  for (size_t i = 0; i < found->rows(); ++i) {
    scores.push_back(std::inner_product(asked->row(0), asked->row(0) + width, found->row(i), 0.0F));
  }
  return scores;
}

ModelInfo Encoder::info() const { return state_->info; }

EncoderInfo Encoder::encoder_info() const {
  const api::EncoderInfo& info = *state_->served->info.encoder;
  return {.dimensions = info.width,
          .labels = info.labels,
          .pairs = IsCrossEncoder(info),
          .prompts = info.prompts};
}

}  // namespace tutti
