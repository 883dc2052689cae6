#include "services/models/hub_name.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::models {
namespace {

TEST(HubNameTest, ReadsRepositoryQuantAndRevision) {
  struct Case {
    const char* text;
    HubName name;
  };
  for (const Case& c : {
           Case{"Qwen/Qwen3-0.6B", {"Qwen/Qwen3-0.6B", "", ""}},
           Case{"a/b:Q4_K_M", {"a/b", "Q4_K_M", ""}},
           Case{"a/b@v1.0", {"a/b", "", "v1.0"}},
           Case{"a/b:Q8_0@refs/pr/3", {"a/b", "Q8_0", "refs/pr/3"}},
           Case{"hf.co/a/b:Q8_0", {"a/b", "Q8_0", ""}},
           Case{"huggingface.co/a/b", {"a/b", "", ""}},
           Case{"https://huggingface.co/a/b/", {"a/b", "", ""}},
           Case{"https://huggingface.co/a/b/blob/main/m-Q8_0.gguf", {"a/b", "m-Q8_0", ""}},
           Case{"https://hf.co/a/b/resolve/v1/x/m-Q8_0-00002-of-00003.gguf?download=true",
                {"a/b", "m-Q8_0", "v1"}},
       }) {
    const Result<HubName> name = ParseHubName(c.text);
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_EQ(*name, c.name) << c.text;
  }
  EXPECT_EQ(ParseHubName("a/b:Q8_0@x")->ToString(), "a/b:Q8_0@x");
  EXPECT_EQ(ParseHubName("a/b:Q8_0@x")->ServedName(), "a/b:Q8_0");
  EXPECT_EQ(ParseHubName("a/b")->revision_or_main(), "main");
}

TEST(HubNameTest, RefusesWhatIsNoName) {
  for (const std::string text : {"",
                                 "/",
                                 "a",
                                 "a/",
                                 "/b",
                                 "a/b/c",
                                 "./b",
                                 "../b",
                                 "a/..",
                                 "a/.b",
                                 "a/b.",
                                 "a--x/b",
                                 "a/b..c",
                                 "a/b.gguf",
                                 "a/b.git",
                                 "a b/c",
                                 "a/b:",
                                 "a/b:x/y",
                                 "a/b:x:y",
                                 "a/b@",
                                 "a/b@../x",
                                 "a/b@x//y",
                                 "a/b@/x",
                                 "a/b@x\ny",
                                 "a/b\n",
                                 "\xff/b",
                                 "https://example.org/a/b",
                                 "https://huggingface.co/a/b/resolve/main/m.bin",
                                 "a/b/resolve/main/m.gguf",
                                 "https://huggingface.co/a/b/tree/main",
                                 "-a/b",
                                 "a/-b"}) {
    EXPECT_EQ(ParseHubName(text).status().reason(), "invalid_value") << text;
  }
  EXPECT_FALSE(ParseHubName("a/" + std::string(97, 'b')).ok());
  EXPECT_FALSE(ParseHubName("a/b@" + std::string(201, 'b')).ok());
  EXPECT_LT(ParseHubName(std::string(1 << 20, 'b')).status().message().size(), 400U);
}

TEST(HubNameTest, SafePathsStayBelowTheirFolder) {
  for (const char* const path :
       {"a", "a/b", "a.b/c-d", "..a/b..", "1_Pooling/config.json", "\xC3\xA9"})
    EXPECT_TRUE(IsSafeRelativePath(path)) << path;
  for (const std::string path : {"", "/", "/a", "a/", "..", ".", "../a", "a/..", "a/../b", "a/./b",
                                 "a//b", "a\\b", "a\nb", "a\x7f", "\xff"})
    EXPECT_FALSE(IsSafeRelativePath(path)) << path;
  EXPECT_FALSE(IsSafeRelativePath(std::string("a\0b", 3)));
  EXPECT_FALSE(IsSafeRelativePath(std::string(1025, 'a')));
  EXPECT_FALSE(IsSafeRelativePath(std::string(256, 'a')));
}

}  // namespace
}  // namespace tutti::models
