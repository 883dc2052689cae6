#include "protocol/openai/file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::protocol {
namespace {

TEST(FileTest, AFileIsShownAsOpenAiShowsIt) {
  FileView file{.id = "file-1", .purpose = "batch", .filename = "a\"b", .bytes = 7, .created_s = 5};
  const std::string never =
      R"({"id":"file-1","object":"file","bytes":7,"created_at":5,"expires_at":null,)"
      R"("filename":"a\"b","purpose":"batch","status":"processed","status_details":null})";
  EXPECT_EQ(FileJson(file), never);
  file.expires_s = 9;
  EXPECT_NE(FileJson(file).find("\"expires_at\":9,"), std::string::npos);
  EXPECT_EQ(FileListJson({}, false),
            R"({"object":"list","data":[],"first_id":"","last_id":"","has_more":false})");
  file.expires_s = 0;
  EXPECT_EQ(FileListJson({&file, 1}, true), R"({"object":"list","data":[)" + never +
                                                R"(],"first_id":"file-1","last_id":"file-1",)" +
                                                R"("has_more":true})");
  EXPECT_EQ(FileDeletedJson("file-1"), R"({"id":"file-1","object":"file","deleted":true})");
}

Result<FileListQuery> FilesQuery(const std::vector<QueryParameter>& parameters,
                                 bool strict = false) {
  IgnoredFields ignored;
  return ParseFileListQuery(parameters, {.strict = strict}, &ignored);
}

TEST(FileTest, AListHasItsQuery) {
  const auto usual = FilesQuery({});
  EXPECT_EQ(usual->page.limit, 10'000);
  EXPECT_FALSE(usual->page.ascending);
  const auto asked = FilesQuery(
      {{"purpose", "batch_output"}, {"limit", "3"}, {"order", "asc"}, {"after", "file-1"}});
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->purpose, "batch_output");
  EXPECT_EQ(asked->page.limit, 3);
  EXPECT_TRUE(asked->page.ascending);
  EXPECT_EQ(asked->page.after, "file-1");
  for (const QueryParameter& bad : std::vector<QueryParameter>{{"limit", "0"},
                                                               {"limit", "10001"},
                                                               {"limit", "x"},
                                                               {"purpose", "vision"},
                                                               {"order", "up"}}) {
    EXPECT_EQ(FilesQuery({bad}).status().param(), bad.first) << bad.second;
  }
  EXPECT_FALSE(FilesQuery({{"limit", "1"}, {"limit", "1"}}).ok());
  EXPECT_FALSE(FilesQuery({{"purpose", "batch"}, {"purpose", "batch"}}).ok());
  EXPECT_TRUE(FilesQuery({{"other", "1"}}).ok());
  EXPECT_EQ(FilesQuery({{"other", "1"}}, true).status().reason(), "unknown_parameter");
}

using Fields = std::vector<std::pair<std::string, std::string>>;
Status Form(const Fields& fields, bool strict = false) {
  FileForm form({.strict = strict});
  for (const auto& [name, value] : fields) RETURN_IF_ERROR(form.Set(name, value));
  return form.Check();
}

TEST(FileTest, TheFormIsChecked) {
  const std::string anchor = "expires_after[anchor]", after = "expires_after[seconds]";
  EXPECT_TRUE(Form({{"purpose", "batch"}}).ok());
  EXPECT_TRUE(Form({{"purpose", "batch"}, {anchor, "created_at"}, {after, "3600"}}).ok());
  EXPECT_EQ(Form({}).reason(), "missing_required_parameter");
  for (const char* known : {"assistants", "fine-tune", "vision", "user_data", "evals"})
    EXPECT_EQ(Form({{"purpose", known}}).reason(), "unsupported_parameter") << known;
  for (const char* none : {"", "Batch", "batch_output", "else"})
    EXPECT_EQ(Form({{"purpose", none}}).reason(), "invalid_value") << none;
  EXPECT_EQ(Form({{"purpose", "batch"}, {"purpose", "batch"}}).param(), "purpose");
  EXPECT_EQ(Form({{"purpose", "batch"}, {anchor, "created_at"}}).param(), after);
  EXPECT_EQ(Form({{"purpose", "batch"}, {after, "3600"}}).param(), anchor);
  for (const char* bad : {"3599", "2592001", "-1", "1e4", ""})
    EXPECT_EQ(Form({{"purpose", "batch"}, {after, bad}}).param(), after) << bad;
  EXPECT_EQ(Form({{anchor, "last_active_at"}}).param(), anchor);
  EXPECT_TRUE(Form({{"purpose", "batch"}, {"else", "x"}}).ok());
  EXPECT_EQ(Form({{"purpose", "batch"}, {"else", "x"}}, true).reason(), "unknown_parameter");
}

}  // namespace
}  // namespace tutti::protocol
