#include "services/cache/semantic_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "api/models.h"
#include "services/cache/semantic_reader.h"

namespace tutti::cache {
namespace {

// Number of nearest questions whose words are compared.
constexpr size_t kCandidates = 8;
constexpr size_t kMaxQuestionBytes = 4096, kMaxAnswerBytes = 64 << 10;
// While answering, kAuto computes one in this many would-be hits.
constexpr uint64_t kSampledEvery = 20;

AnswerKey OwnKey(uint64_t tag) {
  AnswerKey key;
  std::memcpy(key.hash.data(), &tag, sizeof tag);
  key.words.assign(reinterpret_cast<const char*>(&tag), sizeof tag);
  return key;
}

// Whether the request has one choice, no scoring and no log-probabilities, so that its answer can
// be shared.
bool MayBeShared(const api::GenerateRequest& request) {
  return request.n == 1 && !request.score_only && request.sampling.logprobs < 0 &&
         request.sampling.prompt_logprobs < 0;
}

// Whether the most probable tokens are asked for, by the request or by its model's defaults.
bool IsGreedy(const api::GenerateRequest& request, const api::ModelInfo& model) {
  const api::Parameter<double>& asked = request.sampling.temperature;
  return (asked.given() ? asked.value() : model.sampling.temperature.value_or(asked.value())) == 0;
}

}  // namespace

double FalseHitBound(uint64_t wrong, uint64_t all) {
  if (all == 0) return 1;
  constexpr double kZ = 1.6448536269514722;  // of 95 % on one side
  const auto n = static_cast<double>(all), p = static_cast<double>(wrong) / n;
  const double z2 = kZ * kZ;
  return (p + z2 / (2 * n) + kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n);
}

SemanticCache::SemanticCache(SemanticOptions options, api::Inference& inner, const Clock& clock)
    : options_(std::move(options)), inner_(inner), clock_(clock), store_(options_.limits) {}

SemanticCache::~SemanticCache() = default;

std::optional<SemanticCache::Question> SemanticCache::QuestionOf(
    const api::GenerateRequest& request) {
  if (!options_.routes.contains(request.route)) return std::nullopt;
  const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
  const bool offered =
      chat != nullptr && !chat->messages.empty() &&
      chat->messages.back().role == api::Role::kUser && !chat->continue_final_message &&
      !HasTools(request.prompt) && MayBeShared(request) &&
      chat->messages.back().content.size() <= kMaxQuestionBytes && !request.cache.no_store;
  const api::ModelList models = offered ? inner_.Models() : api::ModelList();
  const api::ModelInfo* model =
      request.model.empty() ? api::DefaultGenerator(models) : api::FindModel(models, request.model);
  api::EncodeRequest encode;
  encode.model = options_.encoder;
  const api::ModelInfo* encoder = api::EncoderFor(models, encode);
  Question question;
  if (offered) question.form = FormOf(chat->messages.back().content);
  if (!offered || model == nullptr || !IsGreedy(request, *model) || encoder == nullptr ||
      question.form.words.empty()) {
    Count([](SemanticStats& stats) { ++stats.bypasses; });
    return std::nullopt;
  }
  const std::span messages(chat->messages);
  question.partition =
      PartitionOf(request, messages.first(messages.size() - 1), *model, *encoder, secret_);
  question.tenant = request.tenant;
  question.text = chat->messages.back().content;
  question.threshold = std::max(options_.threshold, request.cache.least_similarity);
  question.max_age = request.cache.max_age;
  question.may_hit = !request.cache.no_cache;
  const MutexLock lock(mutex_);
  question.era = store_.era();
  return question;
}

Result<api::Generation> SemanticCache::Generate(api::GenerateRequest request,
                                                std::shared_ptr<Waker> waker) {
  std::optional<Question> question = QuestionOf(request);
  if (!question) return inner_.Generate(std::move(request), std::move(waker));
  api::EncodeRequest encode;
  encode.request_id = request.request_id;
  encode.model = options_.encoder;
  encode.inputs = {TextOf(question->form)};
  encode.normalize = true;
  encode.priority = request.priority;
  encode.deadline = request.deadline;
  encode.tenant = request.tenant;
  encode.tenant_weight = request.tenant_weight;
  encode.truncation = api::Truncation::kRefuse;
  Result<api::Encoding> encoding = inner_.Encode(std::move(encode), waker);
  if (!encoding.ok()) {
    Count([](SemanticStats& stats) { ++stats.failed; });
    return inner_.Generate(std::move(request), std::move(waker));
  }
  const auto reader = std::make_shared<SemanticReader>(*this, std::move(request), std::move(waker),
                                                       *std::move(question), *std::move(encoding));
  return api::Generation(reader->stream(), reader, reader);
}

std::optional<SemanticCache::Candidate> SemanticCache::Look(const Question& question,
                                                            const std::vector<float>& vector) {
  std::vector<EntryRef> late;  // freed without the lock
  const MutexLock lock(mutex_);
  const auto found = partitions_.find(question.partition);
  if (!question.may_hit || found == partitions_.end()) {
    ++stats_.misses;
    return std::nullopt;
  }
  Partition& partition = *found->second;
  const TimePoint now = clock_.Now();
  bool guarded = false;
  std::optional<Candidate> open;
  for (const SemanticIndex::Neighbour& near :
       partition.index.Near(vector, question.threshold, kCandidates)) {
    const EntryRef entry = partition.entries.at(near.tag);
    const Likeness likeness = Compare(question.form, entry->form);
    if (likeness == Likeness::kDifferent) {
      guarded = true;
      continue;
    }
    const auto kept = store_.Find(entry->own, now, question.max_age);
    if (!kept) {
      if (store_.Find(entry->own, now, std::nullopt)) continue;  // too old for this client alone
      partition.index.Remove(near.tag);
      partition.entries.erase(near.tag);
      late.push_back(entry);
      continue;
    }
    const Candidate candidate{entry, kept->age, near.similarity, likeness};
    if (likeness == Likeness::kSame) return candidate;
    if (!open) open = candidate;
  }
  if (open && options_.verifier != Verifier::kLexical) return open;
  ++(guarded || open ? stats_.guarded : stats_.misses);
  return std::nullopt;
}

void SemanticCache::Forget(const AnswerStore::Gone& gone) {
  for (const auto& kept : gone) {
    const auto& entry = static_cast<const Entry&>(*kept);
    const auto partition = partitions_.find(entry.partition);
    if (partition == partitions_.end()) continue;
    partition->second->index.Remove(entry.tag);
    partition->second->entries.erase(entry.tag);
    if (partition->second->entries.empty()) partitions_.erase(partition);
  }
}

void SemanticCache::Keep(const Question& question, const std::vector<float>& vector, Entry entry) {
  if (entry.text.size() + entry.reasoning.size() > kMaxAnswerBytes) return;
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  if (question.era != store_.era()) return;  // flushed since it was asked
  entry.tag = next_tag_++;
  entry.own = OwnKey(entry.tag);
  entry.id = "sem_" + std::to_string(entry.tag);
  entry.owner = question.tenant;
  entry.partition = question.partition;
  entry.form = question.form;
  entry.question = question.text;
  auto& partition = partitions_[question.partition];
  if (partition == nullptr) partition = std::make_unique<Partition>(vector.size());
  if (partition->index.width() != vector.size()) return;
  size_t words = 0;
  for (const std::string& word : entry.form.words) words += word.size() + sizeof(std::string);
  entry.size = sizeof(Entry) + entry.question.size() + entry.text.size() + entry.reasoning.size() +
               entry.partition.words.size() + words + partition->index.entry_bytes();
  const auto shared = std::make_shared<const Entry>(std::move(entry));
  partition->index.Add(vector, shared->tag);
  partition->entries[shared->tag] = shared;
  gone = store_.Insert(shared, clock_.Now());
  Forget(gone);
}

bool SemanticCache::Answers() const {
  switch (options_.mode) {
    case SemanticMode::kShadow:
      return false;
    case SemanticMode::kOn:
      return true;
    case SemanticMode::kAuto:
      break;
  }
  return FalseHitBound(stats_.wrong, stats_.right + stats_.wrong) <= options_.max_false_hit_rate;
}

bool SemanticCache::Samples() {
  const MutexLock lock(mutex_);
  if (!Answers()) return true;
  return options_.mode == SemanticMode::kAuto && ++sampled_ % kSampledEvery == 0;
}

void SemanticCache::Observe(bool right) {
  Count([right](SemanticStats& stats) { ++(right ? stats.right : stats.wrong); });
}

size_t SemanticCache::Flush(std::optional<std::string_view> tenant) {
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  gone = store_.Flush(tenant);
  if (tenant.has_value()) {
    Forget(gone);
  } else {
    partitions_.clear();
  }
  return gone.size();
}

void SemanticCache::Halve() {
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  gone = store_.Halve();
  Forget(gone);
}

SemanticStats SemanticCache::stats() const {
  const MutexLock lock(mutex_);
  SemanticStats stats = stats_;
  const uint64_t all = stats.right + stats.wrong;
  stats.false_hit_rate = all == 0 ? 0 : static_cast<double>(stats.wrong) / static_cast<double>(all);
  stats.false_hit_bound = FalseHitBound(stats.wrong, all);
  stats.answers = Answers();
  stats.entries = store_.entries();
  stats.bytes = store_.bytes();
  return stats;
}

}  // namespace tutti::cache
