// Sources that try to make compiling, or the first masks, expensive: in time, memory, stack, or the
// number of states. For tests and benches.
//
// Each is made from nothing by one function here, so that its size is in sight. Any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "grammar/structure.h"

namespace tutti::grammar::testing {

struct HostileSource {
  std::string name;
  Structure source;
  // The code of the refusal that is the only right answer; empty: it may compile, or be refused by
  // any code.
  std::string refusal = {};
};

inline std::string Repeated(std::string_view text, size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// item(0) + separator + item(1) ... of `count` items.
inline std::string Listed(size_t count, std::string_view separator,
                          const std::function<std::string(size_t)>& item) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += separator;
    out += item(i);
  }
  return out;
}

inline std::string Numbered(std::string_view name, size_t number) {
  return std::string(name) + std::to_string(number);
}

// {"$ref": "#/$defs/d0", "$defs": {"d0": ..., ...}}, with `last` for the last of `count`.
inline std::string Definitions(size_t count, const std::function<std::string(size_t)>& body,
                               std::string_view last) {
  return R"({"$ref":"#/$defs/d0","$defs":{)" +
         Listed(count, ",",
                [&](size_t i) {
                  return "\"d" + std::to_string(i) +
                         "\":" + (i + 1 == count ? std::string(last) : body(i));
                }) +
         "}}";
}

inline std::string Ref(size_t number) {
  return R"({"$ref":"#/$defs/d)" + std::to_string(number) + "\"}";
}

// A tool as an agent framework describes it: a long text and ten parameters.
inline std::string Tool(size_t number) {
  const std::string words = Repeated("Returns what the caller asked for, with every detail. ", 70);
  return R"({"type":"object","description":")" + words +
         R"(","properties":{"name":{"const":"tool_)" + std::to_string(number) +
         R"("},"arguments":{"type":"object","properties":{)" +
         Listed(10, ",",
                [&](size_t i) {
                  return "\"parameter_" + std::to_string(i) + "\":{\"description\":\"" + words +
                         (i % 3 == 0   ? R"(","type":"string","maxLength":200})"
                          : i % 3 == 1 ? R"(","enum":["fast","slow","automatic"]})"
                                       : R"(","type":"integer","minimum":0,"maximum":100000})");
                }) +
         R"(},"required":["parameter_0"],"additionalProperties":false}},)"
         R"("required":["name","arguments"],"additionalProperties":false})";
}

