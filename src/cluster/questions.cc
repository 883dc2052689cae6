// WorkerPool: questions that a worker answers at once, in one piece: tokens of a text, texts of
// tokens, how much it has flushed.
#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>
#include <utility>

#include "api/models.h"
#include "cluster/inference_codec.h"
#include "cluster/work.h"

namespace tutti::cluster {
namespace {

Status NobodyAnswers() {
  return Unavailable("overloaded", "no worker answers now").WithRetryAfter(std::chrono::seconds(1));
}
Status AnsweredTooLate() { return Unavailable("overloaded", "the worker did not answer in time"); }

Result<api::TokenizeResult> TokensOf(bool pieces_asked, const Result<v1::Update>& answer) {
  RETURN_IF_ERROR(answer.status());
  RETURN_IF_ERROR(FromWire(answer->ended()));
  const v1::TokenizeReply& reply = answer->tokenized();
  const bool pieces =
      reply.pieces_size() == reply.tokens_size() && reply.special_size() == reply.tokens_size();
  if (!pieces && (pieces_asked || reply.pieces_size() + reply.special_size() > 0))
    return MismatchedReply();
  return FromWire(reply);
}

Result<std::string> TextOf(const Result<v1::Update>& answer) {
  RETURN_IF_ERROR(answer.status());
  RETURN_IF_ERROR(FromWire(answer->ended()));
  return answer->text();
}

// A result that a thread waits for.
template <typename T>
class Awaited {
 public:
  void Set(T value) {
    const MutexLock lock(mutex_);
    value_.emplace(std::move(value));
    changed_.NotifyAll();
  }
  // Calls `end_late`, which ends overdue questions, periodically: this may be the only thread that
  // does.
  T Wait(const std::function<void()>& end_late) {
    while (true) {
      {
        const MutexLock lock(mutex_);
        if (!value_) changed_.WaitFor(mutex_, std::chrono::milliseconds(20));
        if (value_) return *std::move(value_);
      }
      end_late();
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<T> value_ GUARDED_BY(mutex_);
};

}  // namespace

void WorkerPool::AskTokens(const api::TokenizeRequest& request, bool loads,
                           Done<api::TokenizeResult> done) {
  auto call = std::make_shared<v1::Call>();
  ToWire(request, call->mutable_tokenize());
  Ask(request.model, std::move(call), request.patience, loads,
      [pieces = request.pieces, done = std::move(done)](const Result<v1::Update>& answer) {
        done(TokensOf(pieces, answer));
      });
}

void WorkerPool::AskText(const api::DetokenizeRequest& request, bool loads,
                         Done<std::string> done) {
  auto call = std::make_shared<v1::Call>();
  ToWire(request, call->mutable_detokenize());
  Ask(request.model, std::move(call), request.patience, loads,
      [done = std::move(done)](const Result<v1::Update>& answer) { done(TextOf(answer)); });
}

void WorkerPool::TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) {
  AskTokens(request, true, std::move(done));
}

void WorkerPool::DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) {
  AskText(request, true, std::move(done));
}

Result<api::TokenizeResult> WorkerPool::Tokenize(const api::TokenizeRequest& request) {
  const auto awaited = std::make_shared<Awaited<Result<api::TokenizeResult>>>();
  AskTokens(request, false,
            [awaited](Result<api::TokenizeResult> result) { awaited->Set(std::move(result)); });
  return awaited->Wait([this] { EndLateQuestions(); });
}

Result<std::string> WorkerPool::Detokenize(const api::DetokenizeRequest& request) {
  const auto awaited = std::make_shared<Awaited<Result<std::string>>>();
  AskText(request, false, [awaited](Result<std::string> text) { awaited->Set(std::move(text)); });
  return awaited->Wait([this] { EndLateQuestions(); });
}

uint64_t WorkerPool::Flush(const std::string* tenant) {
  std::vector<std::shared_ptr<Awaited<uint64_t>>> asked;
  {
    const MutexLock lock(mutex_);
    for (const WorkerRef& worker : workers_) {
      auto call = std::make_shared<v1::Call>();
      if (tenant == nullptr) {
        call->set_flush_all(true);
      } else {
        call->set_flush_tenant(*tenant);
      }
      AskWorker(worker, std::move(call), kPatience,
                [awaited = asked.emplace_back(std::make_shared<Awaited<uint64_t>>())](
                    const Result<v1::Update>& answer) {
                  awaited->Set(answer.ok() ? answer->flushed() : 0);
                });
    }
  }
  uint64_t flushed = 0;
  for (const auto& awaited : asked) flushed += awaited->Wait([this] { EndLateQuestions(); });
  return flushed;
}

void WorkerPool::AskWorker(const WorkerRef& worker, std::shared_ptr<v1::Call> call,
                           Duration patience, Told told) {
  auto question = std::make_shared<Question>();
  question->call = std::move(call);
  question->deadline = clock_.Now() + patience;
  question->told = std::move(told);
  Begin(worker, question);
}

void WorkerPool::Ask(const std::string& name, std::shared_ptr<v1::Call> call, Duration patience,
                     bool loads, Told told) {
  auto question = std::make_shared<Question>();
  question->call = std::move(call);
  question->bytes = question->call->ByteSizeLong();
  question->deadline = clock_.Now() + patience;
  question->told = std::move(told);
  if (Status refused = AskOne(question, name, loads); !refused.ok())
    question->told(std::move(refused));
}

Status WorkerPool::AskOne(const QuestionRef& question, const std::string& name, bool loads) {
  const MutexLock lock(mutex_);
  const api::ModelList models = LiveModels();
  const api::ModelInfo* model =
      name.empty() ? api::DefaultGenerator(models) : api::FindModel(models, name);
  if (model == nullptr) return AbsentLocked(name);
  question->model = model->id;
  if (question->call->has_tokenize()) question->call->mutable_tokenize()->set_model(model->id);
  if (question->call->has_detokenize()) question->call->mutable_detokenize()->set_model(model->id);
  if (question->call->has_load()) question->call->set_load(model->id);
  const size_t asked = questions_.load();
  if (asked >= kMaxQuestions ||
      (asked > 0 && question_bytes_ + question->bytes > kMaxQuestionBytes))
    return NobodyAnswers();
  const WorkerRef worker = ChooseToAsk(model->id);
  if (worker == nullptr) return NobodyAnswers();
  // The worker answers by itself when its own time limit for the load has passed.
  const bool loaded = worker->ReadinessFor(*worker->Model(model->id)) == Readiness::kLoaded;
  if (loads && !loaded) {
    // Loads are few: one for each model.
    question->loads = !question->call->has_load();
    if (question->loads && loading_questions_ >= kMaxLoadingQuestions) return NobodyAnswers();
    if (question->loads) ++loading_questions_;
    question->deadline = clock_.Now() + kLoadPatience;
  }
  Begin(worker, question);
  return OkStatus();
}

// A worker that is not draining and responds, if any; of those, one that has the model, or can load
// it most easily; of those, the one with the fewest questions.
WorkerPool::WorkerRef WorkerPool::ChooseToAsk(const std::string& model) const {
  WorkerRef best;
  using Rank = std::tuple<bool, Readiness, size_t, size_t>;
  Rank least;
  const TimePoint now = clock_.Now();
  for (const WorkerRef& worker : workers_) {
    const api::ModelInfo* const info = worker->Model(model);
    if (info == nullptr || now - worker->heard > kUnheard) continue;
    const Rank rank(worker->draining || !FromWire(worker->beat.live()).ok(),
                    worker->ReadinessFor(*info), worker->questions.size(), worker->works.size());
    if (best != nullptr && !(rank < least)) continue;
    best = worker;
    least = rank;
  }
  return best;
}

void WorkerPool::Begin(const WorkerRef& worker, const QuestionRef& question) {
  question->id = next_id_++;
  question->call->set_id(question->id);
  ++works_;
  questions_.fetch_add(1);
  question_bytes_ += question->bytes;
  Send(worker, question);
}

void WorkerPool::Send(const WorkerRef& worker, const QuestionRef& question) {
  if (!question->model.empty()) NotePlacement(*worker, question->model);
  question->worker = worker;
  worker->Add(question);
  worker->calls.push_back(question->call);
  worker->connection->Wake();
}

bool WorkerPool::AskAnother(const QuestionRef& question) {
  if (question->model.empty() || std::exchange(question->moved, true)) return false;
  const WorkerRef worker = ChooseToAsk(question->model);
  if (worker == nullptr) return false;
  Send(worker, question);
  return true;
}

void WorkerPool::Forget(const QuestionRef& question) {
  const WorkerRef worker = std::exchange(question->worker, nullptr);
  worker->Remove(*question);
  std::erase(worker->calls, question->call);  // it may not even have been sent
  --works_;
  questions_.fetch_sub(1);
  if (question->loads) --loading_questions_;
  question_bytes_ -= question->bytes;
  changed_.NotifyAll();
}

void WorkerPool::EndLateQuestions() {
  std::vector<QuestionRef> late;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_.Now();
    for (const WorkerRef& worker : workers_) {
      for (const auto& [id, question] : worker->questions) {
        if (now >= question->deadline) late.push_back(question);
      }
    }
    for (const QuestionRef& question : late) Forget(question);
  }
  for (const QuestionRef& question : late) question->told(AnsweredTooLate());
}

}  // namespace tutti::cluster
