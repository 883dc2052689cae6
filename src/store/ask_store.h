// AskStore: round trips of a strand's owner through the store: work on the store's thread, then its
// result on the strand, where the owner's state lives.
//
// Any thread may call Read and Write; neither blocks. A strand that has stopped drops the result.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "base/strand.h"
#include "store/store.h"

namespace tutti::store {

// The error that clients get for an error of the store; errors of the work itself stay as they are.
Status ClientStatus(const Status& status);

class AskStore {
 public:
  // `store` outlives this.
  AskStore(Store& store, std::shared_ptr<Strand> strand)
      : store_(store), strand_(std::move(strand)) {}

  // `work` takes a Database& and returns Status or Result<T>. `then` takes the same, after
  // ClientStatus().
  template <typename Work, typename Then>
  void Read(Work work, Then then) const {
    auto [run, done] = RoundTrip(std::move(work), std::move(then));
    store_.Read(std::move(run), std::move(done));
  }
  // The same in a transaction. `then` is called after its commit.
  template <typename Work, typename Then>
  void Write(Work work, Then then, Store::Undo undo = Store::Undo::kAlone) const {
    auto [run, done] = RoundTrip(std::move(work), std::move(then));
    store_.Write(std::move(run), std::move(done), undo);
  }

 private:
  template <typename Work, typename Then>
  std::pair<Store::Work, Store::Done> RoundTrip(Work work, Then then) const {
    using Answer = std::invoke_result_t<Work&, Database&>;
    if constexpr (std::is_same_v<Answer, Status>) {
      return {std::move(work), [strand = strand_, then = std::move(then)](const Status& status) {
                strand->Post([then, status]() mutable { then(ClientStatus(status)); });
              }};
    } else {
      auto answer = std::make_shared<std::optional<Answer>>();
      return {[answer, work = std::move(work)](Database& rows) mutable {
                answer->emplace(work(rows));
                return (*answer)->status();
              },
              [strand = strand_, answer, then = std::move(then)](const Status& status) {
                strand->Post([answer, then, status]() mutable {
                  status.ok() ? then(std::move(**answer)) : then(Answer(ClientStatus(status)));
                });
              }};
    }
  }

  Store& store_;
  const std::shared_ptr<Strand> strand_;
};

}  // namespace tutti::store
