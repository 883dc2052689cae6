#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/auth/password.h"
#include "services/auth/testing/opened_store.h"

namespace tutti::auth {
namespace {

using testing::kQuick;

using ::testing::StartsWith;

std::string Hash(const std::string& password, const HashParameters& parameters = kQuick) {
  const Result<std::string> hash = HashPassword(password, parameters);
  CHECK(hash.ok()) << hash.status();
  return *hash;
}

TEST(PasswordHash, IsTheOneOfItsPasswordAlone) {
  const std::string hash = Hash("correct horse");
  EXPECT_THAT(hash, StartsWith("$argon2id$v=19$m=64,t=1,p=1$"));
  EXPECT_TRUE(*VerifyPassword("correct horse", hash));
  for (const char* wrong : {"", "correct horsE", "correct horse ", "correct"})
    EXPECT_FALSE(*VerifyPassword(wrong, hash)) << wrong;
  EXPECT_NE(Hash("correct horse"), hash) << "each has a salt of its own";
}

TEST(PasswordHash, EveryByteOfALongPasswordCounts) {
  std::string password(kMaxPasswordBytes, 'a');
  const std::string hash = Hash(password);
  EXPECT_TRUE(*VerifyPassword(password, hash));
  password.back() = 'b';
  EXPECT_FALSE(*VerifyPassword(password, hash));
  EXPECT_TRUE(*VerifyPassword(std::string("a\0b", 3), Hash(std::string("a\0b", 3))));
  EXPECT_FALSE(*VerifyPassword("a", Hash(std::string("a\0b", 3)))) << "a zero ends nothing";
}

// Made by the reference program: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1.
TEST(PasswordHash, AgreesWithTheReferenceProgram) {
  const std::string known =
      "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
  EXPECT_TRUE(*VerifyPassword("password", known));
  EXPECT_FALSE(*VerifyPassword("passwore", known));
}

TEST(PasswordHash, TheDefaultIsWithinTheAdviceForArgon2id) {
  const HashParameters parameters;
  EXPECT_GE(parameters.memory_kib, 19U << 10);
  EXPECT_LE(parameters.memory_kib, 64U << 10);
  EXPECT_GE(parameters.passes, 2U);
  EXPECT_TRUE(*VerifyPassword("correct horse", Hash("correct horse", parameters)));
}

TEST(PasswordHash, OneOfOtherParametersIsToBeMadeAnew) {
  EXPECT_FALSE(NeedsRehash(Hash("correct horse"), kQuick));
  EXPECT_TRUE(NeedsRehash(Hash("correct horse"), {.memory_kib = 65, .passes = 1, .lanes = 1}));
  EXPECT_TRUE(NeedsRehash(Hash("correct horse"), {.memory_kib = 64, .passes = 2, .lanes = 1}));
}

TEST(PasswordHash, TheHashOfNobodyIsComputedAndNeverRight) {
  const std::string nobody = HashOfNobody(kQuick);
  EXPECT_EQ(nobody.size(), Hash("correct horse").size());
  EXPECT_FALSE(NeedsRehash(nobody, kQuick));
  for (const char* password : {"", "A", "correct horse"})
    EXPECT_FALSE(*VerifyPassword(password, nobody));
}

TEST(PasswordHash, WhatNobodyMadeHereIsNotComputed) {
  for (const char* bad : {"", "x", "$argon2id$", "$argon2i$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAA",
                          "$argon2id$v=19$m=4294967295,t=1,p=1$c29tZXNhbHQ$AAAA",
                          "$argon2id$v=19$m=64,t=4000000000,p=1$c29tZXNhbHQ$AAAA",
                          "$argon2id$v=19$m=64,t=1,p=9999$c29tZXNhbHQ$AAAA"})
    EXPECT_EQ(VerifyPassword("p", bad).status().reason(), "record_corrupt") << bad;
}

TEST(PasswordHash, PasswordsAreLongEnoughAndCanBeTyped) {
  EXPECT_TRUE(CheckNewPassword(std::string(12, 'a')).ok());
  EXPECT_TRUE(CheckNewPassword("gr\xc3\xbc\xc3\x9f dich Gott").ok());
  for (const std::string& bad : {std::string(11, 'a'), std::string(1025, 'a'), std::string(),
                                 std::string("twelve\nletters"), std::string(12, '\0')})
    EXPECT_EQ(CheckNewPassword(bad).param(), "password");
}

}  // namespace
}  // namespace tutti::auth
