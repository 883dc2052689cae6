// The template language against the reference implementation, and its limits.
#include "tokenizer/jinja/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "cpu_time.h"
#include "test_paths.h"
#include "tokenizer/jinja/testing/template_cases.h"

namespace tutti::tokenizer::jinja {
namespace {

using support::ThreadSeconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::ReadFile;

using Variables = std::vector<std::pair<std::string, Value>>;

// Red zones and unoptimised code make every frame several times larger.
const size_t kStackBytes = support::kSlower > 1 ? 2 << 20 : 256 << 10;

// A quarter of a second is the limit, which machines that are slow or shared are let pass tenfold.
const double kGuardSeconds = 2.5 * support::kSlower;

Limits DefaultLimits() {
  const RenderOptions options;
  return {.steps = options.max_steps,
          .output_bytes = options.max_output_bytes,
          .live_bytes = options.max_live_bytes,
          .now_unix_s = 1735689600};
}

Result<Text> Render(std::string_view source, const Variables& variables = {},
                    const Limits& limits = DefaultLimits()) {
  ASSIGN_OR_RETURN(const Program program, Parse(source));
  return Run(program, variables, limits);
}

std::string Show(std::string_view source, const Variables& variables = {}) {
  const Result<Text> text = Render(source, variables);
  return text.ok() ? text->bytes() : text.status().ToString();
}

std::string Repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(JinjaReference, EverySnippetRendersAsInTheReference) {
  const boost::json::value json =
      boost::json::parse(ReadFile(support::SourcePath("tests/data/templates/snippets.json")));
  Variables variables;
  for (const auto& member : json.at("variables").as_object()) {
    variables.emplace_back(member.key(), testing::ToValue(member.value()));
  }
  int checked = 0;
  for (const boost::json::value& entry : json.at("cases").as_array()) {
    const std::string source(entry.at("source").as_string());
    SCOPED_TRACE(source);
    const Result<Text> text = Render(source, variables);
    if (const boost::json::value* const expected = entry.as_object().if_contains("text")) {
      EXPECT_TRUE(text.ok()) << text.status();
      if (text.ok()) {
        EXPECT_EQ(text->bytes(), std::string(expected->as_string()));
      }
    } else {
      EXPECT_FALSE(text.ok()) << "the reference says " << entry.at("error");
    }
    ++checked;
  }
  EXPECT_GE(checked, 200);
}

// --- hostile templates ---

// Runs on a thread with the smallest stack this server gives a thread.
void OnSmallStack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread{};
  const auto entry = [](void* self) -> void* {
    (*static_cast<const std::function<void()>*>(self))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, entry, const_cast<std::function<void()>*>(&body)),
            0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

struct Hostile {
  const char* name;
  std::string source;
  std::vector<std::string> reasons;
};

std::vector<Hostile> ExhaustingTemplates() {
  const std::vector<std::string> stopped{"template_step_limit", "template_output"};
  return {
      {"range of 10^9", "{% for i in range(1000000000) %}x{% endfor %}", {"template_step_limit"}},
      {"range of 10^9 as a list",
       "{{ range(1000000000) | list | length }}",
       {"template_step_limit"}},
      {"range up to the last integer",
       "{{ range(-9223372036854775807, 9223372036854775807, 1) | list }}",
       {"template_step_limit"}},
      {"10^9 turns in nested loops",
       "{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}{% endfor "
       "%}{% endfor %}{% endfor %}",
       {"template_step_limit"}},
      {"25,000 x 25,000 turns with output",
       "{% for i in range(25000) %}{% for j in range(25000) %}x{% endfor %}{% endfor %}", stopped},
      {"10^9 turns with arithmetic",
       "{% set n = namespace(s=0) %}{% for i in range(40000) %}{% for j in range(40000) %}{% set "
       "n.s = n.s + i * j // 3 % 7 %}"
       "{% endfor %}{% endfor %}",
       {"template_step_limit"}},
      {"a filter per turn",
       "{% for i in range(100000) %}{% for j in range(100000) %}{{ i | string | length }}{% endfor "
       "%}{% endfor %}",
       {"template_step_limit"}},
      {"doubling a string",
       "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% "
       "endfor %}",
       stopped},
      {"doubling a list",
       "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor "
       "%}",
       stopped},
      {"repeating a string", "{{ ('x' * 1000000) * 1000000 }}", stopped},
      {"repeating a list", "{{ ([1] * 1000000) * 1000000 }}", stopped},
      {"printing one object 2^60 times",
       "{% set n = namespace(s=['x']) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}{% "
       "endfor %}{{ n.s }}",
       stopped},
      {"writing one object as JSON 2^60 times",
       "{% set n = namespace(s=['x']) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}{% "
       "endfor %}{{ n.s | tojson }}",
       stopped},
      {"comparing 2^60 members",
       "{% set n = namespace(a=['x'], b=['x']) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] "
       "%}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
       stopped},
      {"joining 10^6 items",
       "{% set l = range(100000) | list %}{{ (l + l + l + l + l + l + l + l + l + l) | "
       "join('xxxxxxxxxxxxxxxx') }}",
       stopped},
      {"replacing every character by a long text",
       "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}", stopped},
      {"indenting by 10^9", "{{ 'a\nb' | indent(1000000000) }}", stopped},
      {"JSON indented by much",
       "{{ [[[[[[[[1]]]]]]]] | tojson(indent=1000000000) }}",
       {"invalid_value"}},
      {"padding to 10^9", "{{ 'x'.ljust(1000000000) }}", stopped},
      {"centring in 10^18", "{{ 'x'.center(1000000000000000000) }}", stopped},
      {"formatting wide", "{{ '%999999999d' % 1 }}", {"invalid_value"}},
      {"sorting over and over",
       "{% set l = range(20000) | list %}{% for i in range(100000) %}{% set x = l | sort %}{% "
       "endfor %}",
       stopped},
      {"unique over 10^5 items", "{{ range(100000) | unique | list | length }}", stopped},
      {"searching a long text over and over",
       "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if (s ~ 'b') in s %}{% endif "
       "%}{% endfor %}",
       stopped},
      {"searching backwards",
       "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s.rfind('a' * 5000 ~ 'b') }}{% "
       "endfor %}",
       stopped},
      {"stripping many characters",
       "{% set s = 'a' * 300000 %}{% for i in range(100000) %}{{ "
       "s.strip('bcdefghijklmnopqrstuvwxyz' * 100 ~ 'a') }}{% endfor %}",
       stopped},
      {"indexing a long text",
       "{% set s = 'é' * 100000 %}{% for i in range(100000) %}{{ s[i] }}{% endfor %}", stopped},
      {"powers of powers", "{{ 10 ** 10 ** 10 }}", {"invalid_value"}},
      {"an infinite recursion of macros",
       "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
       {"template_depth"}},
      {"two macros that call each other",
       "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
       {"template_depth"}},
      {"a macro that calls itself twice",
       "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(25) }}",
       {"template_step_limit", "template_depth"}},
      {"a caller that calls itself",
       "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% "
       "call f() %}x{% endcall %}",
       {"template_depth", "template_step_limit"}},
      {"a list nested without end",
       "{% set n = namespace(s=[]) %}{% for i in range(100000) %}{% set n.s = [n.s] %}{% endfor %}",
       {"template_depth"}},
      {"a mapping nested without end",
       "{% set n = namespace(s={}) %}{% for i in range(100000) %}{% set n.s = {'k': n.s} %}{% "
       "endfor %}",
       {"template_depth"}},
      {"many variables",
       "{% for i in range(100000) %}" +
           [] {
             std::string sets;
             for (int i = 0; i < 4000; ++i)
               sets += "{% set v" + std::to_string(i) + " = v" + std::to_string(3999 - i) + " %}";
             return sets;
           }() +
           "{% endfor %}",
       {"template_step_limit"}},
      {"10,000 opening brackets", "{{ " + std::string(10000, '('), {"tokenizer_invalid"}},
      {"10,000 brackets that close",
       "{{ " + std::string(10000, '[') + std::string(10000, ']') + " }}",
       {"template_depth"}},
      {"10,000 braces",
       "{{ " + Repeated("{'a':", 10000) + "1" + std::string(10000, '}') + " }}",
       {"template_depth"}},
      {"10,000 nested ifs", Repeated("{% if 1 %}", 10000), {"template_depth"}},
      {"10,000 nested fors", Repeated("{% for x in y %}", 10000), {"template_depth"}},
      {"10,000 times not", "{{ " + Repeated("not ", 10000) + "1 }}", {"template_depth"}},
      {"10,000 minus signs", "{{ " + Repeated("- ", 10000) + "1 }}", {"template_depth"}},
      {"10,000 conditional expressions",
       "{{ " + Repeated("1 if 1 else ", 10000) + "1 }}",
       {"template_depth"}},
      {"10,000 filters", "{{ 'x'" + Repeated("|upper", 10000) + " }}", {"template_depth"}},
      {"10,000 subscripts", "{{ x" + Repeated("[0]", 10000) + " }}", {"template_depth"}},
      {"10,000 calls", "{{ x" + Repeated("()", 10000) + " }}", {"template_depth"}},
      {"a list as the argument of a list of calls",
       "{{ " + Repeated("x(", 10000) + Repeated(")", 10000) + " }}",
       {"template_depth"}},
      {"a source of a megabyte", std::string(1 << 20, 'x'), {"tokenizer_limit"}},
      {"more names than fit",
       [] {
         std::string names;
         for (int i = 0; i < 20000; ++i) names += "{{a" + std::to_string(i) + "}}";
         return names;
       }(),
       {"tokenizer_limit"}},
  };
}

TEST(JinjaLimits, ExhaustingTemplatesFailCleanlyAndSoonOnASmallStack) {
  const std::vector<Hostile> templates = ExhaustingTemplates();
  EXPECT_GE(templates.size(), 45U);
  for (const Hostile& hostile : templates) {
    SCOPED_TRACE(hostile.name);
    Status status;
    double seconds = 0;
    OnSmallStack([&] {
      const double start = ThreadSeconds();
      status = Render(hostile.source).status();
      seconds = ThreadSeconds() - start;
    });
    EXPECT_THAT(hostile.reasons, ::testing::Contains(status.reason())) << status;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_LT(status.message().size(), 200U);
    EXPECT_LT(seconds, kGuardSeconds);
  }
}

TEST(JinjaLimits, TheDeepestAllowedNestingRunsOnASmallStack) {
  OnSmallStack([] {
    // Blocks, then brackets, then calls: all that is allowed at once.
    std::string deep = Repeated("{% if 1 %}", 31) + "{{ " + std::string(30, '(') + "'x'" +
                       std::string(30, ')') + " }}" + Repeated("{% endif %}", 31);
    EXPECT_EQ(Show(deep), "x");
    EXPECT_EQ(Show("{{ 'x'" + Repeated("|upper", 60) + " }}"), "X");
    std::string list =
        "{{ " + std::string(60, '[') + std::string(60, ']') + " | tojson | length }}";
    EXPECT_EQ(Show(list), "120");
    // A macro that recurses through a loop and a condition, as schema printers do.
    EXPECT_EQ(Show("{% macro f(n) %}{% for i in [1] %}{% if n > 0 %}({{ f(n - 1) }}){% endif %}{% "
                   "endfor %}{% endmacro %}{{ f(20) | length }}"),
              "40");
  });
}

// From the literature of template injection: ways from a value to the interpreter, the file system
// or the shell.
std::vector<std::string> InjectionTemplates() {
  return {
      "{{ ''.__class__.__mro__[1].__subclasses__() }}",
      "{{ ''.__class__ }}",
      "{{ [].__class__.__base__ }}",
      "{{ {}.__class__.__bases__[0].__subclasses__()[40]('/etc/passwd').read() }}",
      "{{ ().__class__.__base__.__subclasses__() }}",
      "{{ self.__init__.__globals__.__builtins__ }}",
      "{{ self._TemplateReference__context.cycler.__init__.__globals__.os.popen('id').read() }}",
      "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
      "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
      "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
      "{{ namespace().__init__.__globals__ }}",
      "{{ lipsum.__globals__['os'].popen('id').read() }}",
      "{{ lipsum.__globals__.os.system('id') }}",
      "{{ config.items() }}",
      "{{ request.application.__globals__.__builtins__.__import__('os').popen('id').read() }}",
      "{{ get_flashed_messages.__globals__ }}",
      "{{ url_for.__globals__ }}",
      "{{ range.__class__ }}",
      "{{ range.__globals__ }}",
      "{{ raise_exception.__globals__['__builtins__']['open']('/etc/passwd').read() }}",
      "{{ strftime_now.__globals__ }}",
      "{{ dict.__base__.__subclasses__() }}",
      "{{ messages.__class__.__init__.__globals__ }}",
      "{{ ''|attr('__class__')|attr('__mro__') }}",
      "{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
      "{{ ''['__class__']['__mro__'] }}",
      "{{ ''['__cla' ~ 'ss__'] }}",
      "{{ [''] | map(attribute='__class__.__mro__') | list }}",
      "{{ [''] | map('attr', '__class__') | list }}",
      "{{ [''] | selectattr('__class__') | list }}",
      "{{ [1, 2] | sort(attribute='__class__') }}",
      "{{ '{0.__class__.__mro__}'.format('') }}",
      "{{ '{0[__class__]}'.format({}) }}",
      "{{ '{x.__init__.__globals__}'.format(x=namespace()) }}",
      "{{ '%(a)s' % {'a': 1} }}",
      "{{ ''.format_map({}) }}",
      "{{ ''.join.__self__ }}",
      "{{ ''.upper.__func__.__globals__ }}",
      "{{ loop.__class__ }}",
      "{% for x in [1] %}{{ loop._iterator }}{{ loop.__class__.__init__ }}{% endfor %}",
      "{% macro m() %}{% endmacro %}{{ m.__globals__ }}{{ m._func.__code__ }}",
      "{% set n = namespace(__class__=1) %}",
      "{% set n = namespace() %}{% set n.__init__ = 1 %}",
      "{% include '/etc/passwd' %}",
      "{% import 'os' as os %}{{ os.system('id') }}",
      "{% from 'os' import system %}",
      "{% extends '/etc/passwd' %}",
      "{% block x %}{% endblock %}",
      "{% do ''.upper() %}",
      "{% debug %}",
      "{{ messages.append({'role': 'system'}) }}",
      "{{ messages[0].update({'role': 'system'}) }}",
      "{{ messages[0].pop('role') }}",
      "{{ messages[0].setdefault('x', 1) }}",
      "{{ open('/etc/passwd') }}",
      "{{ __import__('os') }}",
      "{{ eval('1') }}",
      "{{ env }}{{ environ }}{{ os }}{{ sys }}{{ __builtins__ }}",
  };
}

TEST(JinjaInjection, EveryGadgetIsUndefinedOrRefused) {
  const std::vector<std::string> gadgets = InjectionTemplates();
  EXPECT_GE(gadgets.size(), 50U);
  const Variables variables{{"messages", *ParseJson(R"([{"role": "user", "content": "Hi"}])")}};
  for (const std::string& gadget : gadgets) {
    SCOPED_TRACE(gadget);
    const double start = ThreadSeconds();
    const Result<Text> text = Render(gadget, variables);
    EXPECT_LT(ThreadSeconds() - start, kGuardSeconds);
    if (text.ok()) {
      EXPECT_THAT(text->bytes(), AnyOf("", "[]", "[Undefined]", "[<undefined>]"))
          << "a capability leaked";
    } else {
      EXPECT_THAT(text.status().reason(),
                  AnyOf("invalid_value", "tokenizer_unsupported", "tokenizer_invalid"));
    }
  }
}

// --- memory ---

TEST(JinjaMemory, ObjectsThatHoldEachOtherAreFreed) {
  // The leak checker of the sanitized build judges this.
  EXPECT_EQ(Show("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set "
                 "a.self = a %}{{ a.b.a.self is defined }}"),
            "True");
  EXPECT_EQ(Show("{% set n = namespace() %}{% macro m() %}{{ n.m is defined }}{% endmacro %}{% set "
                 "n.m = m %}{{ n.m() }}"),
            "True");
  EXPECT_EQ(Show("{% set n = namespace() %}{% for x in [1, 2] %}{% set n.loop = loop %}{% set "
                 "n.all = [loop, n] %}{% endfor %}{{ n.loop.index }}"),
            "2");
}

TEST(JinjaMemory, ALongChainOfObjectsIsFreedWithoutRecursion) {
  OnSmallStack([] {
    EXPECT_EQ(Show("{% set n = namespace(p=0) %}{% for i in range(50000) %}{% set n.p = "
                   "namespace(p=n.p) %}{% endfor %}ok"),
              "ok");
    EXPECT_EQ(Show("{% set n = namespace(p=[0]) %}{% for i in range(20000) %}{% for x in [n.p] "
                   "%}{% set n.p = loop %}{% endfor %}{% endfor %}ok"),
              "ok");
    EXPECT_EQ(Show("{% set n = namespace(p=0) %}{% for i in range(20000) %}{% set q = n.p %}{% "
                   "macro m() %}{{ q }}{% endmacro %}{% set n.p = m %}{% endfor %}ok"),
              "ok");
    EXPECT_EQ(Show("{% set n = namespace(p={}) %}{% for i in range(20000) %}{% set n.p = "
                   "[n.p].copy %}{% endfor %}ok"),
              "ok");
  });
}

TEST(JinjaMemory, ALoopThatKeepsNothingNeedsNoMoreMemoryThanOneTurn) {
  Limits limits = DefaultLimits();
  limits.live_bytes = 100'000;
  const Variables variables{{"text", Value::String(std::string(20'000, 'x'))}};
  const Result<Text> text = Render(
      "{% for i in range(1000) %}{% set t = text ~ i %}{% for c in [t] %}{% endfor %}{% endfor "
      "%}ok",
      variables, limits);
  ASSERT_TRUE(text.ok()) << text.status();
  const Status status = Render(
                            "{% set n = namespace(all=[]) %}{% for i in range(1000) %}{% set n.all "
                            "= n.all + [text ~ i] %}{% endfor %}",
                            variables, limits)
                            .status();
  EXPECT_EQ(status.reason(), "template_output");
}

// --- errors ---

TEST(JinjaErrors, CompilingNamesTheLine) {
  EXPECT_THAT(Show("a\nb\n{{ 1 + }}"),
              HasSubstr("[tokenizer_invalid] chat template line 3: expected an expression"));
  EXPECT_THAT(Show("{% if 1 %}\n\n"), HasSubstr("block without 'endif'"));
  EXPECT_THAT(Show("\n{{ 'abc }}"), HasSubstr("line 2: string without its closing quote"));
  EXPECT_THAT(Show("{# a\n"), HasSubstr("comment without its end"));
  EXPECT_THAT(Show("\n\n{% include 'x' %}"),
              HasSubstr("[tokenizer_unsupported] chat template line 3: 'include'"));
  EXPECT_THAT(Show("{{ x | unheard }}"),
              HasSubstr("[tokenizer_unsupported] chat template line 1: unknown filter 'unheard'"));
  EXPECT_THAT(Show("{{ 99999999999999999999 }}"), HasSubstr("integer outside 64 bits"));
}

TEST(JinjaErrors, RunningNamesTheLineAndTheVariable) {
  EXPECT_THAT(Show("\n\n{{ user.name }}"),
              HasSubstr("line 3: 'user' is undefined; cannot read attribute 'name' of it"));
  EXPECT_THAT(Show("{{ 9223372036854775807 + 1 }}"), HasSubstr("integer outside 64 bits"));
  EXPECT_THAT(Show("{{ -9223372036854775807 - 2 }}"), HasSubstr("integer outside 64 bits"));
  EXPECT_THAT(Show("{{ (-9223372036854775807 - 1) // -1 }}"), HasSubstr("integer outside 64 bits"));
  EXPECT_EQ(Show("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_THAT(Show("{{ [1, 'a'] | sort }}"), HasSubstr("cannot sort among others"));
}

TEST(JinjaErrors, AnUnknownFilterInABranchIsAWarningUntilReached) {
  const Result<Program> program = Parse("{% if x %}\n{{ x | unheard }}{% endif %}");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->warnings,
              ::testing::ElementsAre("line 2: unknown filter 'unheard' fails when reached"));
}

TEST(JinjaErrors, EveryPrefixOfATemplateParsesOrFailsCleanly) {
  const std::string source =
      ReadFile(support::SourcePath("tests/third_party/chat_templates/llama-3.1.jinja"));
  int parsed = 0;
  for (size_t size = 0; size <= source.size(); ++size) {
    const Result<Program> program = Parse(std::string_view(source).substr(0, size));
    if (program.ok()) {
      ++parsed;
    } else {
      EXPECT_EQ(program.status().reason(), "tokenizer_invalid") << program.status();
    }
  }
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace tutti::tokenizer::jinja