inline std::vector<std::pair<std::string, std::string>> HostileSchemas() {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](std::string name, std::string text) {
    all.emplace_back(std::move(name), std::move(text));
  };
  const auto name = [](size_t i) { return "\"" + Numbered("n", i) + "\""; };
  const auto empty_property = [&](size_t i) { return name(i) + ":{}"; };

  // Depth.
  add("objects_10_deep", Repeated(R"({"properties":{"a":)", 10) + "{}" + Repeated("}}", 10));
  add("objects_31_deep", Repeated(R"({"properties":{"a":)", 31) + "{}" + Repeated("}}", 31));
  add("objects_10000_deep",
      Repeated(R"({"properties":{"a":)", 10'000) + "{}" + Repeated("}}", 10'000));
  add("brackets_100000_deep",
      R"({"enum":)" + Repeated("[", 100'000) + Repeated("]", 100'000) + "}");
  add("items_60_deep", Repeated(R"({"items":)", 60) + "{}" + Repeated("}", 60));

  // Long lists of values.
  add("enum_100000_strings", R"({"enum":[)" + Listed(100'000, ",", [](size_t i) {
                               return "\"v" + std::to_string(i) + "\"";
                             }) + "]}");
  add("enum_100000_numbers",
      R"({"enum":[)" + Listed(100'000, ",", [](size_t i) { return std::to_string(i * 7); }) + "]}");
  add("enum_10000_objects", R"({"enum":[)" + Listed(10'000, ",", [](size_t i) {
                              return "{\"a\":[" + std::to_string(i) + "]}";
                            }) + "]}");
  add("enum_one_prefix", R"({"enum":[)" + Listed(1'000, ",", [](size_t i) {
                           return "\"" + std::string(900, 'a') + std::to_string(i) + "\"";
                         }) + "]}");
  add("enum_with_pattern",
      R"({"pattern":"^v[0-9]*[02468]$","enum":[)" +
          Listed(20'000, ",", [](size_t i) { return "\"v" + std::to_string(i) + "\""; }) + "]}");
  add("enum_escapes", R"({"enum":[")" + Repeated(R"(\n)", 500'000) + "\"]}");
  add("enum_control_characters", R"({"const":")" + Repeated(R"(\u001f)", 150'000) + "\"}");
  add("enums_cut_with_each_other",
      R"({"allOf":[{"enum":[)" + Listed(30'000, ",", [](size_t i) { return std::to_string(i); }) +
          R"(]},{"enum":[)" + Listed(30'000, ",", [](size_t i) { return std::to_string(i * 2); }) +
          "]}]}");
  add("enums_under_anyOf",
      R"({"anyOf":[)" + Listed(100, ",", [](size_t i) {
        return R"({"enum":[)" +
               Listed(900, ",", [&](size_t j) { return std::to_string(i * 1'000 + j); }) + "]}";
      }) + "]}");
  add("const_of_100000_numbers", R"({"const":[)" + Repeated("1,", 400'000) + "1]}");
  add("types_100000", R"({"type":[)" + Repeated("\"null\",", 100'000) + "\"null\"]}");

  // Combinations.
  add("anyOf_to_the_20",
      R"({"allOf":[)" + Repeated(R"({"anyOf":[{"minimum":1},{"maximum":9}]},)", 20) + "{}]}");
  add("anyOf_doubled_40_times",
      Definitions(
          40, [](size_t i) { return R"({"anyOf":[)" + Ref(i + 1) + "," + Ref(i + 1) + "]}"; },
          R"({"type":"null"})"));
  add("anyOf_ladder_40", Definitions(
                             42,
                             [](size_t i) {
                               return R"({"anyOf":[)" + Ref(i + 1) + "," +
                                      Ref(std::min<size_t>(i + 2, 41)) + "]}";
                             },
                             R"({"type":"null"})"));
  add("allOf_doubled_40_times",
      Definitions(
          40, [](size_t i) { return R"({"allOf":[)" + Ref(i + 1) + "," + Ref(i + 1) + "]}"; },
          R"({"type":"null"})"));
  add("allOf_300000_empty", R"({"allOf":[)" + Repeated("{},", 300'000) + "{}]}");
  add("anyOf_100000_empty", R"({"anyOf":[)" + Repeated("{},", 100'000) + "{}]}");
  add("objects_doubled_40_times", Definitions(
                                      40,
                                      [](size_t i) {
                                        return R"({"properties":{"l":)" + Ref(i + 1) + R"(,"r":)" +
                                               Ref(i + 1) + "}}";
                                      },
                                      "{}"));
  // Each level requires all subsets of the definitions.
  add("subsets_of_24_definitions", Definitions(
                                       24,
                                       [](size_t i) {
                                         return R"({"properties":{"a":{"allOf":[)" + Ref(i) + "," +
                                                Ref((i + 1) % 23) + R"(]},"b":)" + Ref(i + 1) +
                                                "}}";
                                       },
                                       R"({"properties":{"a":{"$ref":"#/$defs/d0"}}})"));
  add("allOf_of_all_later",
      Definitions(
          120,
          [](size_t i) {
            return R"({"allOf":[)" +
                   Listed(119 - i, ",", [&](size_t j) { return Ref(i + 1 + j); }) + "]}";
          },
          R"({"type":"string"})"));
  add("anyOf_of_all_others", Definitions(
                                 120,
                                 [](size_t) {
                                   return R"({"properties":{"a":{"anyOf":[)" +
                                          Listed(100, ",", [](size_t j) { return Ref(j); }) +
                                          "]}}}";
                                 },
                                 R"({"type":"string"})"));
  add("dependentRequired_20", R"({"dependentRequired":{)" + Listed(20, ",", [&](size_t i) {
                                return name(i) + ":[" + name(i + 1) + "]";
                              }) + "}}");
  add("dependentRequired_long", R"({"properties":{"a":{"$ref":"#"}},"dependentRequired":{"a":[)" +
                                    Listed(20'000, ",", name) + "]}}");

  // References.
  add("ref_to_itself", R"({"$ref":"#"})");
  add("ref_in_a_ring", Definitions(
                           50, [](size_t i) { return Ref(i + 1); }, R"({"$ref":"#/$defs/d0"})"));
  add("ref_by_anyOf_to_itself", R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})");
  add("ref_by_allOf_to_itself", R"({"allOf":[{"$ref":"#"},{"type":"null"}]})");
  add("ref_chain_5000", Definitions(
                            5'000, [](size_t i) { return Ref(i + 1); }, R"({"type":"null"})"));
  add("ref_with_a_long_pointer", R"({"anyOf":[)" + Listed(200, ",", [](size_t) {
                                   return R"({"$ref":"#)" + Repeated("/a", 2'000) + "\"}";
                                 }) + "]}");
  add("ref_from_a_long_base",
      R"({"$id":"http://a/)" + std::string(200'000, 'x') + R"(/","properties":{)" +
          Listed(10'000, ",", [&](size_t i) { return name(i) + R"(:{"$ref":"#/$defs/d"})"; }) +
          R"(},"$defs":{"d":{}}})");
  add("ids_below_a_long_base",
      R"({"$id":"http://a/)" + std::string(300'000, 'x') + R"(/","$defs":{)" +
          Listed(20'000, ",",
                 [&](size_t i) { return name(i) + R"(:{"$id":")" + std::to_string(i) + "\"}"; }) +
          "}}");
  add("recursive_tree",
      R"({"$ref":"#/$defs/n","$defs":{"n":{"properties":{"l":{"$ref":"#/$defs/n"},"r":{"$ref":"#/$defs/n"},"v":{}},"additionalProperties":{"$ref":"#/$defs/n"}}}})");

  // Tools.
  add("tools_22_anyOf", R"({"anyOf":[)" + Listed(22, ",", Tool) + "]}");
  add("tools_22_oneOf", R"({"oneOf":[)" + Listed(22, ",", Tool) + "]}");
  add("tools_22_in_a_list",
      R"({"type":"array","minItems":1,"items":{"anyOf":[)" + Listed(22, ",", Tool) + "]}}");
  add("oneOf_200_numbers", R"({"oneOf":[)" + Listed(200, ",", [](size_t i) {
                             return R"({"minimum":)" + std::to_string(i * 10) +
                                    R"(,"exclusiveMaximum":)" + std::to_string(i * 10 + 10) +
                                    R"(,"type":"number"})";
                           }) + "]}");
  add("oneOf_100_patterns", R"({"oneOf":[)" + Listed(100, ",", [](size_t i) {
                              return R"({"type":"string","pattern":"^)" + Repeated("[ab]*", 6) +
                                     std::to_string(i) + R"($"})";
                            }) + "]}");
  add("oneOf_two_enums",
      R"({"oneOf":[{"enum":[)" +
          Listed(20'000, ",", [](size_t i) { return std::to_string(i * 2); }) + R"(]},{"enum":[)" +
          Listed(20'000, ",", [](size_t i) { return std::to_string(i * 2 + 1); }) + "]}]}");

  // Objects and arrays.
  add("properties_3000", R"({"additionalProperties":false,"properties":{)" +
                             Listed(3'000, ",", empty_property) + "}}");
  add("properties_80000", R"({"properties":{)" + Listed(80'000, ",", empty_property) + "}}");
  add("properties_deep_and_wide",
      Repeated(R"({"properties":{")" + std::string(64, 'p') + "\":", 16) + R"({"properties":{)" +
          Listed(70'000, ",", empty_property) + "}}" + Repeated("}}", 16));
  add("properties_of_one_name",
      R"({"properties":{)" + Repeated("\"a\":{},", 100'000) + R"("a":{}}})");
  add("required_20000", R"({"required":[)" + Listed(20'000, ",", name) + "]}");
  add("required_in_many_sets",
      R"({"properties":{)" +
          Listed(500, ",",
                 [&](size_t i) {
                   return name(i) + R"(:{"allOf":[{"$ref":"#/$defs/r"},{"maxProperties":)" +
                          std::to_string(5'000 + i) + "}]}";
                 }) +
          R"(},"$defs":{"r":{"required":[)" + Listed(4'000, ",", name) + "]}}}");
  add("maxProperties_50000",
      R"({"maxProperties":50000,"properties":{)" + Listed(1'000, ",", empty_property) + "}}");
  add("minItems_1e18", R"({"minItems":1000000000000000000})");
  add("minItems_60000", R"({"minItems":60000})");
  add("maxItems_1e9_of_arrays_of_such",
      R"({"maxItems":1000000000,"items":{"maxItems":1000000000}})");
  add("maxItems_nested",
      Repeated(R"({"type":"array","maxItems":1000,"items":)", 20) + "{}" + Repeated("}", 20));
  add("prefixItems_100000", R"({"prefixItems":[)" + Repeated("{},", 100'000) + "{}]}");
  add("prefixItems_in_many_sets",
      R"({"properties":{)" +
          Listed(1'000, ",",
                 [&](size_t i) {
                   return name(i) + R"(:{"allOf":[{"$ref":"#/$defs/p"},{"maxItems":)" +
                          std::to_string(i % 10 + 1) + R"(},{"minItems":)" +
                          std::to_string(i / 10) + "}]}";
                 }) +
          R"(},"$defs":{"p":{"prefixItems":[)" + Repeated("{},", 5'000) + "{}]}}}");
  add("patternProperties_6", R"({"patternProperties":{)" + Listed(6, ",", [&](size_t i) {
                               return "\"" + std::string(1 + i, '.') + "[a-m]" + Repeated(".", 8) +
                                      R"(x":{"type":"integer"})";
                             }) + "}}");
  add("patternProperties_5000",
      R"({"properties":{)" + Listed(1'000, ",", empty_property) + R"(},"patternProperties":{)" +
          Listed(5'000, ",", [](size_t i) { return "\"^p" + std::to_string(i) + "\":{}"; }) + "}}");
  add("propertyNames_pattern",
      R"({"propertyNames":{"pattern":"^(a|b)*a(a|b){8}$"},"properties":{)" +
          Listed(2'000, ",", empty_property) + "}}");

  // Strings and numbers.
  add("minLength_1e9", R"({"type":"string","minLength":1000000000})");
  add("maxLength_100000_with_pattern",
      R"({"type":"string","maxLength":100000,"pattern":"^(ab|c)*$"})");
  add("maxLength_2000_with_formats",
      R"({"type":"string","maxLength":2000,"allOf":[{"format":"uri"},{"format":"hostname"},{"format":"email"}]})");
  add("formats_all", R"({"anyOf":[)" + Listed(13, ",", [](size_t i) {
                       constexpr std::string_view kFormats[] = {"date-time",
                                                                "date",
                                                                "time",
                                                                "duration",
                                                                "uuid",
                                                                "email",
                                                                "hostname",
                                                                "ipv4",
                                                                "ipv6",
                                                                "uri",
                                                                "uri-reference",
                                                                "json-pointer",
                                                                "relative-json-pointer"};
                       return R"({"type":"string","format":")" + std::string(kFormats[i]) + "\"}";
                     }) + "]}");
  add("patterns_20_together", R"({"type":"string","allOf":[)" + Listed(20, ",", [](size_t i) {
                                return R"({"pattern":"a.{)" + std::to_string(i) + R"(}b"})";
                              }) + "]}");
  add("pattern_1_MB", R"({"type":"string","pattern":")" + Repeated("abcdefghij", 100'000) + "\"}");
  add("pattern_exponential", R"({"type":"string","pattern":"(a|b)*a(a|b){24}"})");
  add("multipleOf_and_bounds",
      R"({"type":"number","multipleOf":0.0007,"minimum":-1e300,"maximum":1e300})");
  add("multipleOf_9973_in_many", R"({"prefixItems":[)" + Listed(200, ",", [](size_t i) {
                                   return R"({"type":"integer","multipleOf":)" +
                                          std::to_string(9'700 + i) + "}";
                                 }) + "]}");
  add("multipleOf_three_together",
      R"({"type":"integer","allOf":[{"multipleOf":9973},{"multipleOf":9967},{"multipleOf":9949}]})");
  add("bounds_of_300_digits", R"({"type":"number","minimum":1.5e300,"maximum":1.7e300})");

  // Texts.
  add("description_1_MB",
      R"({"description":")" + std::string(1'000'000, 'd') + R"(","type":"null"})");
  add("text_over_1_MiB",
      R"({"description":")" + std::string(1'050'000, 'd') + R"(","type":"null"})");
  add("key_of_500_KB", R"({"properties":{")" + std::string(500'000, 'k') + R"(":{"properties":{)" +
                           Listed(20'000, ",", empty_property) + "}}}}");
  return all;
}

inline std::vector<std::pair<std::string, std::string>> HostileRegexes() {
  const std::string words = Listed(100'000, "|", [](size_t i) { return Numbered("w", i * 31); });
  std::string spread;  // no two neighbours
  for (char32_t c = 0x100; c < 0x5000; c += 2) AppendUtf8(c, spread);
  return {
      {"counts_of_counts", "(((a{1,50}){1,50}){1,50}){1,50}"},
      {"counts_of_counts_exact", "((((((a{10}){10}){10}){10}){10}){10}){10}"},
      {"optional_of_optional", "((a{0,1000}){0,1000}){0,1000}"},
      {"stars_of_stars", Repeated("(", 60) + "a*" + Repeated(")*", 60)},
      {"groups_10000_deep", Repeated("(", 10'000) + "a" + Repeated(")", 10'000)},
      {"alternation_of_equals", "(a|a|a|a|aa|aaa)*b"},
      {"xx_y", "(x+x+)+y"},
      {"exponential_12", "(a|b)*a(a|b){12}"},
      {"exponential_18", "(a|b)*a(a|b){18}"},
      {"exponential_30", "(a|b)*a(a|b){30}"},
      {"optional_500", Repeated("a?", 500) + Repeated("a", 500)},
      {"any_many_times", Repeated(".*", 500)},
      {"any_between_letters",
       Listed(200, ".*", [](size_t i) { return std::string(1, static_cast<char>('a' + i % 26)); })},
      {"any_counted_nested", "(.{0,1000}a){0,50}"},
      {"words_100000", words},
      {"words_100000_anywhere", "(.*(" + words + ").*){2}"},
      {"literal_1_MB", std::string(1'000'000, 'q')},
      {"literal_over_1_MiB", std::string(1'050'000, 'q')},
      {"count_100000", "a{100000}"},
      {"count_100000_optional", ".{0,100000}"},
      {"count_above_limit", "a{100001}"},
      {"count_twice", "(a{99999}){99999}"},
      {"class_of_8000_ranges", "[" + spread + "]{1,200}"},
      {"class_of_8000_ranges_negative", "[^" + spread + "]{1,200}"},
      {"letters_200", R"((\p{L}\p{N}?){1,200})"},
      {"letters_and_marks", R"(([\p{L}\p{M}]+[^\p{L}]{1,100}\P{N}){1,30})"},
      {"properties_20000", Repeated(R"(\p{L})", 20'000)},
      {"properties_in_a_class", "[" + Repeated(R"(\p{L}\p{Nd}\P{Lu})", 5'000) + "]"},
      {"scripts_apart", R"((\p{Han}|\p{Latin}|\p{Cyrillic}|\p{Greek}|\p{Arabic}|\p{Thai}){1,300})"},
      {"everything_but", R"([^\x00-\x7f]{1,1000})"},
      {"suffixes", Listed(300, "|",
                          [](size_t i) {
                            return ".*" + std::string(1, static_cast<char>('a' + i % 26)) +
                                   std::to_string(i);
                          })},
      {"empty_many", "(" + Repeated("|", 100'000) + ")*"},
      {"anchors_many", Repeated("^", 100'000) + "a" + Repeated("$", 100'000)},
      {"look_ahead", "(?=a)b"},
      {"back_reference", R"((a+)\1)"},
      {"parenthesis_open", Repeated("(", 60)},
  };
}

inline std::vector<std::pair<std::string, std::string>> HostileGrammars() {
  const auto rules = [](size_t count, const std::function<std::string(size_t)>& body) {
    return "root ::= r0\n" +
           Listed(count, "\n", [&](size_t i) { return Numbered("r", i) + " ::= " + body(i); }) +
           "\n";
  };
  const auto quoted = [](size_t i) { return "\"" + Numbered("w", i * 31) + "\""; };
  return {
      {"left_recursion", "root ::= root \"a\" | \"b\"\n"},
      {"left_recursion_indirect",
       rules(100, [](size_t i) { return Numbered("r", (i + 1) % 100) + " \"a\" | \"b\""; })},
      {"left_recursion_behind_empty", "root ::= a* root \"b\" | \"c\"\na ::= \"\" | \"x\"?\n"},
      {"left_recursion_to_itself", "root ::= root\n"},
      {"no_end", "root ::= \"a\" root\n"},
      {"undefined", "root ::= missing\n"},
      {"rules_10000_in_a_chain",
       rules(10'000,
             [](size_t i) { return i == 9'999 ? "\"a\"" : "\"b\" " + Numbered("r", i + 1); })},
      {"rules_10000_in_a_chain_left", rules(10'000,
                                            [](size_t i) {
                                              return i == 9'999 ? std::string("\"a\"")
                                                                : Numbered("r", i + 1) + " \"b\"";
                                            })},
      {"rules_nullable_10000", rules(10'000,
                                     [](size_t i) {
                                       return i == 9'999 ? std::string("\"\"")
                                                         : Numbered("r", i + 1) + "?";
                                     })},
      {"rules_nullable_backwards", rules(20'000,
                                         [](size_t i) {
                                           return i == 19'999 ? std::string("\"\"")
                                                              : "\"a\" | " + Numbered("r", i + 1);
                                         })},
      {"rules_dense", rules(150,
                            [](size_t) {
                              return Listed(150, " | ",
                                            [](size_t j) {
                                              return "\"" + Numbered("", j % 10) + "\" " +
                                                     Numbered("r", j);
                                            }) +
                                     " | \"x\"";
                            })},
      {"doubled_60_times", rules(60,
                                 [](size_t i) {
                                   return i == 59
                                              ? std::string("\"a\"")
                                              : Numbered("r", i + 1) + " " + Numbered("r", i + 1);
                                 })},
      {"doubled_optional_60_times", rules(60,
                                          [](size_t i) {
                                            return i == 59 ? std::string("\"a\"?")
                                                           : Numbered("r", i + 1) + " " +
                                                                 Numbered("r", i + 1);
                                          })},
      {"doubled_choice_60_times", rules(60,
                                        [](size_t i) {
                                          return i == 59 ? std::string("\"a\"")
                                                         : Numbered("r", i + 1) + " | " +
                                                               Numbered("r", i + 1) + " \"a\"";
                                        })},
      {"groups_10000_deep",
       "root ::= " + Repeated("(", 10'000) + "\"a\"" + Repeated(")", 10'000) + "\n"},
      {"counts_of_counts", "root ::= (((\"a\"{100}){100}){100}){100}\n"},
      {"counts_in_a_row", "root ::= \"a\"" + Repeated("{10}", 60) + "\n"},
      {"stars_in_a_row", "root ::= \"a\"" + Repeated("*", 60) + "\n"},
      {"any_100000_times", "root ::= [^a]{100000}\n"},
      {"any_rule_counted", "root ::= item{0,50000}\nitem ::= [a-z] | \"(\" item \")\"\n"},
      {"words_60000", "root ::= " + Listed(60'000, " | ", quoted) + "\n"},
      {"class_of_100000_characters", "root ::= [" + Repeated("abcdefghij", 100'000) + "]\n"},
      {"palindromes", "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"\"\n"},
      {"ambiguous_sums", "root ::= e\ne ::= [0-9] (\"+\" e)? (\"+\" e)? (\"+\" e)?\n"},
      {"ambiguous_lists",
       "root ::= (a | b | c)*\na ::= [a-z]+\nb ::= [a-z]+ b?\nc ::= [a-z] c | [a-z]\n"},
      {"ambiguous_2000_ways",
       "root ::= " +
           Listed(2'000, " | ", [](size_t i) { return "[a-z ]* \"" + Numbered("#", i) + "\""; }) +
           "\n"},
      {"ambiguous_1000_rules", rules(1'000,
                                     [](size_t i) {
                                       return i == 999 ? std::string("[a-z ]*")
                                                       : "[a-z ]* \"" + Numbered("#", i) + "\" | " +
                                                             Numbered("r", i + 1);
                                     })},
      {"ambiguous_stacks", "root ::= s\ns ::= [a-z] s [a-z] | [a-z] s | [a-z]\n"},
      {"optional_5000", "root ::= " + Repeated("a ", 5'000) + "\na ::= \"x\"?\n"},
      {"characters_of_all", "root ::= [\\x00-\\U0010FFFF]{1,30000}\n"},
      {"name_of_500_KB", std::string("root ::= ") + std::string(500'000, 'n') + "\n" +
                             std::string(500'000, 'n') + " ::= \"a\"\n"},
      {"comment_of_1_MB", "# " + std::string(1'000'000, 'c') + "\nroot ::= \"a\"\n"},
  };
}

inline std::vector<std::pair<std::string, std::vector<std::string>>> HostileChoices() {
  const auto list = [](size_t count, const std::function<std::string(size_t)>& item) {
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) out.push_back(item(i));
    return out;
  };
  return {
      {"choices_100000", list(100'000, [](size_t i) { return Numbered("choice ", i); })},
      {"choices_prefixes", list(2'000, [](size_t i) { return std::string(i + 1, 'a'); })},
      {"choices_same_end",
       list(5'000, [](size_t i) { return std::to_string(i) + std::string(100, 'z'); })},
      {"choice_of_1_MB", list(1, [](size_t) { return std::string(1'000'000, 'c'); })},
  };
}

// The only right answer to a source, where there is one.
inline std::string RefusalOf(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kRefusals[] = {
      {"objects_10000_deep", "grammar_too_complex"},
      {"brackets_100000_deep", "grammar_too_complex"},
      {"ref_to_itself", ""},
      {"text_over_1_MiB", "grammar_too_complex"},
      {"minItems_1e18", "grammar_too_complex"},
      {"anyOf_to_the_20", "grammar_too_complex"},
      {"literal_over_1_MiB", "grammar_regex"},
      {"count_above_limit", "grammar_regex"},
      {"groups_10000_deep", ""},
      {"look_ahead", "grammar_regex"},
      {"back_reference", "grammar_regex"},
      {"parenthesis_open", "grammar_regex"},
      {"count_twice", "grammar_too_complex"},
      {"counts_of_counts", "grammar_too_complex"},
      {"exponential_30", "grammar_too_complex"},
      {"left_recursion", "grammar_left_recursion"},
      {"left_recursion_indirect", "grammar_left_recursion"},
      {"left_recursion_behind_empty", "grammar_left_recursion"},
      {"left_recursion_to_itself", "grammar_empty"},
      {"no_end", "grammar_empty"},
      {"undefined", "grammar_syntax"},
      {"counts_in_a_row", "grammar_too_complex"},
  };
  for (const auto& [source, refusal] : kRefusals) {
    if (source == name) return std::string(refusal);
  }
  return "";
}

inline std::vector<HostileSource> HostileSources() {
  std::vector<HostileSource> all;
  const auto add = [&](const auto& list, Structure::Kind kind, const char* kind_name) {
    for (const auto& [name, text] : list)
      all.push_back({std::string(kind_name) + name, {.kind = kind, .text = text}, RefusalOf(name)});
  };
  add(HostileSchemas(), Structure::Kind::kJsonSchema, "schema ");
  add(HostileRegexes(), Structure::Kind::kRegex, "regex ");
  add(HostileGrammars(), Structure::Kind::kGbnf, "gbnf ");
  for (const auto& [name, choices] : HostileChoices())
    all.push_back({"choice " + name, {.kind = Structure::Kind::kChoice, .texts = choices}});
  return all;
}

}  // namespace tutti::grammar::testing
