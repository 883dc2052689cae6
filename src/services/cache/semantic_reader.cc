#include "services/cache/semantic_reader.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"

namespace tutti::cache {
namespace {

using Kind = api::StreamEvent::Kind;

constexpr int kComputedAtOnce = 16;

// Whether the first letters are "yes", in any case.
bool IsYes(const std::string& text) {
  const std::string lower = AsciiLower(text);
  const size_t letter = lower.find_first_of("abcdefghijklmnopqrstuvwxyz");
  return letter != std::string::npos && lower.compare(letter, 3, "yes") == 0;
}

}  // namespace

SemanticReader::SemanticReader(SemanticCache& cache, api::GenerateRequest request,
                               std::shared_ptr<Waker> waker, SemanticCache::Question question,
                               api::Encoding encoding)
    : cache_(cache),
      waker_(waker),
      stream_(std::make_shared<api::TokenStream>(std::move(waker))),
      request_(std::move(request)),
      question_(std::move(question)),
      encoding_(std::move(encoding)) {}

bool SemanticReader::Fill(size_t read) {
  const MutexLock lock(mutex_);
  if (stream_->size() > read) return false;
  bool goes_on = true;
  while (goes_on && stream_->size() <= read) {
    switch (state_) {
      case State::kEmbedding:
        goes_on = TakeVector();
        break;
      case State::kScoring:
        goes_on = TakeScores();
        break;
      case State::kJudging:
        goes_on = TakeJudgement();
        break;
      case State::kComputing:
        goes_on = CopyEvents();
        break;
      case State::kEnded:
        return stream_->size() > read;
    }
  }
  return stream_->size() > read;
}

bool SemanticReader::TakeVector() {
  if (!encoding_.done()) return false;
  Result<api::EncodeResult> result = encoding_.Take();
  if (!result.ok()) {
    cache_.Count([](SemanticStats& stats) { ++stats.failed; });
    Compute();
    return true;
  }
  vector_ = std::move(result->values);
  candidate_ = cache_.Look(question_, vector_);
  if (candidate_) {
    Verify();
  } else {
    Compute();
  }
  return true;
}

void SemanticReader::Verify() {
  if (candidate_->likeness == Likeness::kSame) return OnVerified(true);
  if (cache_.options_.verifier == Verifier::kCrossEncoder ? AskCrossEncoder() : AskModel()) return;
  OnVerified(false);
}

// Asks in both orders, because a cross-encoder may be asymmetric.
bool SemanticReader::AskCrossEncoder() {
  api::EncodeRequest request;
  request.request_id = request_.request_id;
  request.model = cache_.options_.cross_encoder;
  request.output = api::EncodeOutput::kScores;
  const std::string& other = candidate_->entry->question;
  request.inputs = {api::TextPair{question_.text, other}, api::TextPair{other, question_.text}};
  request.priority = request_.priority;
  request.deadline = request_.deadline;
  request.tenant = request_.tenant;
  request.tenant_weight = request_.tenant_weight;
  Result<api::Encoding> encoding = cache_.inner_.Encode(std::move(request), waker_);
  if (!encoding.ok()) return false;
  encoding_ = *std::move(encoding);
  state_ = State::kScoring;
  return true;
}

bool SemanticReader::TakeScores() {
  if (!encoding_.done()) return false;
  const Result<api::EncodeResult> result = encoding_.Take();
  OnVerified(result.ok() && result->values.size() == 2 &&
             std::all_of(result->values.begin(), result->values.end(),
                         [&](float score) { return score >= cache_.options_.cross_threshold; }));
  return true;
}

bool SemanticReader::AskModel() {
  api::GenerateRequest request;
  request.request_id = request_.request_id;
  request.model = request_.model;
  api::ChatPrompt chat;
  chat.messages = {
      {api::Role::kSystem,
       "You compare two questions. Answer with one word: Yes if one answer is right for both, "
       "else No.",
       ""},
      {api::Role::kUser,
       "Question 1: " + candidate_->entry->question + "\nQuestion 2: " + question_.text, ""}};
  request.prompt = std::move(chat);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 4;
  request.priority = request_.priority;
  request.deadline = request_.deadline;
  request.tenant = request_.tenant;
  request.tenant_weight = request_.tenant_weight;
  Result<api::Generation> judgement = cache_.inner_.Generate(std::move(request), waker_);
  if (!judgement.ok()) return false;
  judgement_ = *std::move(judgement);
  state_ = State::kJudging;
  return true;
}

bool SemanticReader::TakeJudgement() {
  while (const api::StreamEvent* event = judgement_.Next()) {
    judged_ += event->text;
    judgement_.Consumed(event->text.size());
    if (event->kind != Kind::kEnd) continue;
    OnVerified(judgement_.stream().status().ok() && IsYes(judged_));
    return true;
  }
  return false;
}

void SemanticReader::OnVerified(bool same) {
  if (!same) {
    cache_.Count([](SemanticStats& stats) { ++stats.unverified; });
    candidate_.reset();
    return Compute();
  }
  if (cache_.Samples()) return Compute();  // and compares
  Hit();
}

void SemanticReader::Hit() {
  cache_.Count([](SemanticStats& stats) { ++stats.hits; });
  const SemanticCache::Entry& entry = *candidate_->entry;
  if (request_.cache_report != nullptr)
    request_.cache_report->SetSemantic(candidate_->age, candidate_->similarity, entry.id);
  api::StreamEvent started;
  started.kind = Kind::kStarted;
  started.usage = entry.usage;
  started.usage.completion_tokens = 0;
  started.usage.cached_response = true;
  stream_->Append(std::move(started));
  if (request_.observer != nullptr) request_.observer->FirstToken();
  api::StreamEvent token;
  token.kind = Kind::kToken;
  token.text = entry.text;
  token.reasoning = entry.reasoning;
  stream_->Append(std::move(token));
  stream_->Append(entry.end);
  api::Usage usage = entry.usage;
  usage.cached_response = true;
  End(OkStatus(), usage, {});
}

void SemanticReader::Compute() {
  if (request_.cache_report != nullptr)
    request_.cache_report->Set(api::CacheOutcome::kMiss, Duration(0));
  // The caller pays for the computation, and the inner inference calls its observer.
  api::GenerateRequest request = std::move(request_);
  request_ = {};
  Result<api::Generation> computed = cache_.inner_.Generate(std::move(request), waker_);
  if (!computed.ok()) return End(computed.status(), {}, {});
  computed_ = *std::move(computed);
  state_ = State::kComputing;
}

bool SemanticReader::CopyEvents() {
  bool any = false;
  for (int i = 0; i < kComputedAtOnce && state_ == State::kComputing; ++i) {
    const api::StreamEvent* const event = computed_.Next();
    if (event == nullptr) return any;
    any = true;
    computed_.Consumed(event->text.size());
    Copy(*event);
  }
  return any;
}

void SemanticReader::Copy(const api::StreamEvent& event) {
  if (event.kind == Kind::kEnd) {
    const Status& status = computed_.stream().status();
    // A cut or failed answer is not stored.
    if (status.ok() && whole_ && !vector_.empty()) {
      if (candidate_) cache_.Observe(AnswersAgree(made_.text, candidate_->entry->text));
      made_.usage = event.usage;
      cache_.Keep(question_, vector_, std::move(made_));
    }
    return End(status, event.usage, event.timings);
  }
  made_.text += event.text;
  made_.reasoning += event.reasoning;
  if (event.kind == Kind::kChoiceEnd) {
    whole_ = true;
    made_.end = event;
    made_.end.text.clear();
    made_.end.reasoning.clear();
  }
  stream_->Append(event);
}

void SemanticReader::End(Status status, const api::Usage& usage, const api::Timings& timings) {
  state_ = State::kEnded;
  if (const auto observer = std::exchange(request_.observer, nullptr))
    status = observer->End(std::move(status), usage, timings);
  stream_->Finish(std::move(status), usage, timings);
}

void SemanticReader::Cancel() noexcept {
  const MutexLock lock(mutex_);
  switch (state_) {
    case State::kComputing:  // the computation writes its end
      computed_.Cancel();
      return;
    case State::kEnded:
      return;
    default:
      encoding_ = {};
      judgement_ = {};
      End(Cancelled(), {}, {});
  }
}

}  // namespace tutti::cache
