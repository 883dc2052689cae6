#include "tokenizer/stream_decoder.h"

#include <utility>

namespace tutti::tokenizer {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

void StreamDecoder::Push(TokenId id, std::string& out) {
  bytes_.clear();
  if (!tokenizer_->AppendPiece(id, first_, options_, bytes_)) return;
  first_ = false;
  repair_.Push(bytes_, out);
}

std::string StreamDecoder::Push(TokenId id) {
  std::string out;
  Push(id, out);
  return out;
}

void StreamDecoder::Finish(std::string& out) {
  repair_.Finish(out);
  first_ = true;
}

std::string StreamDecoder::Finish() {
  std::string out;
  Finish(out);
  return out;
}

}  // namespace tutti::tokenizer
