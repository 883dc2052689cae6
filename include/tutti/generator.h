// Generator: a Model handle with default sampling parameters. Make one per request or per thread,
// or rent them from a GeneratorPool.
//
// Generators are cheap: they hold neither weights nor KV cache. They keep no state between prompts,
// so a reused generator answers like a new one. One thread at a time; any thread for Interrupt().
#pragma once

#include <cstddef>
#include <memory>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/handler.h"
#include "tutti/model.h"
#include "tutti/types.h"

namespace tutti {

class TUTTI_API Generator {
 public:
  explicit Generator(Model model, SamplingParams defaults = {});
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  ~Generator();

  Expected<Completion> Generate(Prompt prompt);
  Expected<Completion> Generate(Prompt prompt, const TokenHandler& handler);

  SamplingParams& sampling();
  const Model& model() const;
  // Cancels the running generation, if there is one. Any thread; the generator must stay alive
  // during the call.
  void Interrupt();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Keeps at most `keep` generators for reuse. Rent() never blocks: it makes a generator if the pool
// has none. Generators returned beyond `keep` are destroyed. Any thread. Leases may outlive the
// pool.
class TUTTI_API GeneratorPool {
 public:
  static constexpr size_t kMax = 10;  // no pool keeps more

  explicit GeneratorPool(Model model, SamplingParams defaults = {}, size_t keep = kMax);
  ~GeneratorPool();
  GeneratorPool(const GeneratorPool&) = delete;
  GeneratorPool& operator=(const GeneratorPool&) = delete;

  // A rented generator. The destructor returns it to the pool and resets its parameters.
  class TUTTI_API Lease {
   public:
    Lease(Lease&&) noexcept;
    Lease& operator=(Lease&&) noexcept;
    ~Lease();
    Generator& operator*() { return *generator_; }
    Generator* operator->() { return generator_.get(); }

   private:
    friend class GeneratorPool;
    struct Shelf;
    Lease(std::shared_ptr<Shelf> shelf, std::unique_ptr<Generator> generator);
    void Return();
    std::shared_ptr<Shelf> shelf_;
    std::unique_ptr<Generator> generator_;
  };

  Lease Rent();
  size_t kept() const;    // generators in the pool now
  size_t rented() const;  // leases alive

 private:
  std::shared_ptr<Lease::Shelf> shelf_;
};

}  // namespace tutti
