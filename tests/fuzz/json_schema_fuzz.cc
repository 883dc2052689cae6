// JSON schemas of clients: compiled within limits or refused by a code and, where a keyword is at
// fault, its path. Texts that follow the automaton are JSON.
// Input: one byte (seed of the texts), then the schema.
#include <boost/json/parse.hpp>
#include <string>

#include "base/utf8.h"
#include "fuzz_input.h"
#include "grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t seed = input.Byte();
  const auto automaton =
      tutti::fuzz::CompileOrRefuse(tutti::grammar::Structure::Kind::kJsonSchema, input.Rest(),
                                   {"schema_invalid", "schema_unsupported", "schema_reference",
                                    "grammar_regex", "grammar_left_recursion"});
  if (automaton == nullptr) return 0;
  tutti::fuzz::GrammarWalk walk(automaton, seed);
  for (int i = 0; i < 3; ++i) {
    const std::optional<std::string> text = walk.Text();
    if (!text) continue;
    CHECK(tutti::IsValidUtf8(*text));
    boost::system::error_code error;
    boost::json::parse_options options;
    options.max_depth = 1'024;
    boost::json::parse(*text, error, {}, options);
    CHECK(!error || error == boost::json::error::exponent_overflow)
        << error.message() << ": " << *text;
  }
  return 0;
}
