// Regular expressions of clients, as constraints: compiled within limits or refused by a code.
// Texts that follow the automaton are UTF-8. The same expression as a schema's pattern gives JSON
// strings. Input: one byte (seed of the texts), then the expression.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "base/utf8.h"
#include "fuzz_input.h"
#include "grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tutti::grammar::Structure;
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t seed = input.Byte();
  const std::string_view expression = input.Rest();
  const auto automaton =
      tutti::fuzz::CompileOrRefuse(Structure::Kind::kRegex, expression, {"grammar_regex"});
  if (automaton != nullptr) {
    tutti::fuzz::GrammarWalk walk(automaton, seed);
    for (int i = 0; i < 3; ++i) {
      const std::optional<std::string> text = walk.Text();
      if (text) CHECK(tutti::IsValidUtf8(*text)) << *text;
    }
  }
  if (!tutti::IsValidUtf8(expression)) return 0;
  const boost::json::object schema = {{"type", "string"}, {"pattern", expression}};
  const auto strings = tutti::fuzz::CompileOrRefuse(
      Structure::Kind::kJsonSchema, boost::json::serialize(schema), {"grammar_regex"});
  if (strings == nullptr) return 0;
  const std::optional<std::string> text = tutti::fuzz::GrammarWalk(strings, seed).Text();
  if (!text) return 0;
  boost::system::error_code error;
  CHECK(boost::json::parse(*text, error).is_string() && !error) << *text;
  return 0;
}
