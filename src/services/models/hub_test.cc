// Parts of the client that need no server; tests/e2e/test_pull.py has the rest.
#include "services/models/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "services/models/download.h"
#include "temp_folder.h"

namespace tutti::models {
namespace {

using ::testing::HasSubstr;

TEST(HubTest, FindsTheNextPageInALinkHeader) {
  EXPECT_EQ(NextLink("<https://h/a?cursor=b>; rel=\"next\""), "https://h/a?cursor=b");
  EXPECT_EQ(NextLink("<https://h/1>; rel=\"prev\", <https://h/2>; rel=\"next\""), "https://h/2");
  for (const char* const text :
       {"", "<", "<x", "x>", "<x>", "<x>; rel=\"last\"", ">; rel=\"next\"<"})
    EXPECT_EQ(NextLink(text), "") << text;
}

// The sum over 100,000 files must not overflow.
TEST(HubTest, RefusesFilesOfMoreThan128TiB) {
  const auto list = [](const std::string& size) {
    std::vector<HubFile> files;
    const auto page = protocol::ParseJson(R"([{"type":"file","path":"m.gguf","oid":")" +
                                          std::string(40, 'a') + R"(","size":)" + size + "}]");
    return AddFileList(page->root(), &files);
  };
  EXPECT_TRUE(list("140737488355328").ok());
  EXPECT_THAT(list("140737488355329").message(), HasSubstr("128 TiB"));
  EXPECT_THAT(list("-1").message(), HasSubstr("no size"));
}

TEST(HubTest, OriginsDifferInHostPortAndScheme) {
  EXPECT_EQ(OriginOf("https://H.example/x?y"), "https://h.example:443");
  EXPECT_EQ(OriginOf("https://h.example:443/"), OriginOf("https://h.example"));
  EXPECT_NE(OriginOf("http://h.example:443"), OriginOf("https://h.example"));
  EXPECT_NE(OriginOf("https://h.example:444"), OriginOf("https://h.example"));
  EXPECT_NE(OriginOf("https://h.example.evil.org"), OriginOf("https://h.example"));
  EXPECT_EQ(OriginOf("https://h.example@evil.org/"), "https://evil.org:443");
  for (const char* const text : {"", "x", "file:///etc/passwd", "ftp://h/x", "https://"})
    EXPECT_EQ(OriginOf(text), "") << text;
}

TEST(HubTest, SecretsOfUrlsAreNotShown) {
  EXPECT_EQ(PublicPartOf("https://u:p@h.example/m.gguf?X-Signature=s#f"),
            "https://h.example/m.gguf");
  EXPECT_THAT(PublicPartOf("not a url?secret"), ::testing::Not(HasSubstr("secret")));
}

TEST(HubTest, PathsAreEscaped) {
  EXPECT_EQ(EscapePath("a b/c?d#e%.gguf"), "a%20b/c%3Fd%23e%25.gguf");
  EXPECT_EQ(EscapePath("refs/pr/1", true), "refs%2Fpr%2F1");
}

TEST(HubTest, AnswersSayWhatToDo) {
  HttpAnswer answer;
  answer.status = 401;
  EXPECT_THAT(StatusOfAnswer(answer, "o/m", false, "p").message(), HasSubstr("set HF_TOKEN"));
  EXPECT_THAT(StatusOfAnswer(answer, "o/m", true, "p").message(), HasSubstr("refuses the token"));
  answer.fields["x-error-code"] = "GatedRepo";
  EXPECT_THAT(StatusOfAnswer(answer, "o/m", true, "https://h/o/m").message(),
              HasSubstr("terms accepted at https://h/o/m"));
  answer.status = 404;
  answer.fields["x-error-code"] = "RevisionNotFound";
  EXPECT_EQ(StatusOfAnswer(answer, "o/m@x", true, "p").reason(), "hub_not_found");
  answer.status = 418;
  answer.fields["x-error-code"] = "\x1b[31m";
  EXPECT_THAT(StatusOfAnswer(answer, "o/m", true, "p").message(),
              ::testing::Not(HasSubstr("\x1b")));
}

TEST(HubTest, HashesAreThoseOfGitAndSha256) {
  FileHash git(HashKind::kGitBlobSha1, 6);
  const std::string text = "hello\n";
  git.Update(std::as_bytes(std::span(text)));
  EXPECT_EQ(git.FinishHex(), "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
  FileHash sha(HashKind::kSha256, 0);
  EXPECT_EQ(sha.FinishHex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  git.Restart();
  git.Update(std::as_bytes(std::span(text)));
  EXPECT_EQ(git.FinishHex(), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_FALSE(IsHashText(HashKind::kSha256, std::string(40, 'a')));
  EXPECT_FALSE(IsHashText(HashKind::kGitBlobSha1, std::string(40, 'A')));
}

class HubSettingsTest : public ::testing::Test {
 protected:
  HubSettings Read() {
    return HubSettingsFrom(
        [this](const char* name) {
          const auto found = variables_.find(name);
          return found == variables_.end() ? std::string() : found->second;
        },
        "/m");
  }
  support::TempFolder folder_;
  std::map<std::string, std::string> variables_ = {{"HOME", "/home/me"}};
};

TEST_F(HubSettingsTest, FoldersAreThoseOfThePackage) {
  EXPECT_EQ(Read().cache_folder, "/home/me/.cache/huggingface/hub");
  EXPECT_EQ(Read().endpoint, "https://huggingface.co");
  EXPECT_FALSE(Read().offline);
  variables_["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(Read().cache_folder, "/x/huggingface/hub");
  variables_["HF_HOME"] = "~/hf";
  EXPECT_EQ(Read().cache_folder, "/home/me/hf/hub");
  variables_["HF_HUB_CACHE"] = "/cache";
  EXPECT_EQ(Read().cache_folder, "/cache");
  variables_["HF_ENDPOINT"] = "https://mirror.example/";
  variables_["HF_HUB_OFFLINE"] = "True";
  EXPECT_EQ(Read().endpoint, "https://mirror.example");
  EXPECT_TRUE(Read().offline);
}

TEST_F(HubSettingsTest, ATokenComesFromAVariableOrAFileAndNotOverPlainHttp) {
  variables_["HF_HOME"] = folder_.path();
  std::ofstream(folder_.File("token")) << " hf_file\n";
  EXPECT_EQ(Read().token, "hf_file");
  variables_["HF_TOKEN"] = "hf_variable";
  EXPECT_EQ(Read().token, "hf_variable");
  variables_["HF_ENDPOINT"] = "http://mirror.example";
  EXPECT_EQ(Read().token, "");
  EXPECT_EQ(Read().remarks.size(), 1U);
  variables_["HF_ENDPOINT"] = "http://127.0.0.1:80";
  EXPECT_EQ(Read().token, "hf_variable");
  variables_["HF_TOKEN"] = "hf\r\nX-Evil: 1";
  EXPECT_EQ(Read().token, "");
  variables_.erase("HF_TOKEN");
  variables_["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1";
  EXPECT_EQ(Read().token, "");
}

}  // namespace
}  // namespace tutti::models
