#include "protocol/schema/query_parameters.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "protocol/error.h"

namespace tutti::protocol {
namespace {

using Parameters = std::vector<QueryParameter>;

Result<ListQuery> Query(const Parameters& parameters) {
  IgnoredFields ignored;
  return ParseListQuery(parameters, {}, &ignored);
}

Result<RetrieveQuery> Retrieve(const Parameters& parameters) {
  IgnoredFields ignored;
  return ParseRetrieveQuery(parameters, {}, &ignored);
}

TEST(DecodeQuery, NamesAndValuesAreUnescaped) {
  EXPECT_EQ(DecodeQuery("limit=5&order=asc").value(),
            (Parameters{{"limit", "5"}, {"order", "asc"}}));
  EXPECT_EQ(
      DecodeQuery("a%20b=c+d&e=%C3%A9%26%3d&f&g=&=h&i=j=k").value(),
      (Parameters{
          {"a b", "c d"}, {"e", "\xC3\xA9&="}, {"f", ""}, {"g", ""}, {"", "h"}, {"i", "j=k"}}));
  EXPECT_TRUE(DecodeQuery("")->empty());
  EXPECT_TRUE(DecodeQuery("&&")->empty());
}

TEST(DecodeQuery, WhatIsNoTextIsRefused) {
  for (const char* query : {"a=%", "a=%4", "a=%zz", "%=1", "a=%-1"})
    EXPECT_EQ(DecodeQuery(query).status().reason(), "invalid_value") << query;
  for (const char* query : {"a=%FF", "%C3=1", "a=%ED%A0%80"})
    EXPECT_EQ(DecodeQuery(query).status().reason(), "invalid_utf8") << query;
}

TEST(DecodeQuery, IsBounded) {
  std::string query = "a=1";
  for (int i = 1; i < 32; ++i) query += "&a=1";
  EXPECT_EQ(DecodeQuery(query)->size(), 32u);
  EXPECT_EQ(DecodeQuery(query + "&a=1").status().reason(), "invalid_value");
}

TEST(ReadWholeNumber, TakesDigitsAlone) {
  EXPECT_EQ(ReadWholeNumber("0"), 0);
  EXPECT_EQ(ReadWholeNumber("17"), 17);
  EXPECT_EQ(ReadWholeNumber("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text :
       {"", "-1", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "x"})
    EXPECT_FALSE(ReadWholeNumber(text).has_value()) << text;
}

TEST(ListQuery, HasTheDocumentedDefaultsAndBounds) {
  const ListQuery plain = Query({}).value();
  EXPECT_EQ(plain.limit, 20);
  EXPECT_FALSE(plain.ascending);
  EXPECT_TRUE(plain.after.empty());
  const ListQuery query = Query({{"limit", "100"}, {"order", "asc"}, {"after", "msg_1"}}).value();
  EXPECT_EQ(query.limit, 100);
  EXPECT_TRUE(query.ascending);
  EXPECT_EQ(query.after, "msg_1");
  EXPECT_EQ(Query({{"limit", "1"}})->limit, 1);
  for (const char* limit :
       {"0", "101", "-1", "", " 5", "5 ", "+5", "05", "1e1", "5.0", "a", "99999999999999999999"}) {
    EXPECT_EQ(Query({{"limit", limit}}).status().param(), "limit") << limit;
  }
  for (const char* order : {"", "ASC", "up"})
    EXPECT_EQ(Query({{"order", order}}).status().param(), "order") << order;
  EXPECT_EQ(Query({{"after", std::string(257, 'a')}}).status().param(), "after");
}

TEST(ListQuery, AParameterGivenTwiceIsRefused) {
  for (const char* name : {"limit", "order", "after"}) {
    const std::string value = std::string(name) == "order" ? "asc" : "1";
    EXPECT_EQ(Query({{name, value}, {name, value}}).status().param(), name);
  }
}

TEST(ListQuery, UnknownParametersAreToldOrInStrictModeRefused) {
  IgnoredFields ignored;
  EXPECT_TRUE(ParseListQuery(Parameters{{"x", "1"}}, {}, &ignored).ok());
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"x"});
  ParseOptions strict;
  strict.strict = true;
  EXPECT_EQ(ParseListQuery(Parameters{{"x", "1"}}, strict, &ignored).status().reason(),
            "unknown_parameter");
  EXPECT_TRUE(
      ParseListQuery(Parameters{{"include[]", "message.input_image.image_url"}}, strict, &ignored)
          .ok());
  EXPECT_EQ(Query({{"include", "message.output_text.logprobs"}}).status().reason(),
            "unsupported_parameter");
}

TEST(ConversationListQuery, TakesOneEndOfThePage) {
  IgnoredFields ignored;
  const auto parse = [&](const Parameters& parameters) {
    return ParseConversationListQuery(parameters, {}, &ignored);
  };
  EXPECT_EQ(parse({{"before", "conv_a"}, {"limit", "3"}})->before, "conv_a");
  EXPECT_EQ(parse({{"before", "conv_a"}, {"limit", "3"}})->page.limit, 3);
  EXPECT_EQ(parse({{"after", "conv_a"}, {"before", ""}})->page.after, "conv_a");
  EXPECT_EQ(parse({{"after", "a"}, {"before", "b"}}).status().param(), "before");
  EXPECT_EQ(parse({{"before", "a"}, {"before", "a"}}).status().param(), "before");
  EXPECT_EQ(parse({{"before", std::string(257, 'a')}}).status().param(), "before");
}

TEST(RetrieveQuery, AsksForEventsAfterANumber) {
  const RetrieveQuery plain = Retrieve({}).value();
  EXPECT_FALSE(plain.stream || plain.obfuscation || plain.starting_after.has_value());
  const RetrieveQuery query = Retrieve({{"stream", "true"}, {"starting_after", "41"}}).value();
  EXPECT_TRUE(query.stream);
  EXPECT_EQ(query.starting_after, 41);
  EXPECT_TRUE(Retrieve({{"stream", "true"}, {"include_obfuscation", "true"}})->obfuscation);
  EXPECT_FALSE(Retrieve({{"stream", "false"}})->stream);
}

TEST(CancelQuery, KeepsOutputOnRequest) {
  const auto parse = [](const Parameters& parameters, bool strict = false) {
    IgnoredFields ignored;
    ParseOptions options;
    options.strict = strict;
    return ParseCancelQuery(parameters, options, &ignored);
  };
  EXPECT_FALSE(parse({})->keep_output);
  EXPECT_TRUE(parse({{"keep_output", "true"}})->keep_output);
  EXPECT_EQ(parse({{"keep_output", "1"}}).status().param(), "keep_output");
  EXPECT_TRUE(parse({{"other", "1"}}).ok());
  EXPECT_EQ(parse({{"other", "1"}}, /*strict=*/true).status().reason(), "unknown_parameter");
}

TEST(RetrieveQuery, ItsFaultsAreNamed) {
  for (const char* stream : {"1", "yes", "True", ""})
    EXPECT_EQ(Retrieve({{"stream", stream}}).status().param(), "stream") << stream;
  for (const char* number : {"-1", "x", "", "1.0"}) {
    EXPECT_EQ(Retrieve({{"stream", "true"}, {"starting_after", number}}).status().param(),
              "starting_after")
        << number;
  }
  EXPECT_EQ(Retrieve({{"starting_after", "4"}}).status().param(), "starting_after")
      << "there are no events without stream";
  EXPECT_EQ(Retrieve({{"stream", "true"}, {"stream", "true"}}).status().param(), "stream");
  EXPECT_TRUE(Retrieve({{"include", "message.output_text.logprobs"}}).ok())
      << "a response has what its request included";
}

}  // namespace
}  // namespace tutti::protocol
