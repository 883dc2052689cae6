// Generator: a place to generate from with parameters of its own, for the three common shapes of a
// program: one per request, one per thread, or rented from a GeneratorPool.
//
// Making one is cheap: it holds its defaults and a handle, no weights and no KV. It keeps nothing
// of a prompt: reused, it answers as a new one would. One thread at a time, but Interrupt().
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
  // Ends the generation that is running, if one is, as cancelled. Any thread, while the generator
  // lives.
  void Interrupt();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Keeps generators for reuse, at most `keep` of them. Renting never waits: when none is kept, one
// is made; what is returned beyond `keep` is dropped. Any thread. Leases may outlive the pool.
class TUTTI_API GeneratorPool {
 public:
  static constexpr size_t kMax = 10;  // no pool keeps more

  explicit GeneratorPool(Model model, SamplingParams defaults = {}, size_t keep = kMax);
  ~GeneratorPool();
  GeneratorPool(const GeneratorPool&) = delete;
  GeneratorPool& operator=(const GeneratorPool&) = delete;

  // A rented generator, returned when this ends, by an exception too. Its parameters are then set
  // back.
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
  size_t kept() const;    // lying in the pool now
  size_t rented() const;  // leases alive

 private:
  std::shared_ptr<Lease::Shelf> shelf_;
};

}  // namespace tutti
