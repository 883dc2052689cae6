// StreamDecoder: turns the tokens of one generation into text as they arrive, without splitting
// characters.
//
// A value that belongs to one sequence (copyable; not for two threads at once). For any tokens,
// each returned string is valid UTF-8, and joined they equal Tokenizer::Decode() of all tokens with
// the same options. At most three bytes are held back.
#pragma once

#include <memory>
#include <string>

#include "base/types.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer {

class StreamDecoder {
 public:
  // By default decodes the continuation of a prompt: a leading space is the model's own and stays.
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                         DecodeOptions options = {.skip_special = true,
                                                  .strip_space_prefix = false});

  // Appends to `out` the text that `id` completes; nothing while a character is unfinished.
  void Push(TokenId id, std::string& out);
  std::string Push(TokenId id);

  // Appends U+FFFD if the last character never became whole, and starts anew. Call once at the end.
  void Finish(std::string& out);
  std::string Finish();

  // True while bytes of an unfinished character are held back.
  bool pending() const { return repair_.pending(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  DecodeOptions options_;
  bool first_ = true;  // no token has left text yet
  Utf8Repair repair_;
  std::string bytes_;  // scratch of Push
};

}  // namespace tutti::tokenizer
