// TokenHandler: callback for each piece of an answer. Any callable that takes `const Token&` and
// returns one of
//   void       always continues,
//   bool       false stops: the answer ends as cancelled by the caller, which is not an error,
//   Error      an error fails the generation with that error,
//   Verdict    both of the above.
// An exception fails the generation with reason "handler_failed" and the exception as cause().
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti {

class TokenHandler {
 public:
  struct Verdict {
    bool go_on = true;
    Error error = {};
  };

  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, TokenHandler> &&
           std::is_invocable_v<F&, const Token&>)
      TokenHandler(F function)  // NOLINT: implicit by design
      : call_([function = std::move(function)](const Token& token) mutable -> Verdict {
          using Returned = std::invoke_result_t<F&, const Token&>;
          if constexpr (std::is_same_v<Returned, Verdict>) {
            return function(token);
          } else if constexpr (std::is_same_v<Returned, bool>) {
            return {function(token), {}};
          } else if constexpr (std::is_same_v<Returned, Error>) {
            return {true, function(token)};
          } else {
            static_assert(std::is_void_v<Returned>,
                          "a token handler returns void, bool or tutti::Error");
            function(token);
            return {};
          }
        }) {}

  Verdict operator()(const Token& token) const { return call_(token); }

 private:
  std::function<Verdict(const Token&)> call_;
};

}  // namespace tutti
