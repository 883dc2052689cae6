// TokenText: the interface through which the engine gets the bytes of a token, so that it needs no
// vocabulary. The server passes a TokenizerText (gateway/engine_ports.h), tests pass a table.
#pragma once

#include <string>

#include "base/types.h"

namespace tutti::engine {

// Immutable; any thread.
class TokenText {
 public:
  virtual ~TokenText() = default;
  // Appends the bytes that `id` contributes to a text; nothing for a special token when
  // `skip_special`. `first`: no token of this text has left bytes yet (SentencePiece drops one
  // leading space there).
  virtual void AppendBytes(TokenId id, bool first, bool skip_special, std::string& bytes) const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
};

}  // namespace tutti::engine
