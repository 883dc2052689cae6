#include "tutti/generator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "library/state.h"

namespace tutti {

// --- Generator ---

struct Generator::Impl {
  Impl(Model shared, SamplingParams defaults)
      : model(std::move(shared)), sampling(std::move(defaults)) {}

  const Model model;
  SamplingParams sampling;
  Mutex mutex;
  std::shared_ptr<Job::State> running GUARDED_BY(mutex);

  Expected<Completion> Run(Prompt prompt, const TokenHandler* handler) {
    Expected<std::shared_ptr<Job::State>> job =
        Job::State::Submit(model.state(), {.prompt = std::move(prompt), .sampling = sampling},
                           std::make_shared<WakeCount>());
    if (!job.ok()) return job.error();
    Note(*job);
    if (handler != nullptr) (*job)->Run(*handler);
    Expected<Completion> completion = (*job)->Finish();
    Note(nullptr);
    return completion;
  }

  void Note(std::shared_ptr<Job::State> job) {
    const MutexLock lock(mutex);
    running = std::move(job);
  }
};

Generator::Generator(Model model, SamplingParams defaults)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(defaults))) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Expected<Completion> Generator::Generate(Prompt prompt) {
  return impl_->Run(std::move(prompt), nullptr);
}
Expected<Completion> Generator::Generate(Prompt prompt, const TokenHandler& handler) {
  return impl_->Run(std::move(prompt), &handler);
}
SamplingParams& Generator::sampling() { return impl_->sampling; }
const Model& Generator::model() const { return impl_->model; }

void Generator::Interrupt() {
  const MutexLock lock(impl_->mutex);
  if (impl_->running != nullptr) impl_->running->Cancel();
}

// --- GeneratorPool ---

struct GeneratorPool::Lease::Shelf {
  Shelf(Model shared, SamplingParams params, size_t most)
      : model(std::move(shared)), defaults(std::move(params)), keep(most) {}

  const Model model;
  const SamplingParams defaults;
  const size_t keep;
  Mutex mutex;
  std::vector<std::unique_ptr<Generator>> idle
      GUARDED_BY(mutex);  // the last returned is rented first
  size_t rented GUARDED_BY(mutex) = 0;
};

GeneratorPool::Lease::Lease(std::shared_ptr<Shelf> shelf, std::unique_ptr<Generator> generator)
    : shelf_(std::move(shelf)), generator_(std::move(generator)) {}
GeneratorPool::Lease::Lease(Lease&&) noexcept = default;
GeneratorPool::Lease& GeneratorPool::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Return();
    shelf_ = std::move(other.shelf_);
    generator_ = std::move(other.generator_);
  }
  return *this;
}
GeneratorPool::Lease::~Lease() { Return(); }

void GeneratorPool::Lease::Return() {
  if (generator_ == nullptr) return;
  generator_->sampling() = shelf_->defaults;
  const MutexLock lock(shelf_->mutex);
  --shelf_->rented;
  if (shelf_->idle.size() < shelf_->keep) shelf_->idle.push_back(std::move(generator_));
}

GeneratorPool::GeneratorPool(Model model, SamplingParams defaults, size_t keep)
    : shelf_(std::make_shared<Lease::Shelf>(std::move(model), std::move(defaults),
                                            std::min(keep, kMax))) {}
GeneratorPool::~GeneratorPool() = default;

GeneratorPool::Lease GeneratorPool::Rent() {
  std::unique_ptr<Generator> generator;
  {
    const MutexLock lock(shelf_->mutex);
    ++shelf_->rented;
    if (!shelf_->idle.empty()) {
      generator = std::move(shelf_->idle.back());
      shelf_->idle.pop_back();
    }
  }
  if (generator == nullptr)
    generator = std::make_unique<Generator>(shelf_->model, shelf_->defaults);
  return Lease(shelf_, std::move(generator));
}

size_t GeneratorPool::kept() const {
  const MutexLock lock(shelf_->mutex);
  return shelf_->idle.size();
}

size_t GeneratorPool::rented() const {
  const MutexLock lock(shelf_->mutex);
  return shelf_->rented;
}

}  // namespace tutti
