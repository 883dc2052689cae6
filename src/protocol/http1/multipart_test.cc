#include "protocol/http1/multipart.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::protocol {
namespace {

// "name=value" of a field, "name(filename)=value" of a file.
class Parts final : public PartSink {
 public:
  Status OnPart(const PartHead& head) override {
    if (!refused.empty() && head.name == refused)
      return InvalidArgument("invalid_value", "refused").WithParam(head.name);
    parts.push_back(head.name + (head.filename ? "(" + *head.filename + ")" : "") + "=");
    return OkStatus();
  }
  Status OnData(std::string_view bytes) override {
    parts.back() += bytes;
    return OkStatus();
  }
  std::vector<std::string> parts;
  std::string refused;
};

using PartTexts = std::vector<std::string>;

Result<PartTexts> ReadBody(const std::string& body, size_t piece,
                           const std::string& boundary = "b") {
  Parts parts;
  MultipartReader reader(boundary, &parts);
  for (size_t at = 0; at < body.size(); at += piece)
    RETURN_IF_ERROR(reader.Feed(std::string_view(body).substr(at, piece)));
  RETURN_IF_ERROR(reader.End());
  return parts.parts;
}

std::string Part(const std::string& disposition, const std::string& value) {
  return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n";
}

TEST(MultipartTest, ABodyIsReadWhateverPiecesItComesIn) {
  const std::string data = "line\r\n--\r\n--bb is none of its boundaries? \r\n-\r\n";
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n" +
      Part("name=empty", "") +
      "--b \t\r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION: form-data; "
      "filename=\"C:\\x\\a \\\"b\\\".jsonl\"; name=file\r\n\r\n" +
      "line\r\n--\r\n-\r\n" + "\r\n--b--\r\nwhatever";
  for (size_t piece = 1; piece <= body.size(); ++piece) {
    const auto read = ReadBody(body, piece);
    ASSERT_TRUE(read.ok()) << read.status() << " in pieces of " << piece;
    EXPECT_EQ(*read,
              (PartTexts{"purpose=batch", "empty=", "file(a \"b\".jsonl)=line\r\n--\r\n-\r\n"}));
  }
  EXPECT_FALSE(ReadBody(Part("name=f", data) + "--b--", 7).ok())
      << "a boundary with more behind it";
}

TEST(MultipartTest, WhatStandsBeforeTheFirstBoundaryIsNoPart) {
  EXPECT_EQ(*ReadBody("a preamble\r\n" + Part("name=a", "1") + "--b--", 5), PartTexts{"a=1"});
  EXPECT_FALSE(ReadBody(std::string(8000, 'x'), 100).ok());
}

TEST(MultipartTest, NamesBeyondAscii) {
  EXPECT_EQ(*ReadBody(Part("name=f; filename*=UTF-8''na%C3%AFve.jsonl", "x") + "--b--", 9),
            PartTexts{"f(na\xC3\xAFve.jsonl)=x"});
  EXPECT_EQ(ReadBody(Part("name=f; filename=\"\xFF\"", "x") + "--b--", 9).status().reason(),
            "invalid_utf8");
}

TEST(MultipartTest, MalformedBodiesAreRefused) {
  const std::string good = Part("name=a", "1");
  const std::vector<std::string> bad = {
      "",
      "--b",
      "--b\r\n",
      good,
      good + "--b",
      good + "--b-",
      "--c\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--c--",
      "--b\nContent-Disposition: form-data; name=a\n\n1\n--b--",
      "--b\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Disposition: form-data; name=a\r\n b\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; "
      "name=a\r\n\r\n1\r\n--b--",
      "--b\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: form-data; "
      "name=a\r\n\r\n1\r\n--b--",
      "--b\r\nX: " + std::string(9000, 'x') +
          "\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--",
      "--b\r\nX: " + std::string(20000, 'x'),
      "--b" + std::string(100, ' ') + "\r\n",
      "--b\r\nContent-Disposition: form-data; name=" + std::string(300, 'n') + "\r\n\r\n1\r\n--b--",
  };
  for (const std::string& body : bad) {
    for (const size_t piece : {size_t{1}, size_t{13}, body.size() + 1}) {
      const auto read = ReadBody(body, piece);
      EXPECT_EQ(read.status().reason(), "invalid_value") << body.substr(0, 100);
    }
  }
  std::string many;
  for (int i = 0; i < MultipartReader::kMaxParts; ++i) many += good;
  EXPECT_TRUE(ReadBody(many + "--b--", 64).ok());
  EXPECT_FALSE(ReadBody(many + good + "--b--", 64).ok());
}

TEST(MultipartTest, ASinkCanRefuseAPart) {
  Parts parts;
  parts.refused = "file";
  MultipartReader reader("b", &parts);
  EXPECT_EQ(reader.Feed(Part("name=file", "1")).param(), "file");
}

TEST(MultipartTest, TheBoundaryIsTheContentTypes) {
  EXPECT_EQ(*MultipartBoundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(*MultipartBoundary("Multipart/Form-Data;charset=utf-8; BOUNDARY=\"a b\""), "a b");
  EXPECT_EQ(MultipartBoundary("application/json").status().reason(), "unsupported_media_type");
  EXPECT_EQ(MultipartBoundary("").status().reason(), "unsupported_media_type");
  for (const char* type :
       {"multipart/form-data", "multipart/form-data; boundary", "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"", "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=\"a", "multipart/form-data; boundary=a{b"}) {
    EXPECT_EQ(MultipartBoundary(type).status().reason(), "invalid_value") << type;
  }
  EXPECT_FALSE(MultipartBoundary("multipart/form-data; boundary=" + std::string(71, 'a')).ok());
}

}  // namespace
}  // namespace tutti::protocol
