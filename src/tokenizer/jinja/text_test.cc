#include "tokenizer/jinja/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "tokenizer/jinja/engine.h"

namespace tutti::tokenizer::jinja {
namespace {

// "t[...]" for the template's bytes, "c[...]" for the client's, "m[...]" for the mark.
std::string Show(const Text& text) {
  std::string shown;
  size_t at = 0;
  for (const Text::Run& run : text.Runs()) {
    shown += run.origin == Origin::kTemplate ? "t[" : (run.origin == Origin::kClient ? "c[" : "m[");
    shown += text.bytes().substr(at, run.end - at) + "]";
    at = run.end;
  }
  return shown;
}

Text Mixed() {
  Text text("ab", Origin::kTemplate);
  text.Append("cd", Origin::kClient);
  text.Append("ef", Origin::kTemplate);
  return text;
}

TEST(Text, AppendingKeepsTheOriginOfEveryByte) {
  Text text = Mixed();
  EXPECT_EQ(Show(text), "t[ab]c[cd]t[ef]");
  text.Append("", Origin::kClient);
  text.Append("g", Origin::kTemplate);
  EXPECT_EQ(Show(text), "t[ab]c[cd]t[efg]");
  text.Append(Mixed());
  EXPECT_EQ(Show(text), "t[ab]c[cd]t[efgab]c[cd]t[ef]");
  EXPECT_FALSE(text.uniform());
  EXPECT_TRUE(Text().uniform());
  EXPECT_TRUE(Text().Runs().empty());
}

TEST(Text, SlicesCutInsideAndBetweenRuns) {
  const Text text = Mixed();
  EXPECT_EQ(Show(text.Slice(1, 5)), "t[b]c[cd]t[e]");
  EXPECT_EQ(Show(text.Slice(2, 4)), "c[cd]");
  EXPECT_TRUE(text.Slice(2, 4).uniform());
  EXPECT_EQ(Show(text.Slice(3, 3)), "");
  EXPECT_EQ(Show(text.Slice(0, 6)), Show(text));
}

TEST(Text, DemotingLeavesTheClientNothingToGain) {
  Text text = Mixed();
  text.Demote();
  EXPECT_EQ(Show(text), "c[abcdef]");
  Text own("ab", Origin::kTemplate);
  own.Demote();
  EXPECT_EQ(Show(own), "t[ab]");
  Text marked("ab", Origin::kTemplate);
  marked.Append("x", Origin::kMark);
  marked.Demote();
  EXPECT_EQ(Show(marked), "c[ab]m[x]");
}

TEST(Text, RandomAppendsAndSlicesAgreeWithOneOriginPerByte) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    Text text;
    std::vector<Origin> expected;
    const uint64_t pieces = random.Below(8);
    for (uint64_t i = 0; i < pieces; ++i) {
      const auto origin = static_cast<Origin>(random.Below(3));
      const std::string bytes(random.Below(4), 'x');
      text.Append(bytes, origin);
      expected.insert(expected.end(), bytes.size(), origin);
    }
    const size_t begin = random.Below(expected.size() + 1);
    const size_t end = begin + random.Below(expected.size() - begin + 1);
    const Text slice = text.Slice(begin, end);
    ASSERT_EQ(slice.size(), end - begin);
    for (size_t i = 0; i < slice.size(); ++i) ASSERT_EQ(slice.OriginAt(i), expected[begin + i]);
    size_t at = 0;
    for (size_t r = 0; r < slice.Runs().size(); ++r) {
      ASSERT_GT(slice.Runs()[r].end, at);
      ASSERT_TRUE(r == 0 || slice.Runs()[r].origin != slice.Runs()[r - 1].origin);
      at = slice.Runs()[r].end;
    }
    ASSERT_EQ(at, slice.size());
  }
}

struct Case {
  const char* source;
  const char* shown;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.source; }
};

class OriginOf : public ::testing::TestWithParam<Case> {};

// u is the client's "<a> B"; t is the template's "<T>".
TEST_P(OriginOf, EveryOperationIsThatOfItsBytes) {
  const Result<Program> program = Parse(GetParam().source);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<std::pair<std::string, Value>> variables{
      {"u", Value::String("<a> B")},
      {"t", Value::String("<T>", Origin::kTemplate)},
      {"list", Value::List({Value::String("x"), Value::String("y")})},
      {"dict", Value::Dict({{"key", Value::String("<v>")}})},
      {"number", Value::Int(7)}};
  const Result<Text> text =
      jinja::Run(*program, variables,
                 {.steps = 10000, .output_bytes = 1000, .live_bytes = 100000, .now_unix_s = 0});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(Show(*text), GetParam().shown);
}

