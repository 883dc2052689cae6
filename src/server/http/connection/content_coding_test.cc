#include "server/http/connection/content_coding.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::http {
namespace {

std::string Accepted(std::string_view field) {
  const std::optional<protocol::Coding> coding = AcceptedCoding(field);
  return coding.has_value() ? std::string(NameOf(*coding)) : "none";
}

TEST(ContentCoding, TheFirstThatIsAcceptedIsTaken) {
  EXPECT_EQ(Accepted("gzip"), "gzip");
  EXPECT_EQ(Accepted("deflate"), "deflate");
  EXPECT_EQ(Accepted("deflate, gzip"), "deflate");
  EXPECT_EQ(Accepted("br;q=1.0, GZIP;q=0.8, *;q=0.1"), "gzip");
  EXPECT_EQ(Accepted("gzip;q=0, deflate;q=0.001"), "deflate");
  EXPECT_EQ(Accepted("gzip ; q=0.000 ,\tdeflate\t; q=0"), "none");
  for (const char* field : {"", ",", ",,;;", "identity", "*", "gzipped", "x-gzip", ";q=1", "br"})
    EXPECT_EQ(Accepted(field), "none") << field;
}

TEST(ContentCoding, OneCodingOfABodyIsUnderstood) {
  EXPECT_EQ(ParseCoding("gzip")->coding, protocol::Coding::kGzip);
  EXPECT_EQ(ParseCoding("Deflate")->coding, protocol::Coding::kDeflate);
  EXPECT_FALSE(ParseCoding("identity")->coding.has_value());
  for (const char* field : {"", "br", "gzip, gzip", "gzip,identity", "zstd"})
    EXPECT_FALSE(ParseCoding(field).has_value()) << field;
}

TEST(ContentCoding, AnInflatedBodyIsBoundedByRatioLimitAndMemory) {
  MemoryBudget budget(2000);
  std::string storage;
  const auto read = [&](const std::string& plain, size_t most) {
    BudgetShare share(&budget);
    const std::string body = *protocol::Deflate(protocol::Coding::kGzip, plain);
    const Result<std::string_view> text =
        BodyText({protocol::Coding::kGzip}, body, most, &share, &storage);
    return text.ok() ? std::string(*text) : text.status().reason();
  };
  EXPECT_EQ(read("plain text", 100), "plain text");
  EXPECT_EQ(read("plain text", 9), "request_too_large");
  EXPECT_EQ(read(std::string(5000, 'x'), 900), "request_too_large");
  EXPECT_EQ(read(std::string(5000, 'x'), 6000), "request_too_large")
      << "sixty bytes or so may become twenty times that";
  std::string mixed;
  for (int i = 0; i < 300; ++i) mixed += static_cast<char>(i * i * 37 / 11);
  EXPECT_EQ(read(mixed, 3000), "overloaded") << "if they may";
  EXPECT_EQ(budget.used(), 0);
  BudgetShare none(&budget);
  EXPECT_EQ(*BodyText({}, "as it is", 3, &none, &storage), "as it is");
}

}  // namespace
}  // namespace tutti::http
