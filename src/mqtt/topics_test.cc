#include "mqtt/topics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::mqtt {
namespace {

TEST(TopicsTest, NamesHoldNoWildcardAndAreNotEmpty) {
  for (const char* name : {"a", "/", "a/b", "/a", "a/", "a//b", "$SYS/x", "a b", "\xC3\xA9"}) {
    EXPECT_TRUE(IsTopicName(name)) << name;
  }
  for (const char* name : {"", "#", "+", "a/#", "a/+/b", "a+", "a#b"}) {
    EXPECT_FALSE(IsTopicName(name)) << name;
  }
  EXPECT_TRUE(IsTopicName(std::string(65'535, 'a')));
  EXPECT_FALSE(IsTopicName(std::string(65'536, 'a')));
}

TEST(TopicsTest, WildcardsOfFiltersStandForWholeLevels) {
  for (const char* filter : {"#", "+", "/", "a", "a/#", "+/#", "a/+/b", "+/+/+", "/+", "a//#",
                             "$share/g/a", "$share/g/#", "$share/g//", "$shared/+"}) {
    EXPECT_TRUE(IsTopicFilter(filter)) << filter;
  }
  for (const char* filter :
       {"", "##", "#/", "a#", "a/#/b", "a+", "+a", "a/b+/c", "++", "a/+#", "$share/", "$share//",
        "$share//a", "$share/g", "$share/g/", "$share/+/a", "$share/g#/a", "$share/g/a#"}) {
    EXPECT_FALSE(IsTopicFilter(filter)) << filter;
  }
}

TEST(TopicsTest, FiltersMatchAsTheStandardsExamplesSay) {
  struct Case {
    const char *filter, *topic;
    bool matches;
  };
  const Case cases[] = {
      {"sport/tennis/player1/#", "sport/tennis/player1", true},
      {"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
      {"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
      {"sport/tennis/player1/#", "sport/tennis/player2", false},
      {"sport/#", "sport", true},
      {"#", "a/b/c", true},
      {"#", "/", true},
      {"sport/tennis/+", "sport/tennis/player1", true},
      {"sport/tennis/+", "sport/tennis/player1/ranking", false},
      {"sport/+", "sport", false},
      {"sport/+", "sport/", true},
      {"+/+", "/finance", true},
      {"/+", "/finance", true},
      {"+", "/finance", false},
      {"#", "$SYS/x", false},
      {"+/x", "$SYS/x", false},
      {"$SYS/#", "$SYS/x", true},
      {"$SYS/+", "$SYS/x", true},
      {"a/#", "a/$x", true},
      {"a", "A", false},
      {"a/b", "a/b", true},
      {"a/b", "a/b/", false},
      {"a/b/", "a/b", false},
      {"a/+/c", "a//c", true},
      {"a/+/#", "a", false},
      {"a/+/#", "a/b", true},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(TopicMatches(each.filter, each.topic), each.matches)
        << each.filter << " " << each.topic;
  }
}

TEST(TopicsTest, SharedFiltersAreTakenApart) {
  const auto shared = SharedFilterOf("$share/group/a/+");
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->name, "group");
  EXPECT_EQ(shared->filter, "a/+");
  EXPECT_FALSE(SharedFilterOf("$shared/group/a").has_value());
  EXPECT_FALSE(SharedFilterOf("a/$share/b").has_value());
}

TEST(TopicsTest, AFilterLeavesAJailOnlyWhereItAsksForMore) {
  const char* jail = "llm/v1/alice/#";
  for (const char* inside : {"llm/v1/alice/#", "llm/v1/alice", "llm/v1/alice/s/out",
                             "llm/v1/alice/+/out", "llm/v1/alice/+/#"}) {
    EXPECT_TRUE(FilterCovers(jail, inside)) << inside;
  }
  for (const char* outside :
       {"#", "+/#", "llm/#", "llm/v1/#", "llm/v1/+/s/out", "llm/v1/+", "llm/v1/bob/#",
        "llm/v1/alice2/#", "+/v1/alice/#", "llm/v1", "$SYS/#"}) {
    EXPECT_FALSE(FilterCovers(jail, outside)) << outside;
  }
  EXPECT_TRUE(FilterCovers("a/+/in", "a/b/in"));
  EXPECT_TRUE(FilterCovers("a/+/in", "a/+/in"));
  EXPECT_FALSE(FilterCovers("a/+/in", "a/#"));
  EXPECT_FALSE(FilterCovers("a/+", "a/+/#"));
  EXPECT_FALSE(FilterCovers("#", "$SYS/#"));
}

// Tested over all topics of few levels. FilterCovers() does not detect that `x/+/#` covers `x/#`
// where no topic is `x`, which is on the safe side.
TEST(TopicsTest, AFilterCoversAnotherIfAndOnlyIfItMatchesAllOfItsTopics) {
  const std::vector<std::string> names = {"a", "b", ""};
  std::vector<std::string> topics, filters;
  const std::vector<std::string> levels = {"a", "b", "", "+"};
  const auto grow = [](const std::vector<std::string>& of, int depth) {
    std::vector<std::string> all, last = {of.begin(), of.end()};
    for (int i = 0; i < depth; ++i) {
      all.insert(all.end(), last.begin(), last.end());
      std::vector<std::string> next;
      for (const std::string& head : last) {
        for (const std::string& level : of) next.push_back(head + "/" + level);
      }
      last = next;
    }
    return all;
  };
  for (const std::string& topic : grow(names, 4)) {
    if (IsTopicName(topic)) topics.push_back(topic);
  }
  for (const std::string& filter : grow(levels, 2)) {
    if (IsTopicFilter(filter)) filters.push_back(filter);
    filters.push_back(filter + "/#");
  }
  filters.push_back("#");
  for (const std::string& outer : filters) {
    for (const std::string& inner : filters) {
      bool all = true;
      for (const std::string& topic : topics) {
        if (TopicMatches(inner, topic) && !TopicMatches(outer, topic)) all = false;
      }
      if (all && outer.ends_with("+/#")) continue;
      EXPECT_EQ(FilterCovers(outer, inner), all) << outer << " over " << inner;
    }
  }
}

TEST(TopicsTest, LevelsAreCounted) {
  EXPECT_EQ(TopicLevels("a"), 1u);
  EXPECT_EQ(TopicLevels("/"), 2u);
  EXPECT_EQ(TopicLevels("a/b/c"), 3u);
}

}  // namespace
}  // namespace tutti::mqtt