INSTANTIATE_TEST_SUITE_P(
    Operations, OriginOf,
    ::testing::Values(
        Case{"<s>{{ u }}</s>", "t[<s>]c[<a> B]t[</s>]"},
        Case{"{{ '<s>' + u + '</s>' }}", "t[<s>]c[<a> B]t[</s>]"},
        Case{"{{ '<s>' ~ u ~ number }}", "t[<s>]c[<a> B]t[7]"},
        Case{"{{ ('  ' + u + '  ') | trim }}", "c[<a> B]"},
        Case{"{{ (t + u)[1:5] }}", "t[T>]c[<a]"}, Case{"{{ (t + u)[::-1] }}", "c[B >a<]t[>T<]"},
        Case{"{{ (t + u)[2] }}{{ (t + u)[3] }}", "t[>]c[<]"},
        Case{"{{ (t + u) | upper }}", "t[<T>]c[<A> B]"},
        Case{"{{ (t + u).lower() }}", "t[<t>]c[<a> b]"},
        Case{"{{ (t + u) | title }}", "t[<T>]c[<A> B]"},
        Case{"{{ (t + u) | capitalize }}", "t[<t>]c[<a> b]"},
        Case{"{{ u | replace('a', '<T>') }}", "c[<]t[<T>]c[> B]"},
        Case{"{{ t | replace('T', u) }}", "t[<]c[<a> B]t[>]"},
        Case{"{{ u.replace('', '') }}", "c[<a> B]"},
        Case{"{{ u.split(' ') | join('|') }}", "c[<a>]t[|]c[B]"},
        Case{"{{ u.split() | first }}", "c[<a>]"},
        Case{"{{ (t + ' ' + u).rsplit(' ', 1)[0] }}", "t[<T> ]c[<a>]"},
        Case{"{{ (t + u).partition('>')[2] }}", "c[<a> B]"},
        Case{"{{ list | join(t) }}", "c[x]t[<T>]c[y]"},
        Case{"{{ t.join(list) }}", "c[x]t[<T>]c[y]"}, Case{"{{ u * 2 }}", "c[<a> B<a> B]"},
        Case{"{{ '%s|%5s' % (t, u) }}", "t[<T>|]c[<a> B]"},
        Case{"{{ '{}-{x}'.format(u, x=t) }}", "c[<a> B]t[-<T>]"},
        Case{"{{ '%s' | format(u) }}", "c[<a> B]"},
        Case{"{{ dict | tojson }}", "c[{\"key\": \"<v>\"}]"},
        Case{"{{ {'k': t} | tojson }}", "t[{\"k\": \"<T>\"}]"},
        Case{"{{ {'k': u} | tojson }}", "c[{\"k\": \"<a> B\"}]"},
        Case{"{{ [1, true] | tojson }}", "t[[1, true]]"}, Case{"{{ dict }}", "c[{'key': '<v>'}]"},
        Case{"{{ [t] }}", "t[['<T>']]"},
        Case{"{{ (u + '\n' + u) | indent(2) }}", "c[<a> B\n  <a> B]"},
        Case{"{{ ('a\nb' | indent(2)) }}", "t[a\n  b]"}, Case{"{{ u | e }}", "c[&lt;a&gt; B]"},
        Case{"{{ u | string | safe }}", "c[<a> B]"},
        Case{"{{ u | default('x') }}{{ missing | default('x') }}", "c[<a> B]t[x]"},
        Case{"{% for c in u %}{{ c }},{% endfor %}", "c[<]t[,]c[a]t[,]c[>]t[,]c[ ]t[,]c[B]t[,]"},
        Case{"{% for k, v in dict.items() %}{{ k }}={{ v }}{% endfor %}", "c[key]t[=]c[<v>]"},
        Case{"{% set x %}<s>{{ u }}</s>{% endset %}{{ x }}", "t[<s>]c[<a> B]t[</s>]"},
        Case{"{% macro m(v) %}<s>{{ v }}{% endmacro %}{{ m(u) }}{{ m(t) }}",
             "t[<s>]c[<a> B]t[<s><T>]"},
        Case{"{% filter upper %}<s>{{ u }}{% endfilter %}", "t[<S>]c[<A> B]"},
        Case{"{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}{{ u }}{% endcall %}",
             "t[[]c[<a> B]t[]]"},
        Case{"{% set n = namespace(s='') %}{% for x in list %}{% set n.s = n.s + x + '.' %}{% "
             "endfor %}{{ n.s }}",
             "c[x]t[.]c[y]t[.]"},
        Case{"{{ u.strip('<B') }}{{ u.removeprefix('<') }}", "c[a> a> B]"},
        Case{"{{ u.ljust(7, '.') }}", "c[<a> B]t[..]"},
        Case{"{{ u.ljust(-9223372036854775807 - 1) }}", "c[<a> B]"},
        Case{"{{ u.center(-9223372036854775807 - 1) }}", "c[<a> B]"},
        Case{"{{ strftime_now('%Y') }}{{ strftime_now(u) }}", "t[1970]c[<a> B]"},
        Case{"{{ list | map('upper') | join }}{{ list | sort | last }}", "c[XYy]"},
        Case{"{{ 'a' if u else 'b' }}{{ u or 'x' }}{{ u | length }}", "t[a]c[<a> B]t[5]"}));

}  // namespace
}  // namespace tutti::tokenizer::jinja
