#include "bench/encode_greeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti::bench {
namespace {

// Tokens that the server counted for a text of `words` words, each of at least one token.
Result<int64_t> TokensOf(EncodeTarget& target, EncodeClient& client, int words) {
  Result<EncodeReply> reply = client.Encode({EncodeText(words, 1, 0)});
  if (!reply.ok()) return target.Explain(std::move(reply).status());
  return reply->tokens;
}

}  // namespace

Result<std::string> Greet(EncodeTarget& target, const EncodeShape& shape) {
  Result<std::unique_ptr<EncodeClient>> client = target.Connect();
  if (!client.ok()) return target.Explain(std::move(client).status());
  const int words = WordsOf(shape);
  ASSIGN_OR_RETURN(const int64_t read, TokensOf(target, **client, words));
  if (read == 0 || read >= shape.tokens) return std::string();
  // The model's special tokens are those that a single word comes with.
  ASSIGN_OR_RETURN(const int64_t one, TokensOf(target, **client, 1));
  if (read >= words + one - 1) return std::string();
  return fmt::format(
      "texts of about {} tokens are asked for, and the model reads {} of each: the rest is cut",
      shape.tokens, read);
}

}  // namespace tutti::bench
