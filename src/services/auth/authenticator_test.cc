#include "services/auth/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "services/auth/testing/opened_store.h"
#include "services/auth/testing/signed_token.h"

namespace tutti::auth {
namespace {

using testing::kNow;
using testing::kQuick;

using ::testing::StartsWith;

class AuthenticatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Authenticator> Make(Authenticator::Options options) {
    if (options.hash.memory_kib == HashParameters().memory_kib) options.hash = kQuick;
    auto authority = Authenticator::Create(accounts_.get(), options);
    CHECK(authority.ok()) << authority.status();
    return *std::move(authority);
  }
  void AddUser(const std::string& name, const std::string& password,
               const HashParameters& parameters = kQuick) {
    const auto hash = HashPassword(password, parameters);
    ASSERT_TRUE(hash.ok());
    ASSERT_TRUE(accounts_->CreateUser({.name = name, .password_hash = *hash, .grant = {}}).ok());
  }
  static Result<PrincipalRef> Login(Authenticator& authority, const std::string& name,
                                    const std::string& password) {
    std::promise<Result<PrincipalRef>> result;
    authority.FromPassword(name, password,
                           [&](Result<PrincipalRef> who) { result.set_value(std::move(who)); });
    return result.get_future().get();
  }
  IssuedKey CreateKey(const std::string& name, std::optional<int64_t> expires_s = {}) {
    auto key = accounts_->CreateKey({.name = name, .grant = {}, .expires_s = expires_s}, kNow);
    CHECK(key.ok()) << key.status();
    return *std::move(key);
  }

  std::unique_ptr<store::Store> store_ = OpenedStore();
  std::unique_ptr<Accounts> accounts_ = *Accounts::Open(store_.get());
};

TEST_F(AuthenticatorTest, AKeyIsItsPrincipalUntilItIsRevoked) {
  const auto authority = Make({});
  const IssuedKey key = CreateKey("ci");
  const auto who = authority->FromBearer(key.text, kNow);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ((*who)->name, "ci");
  EXPECT_TRUE(authority->StillValid(**who, kNow).ok());
  EXPECT_EQ(accounts_->Keys()->front().used_s, kNow);
  ASSERT_TRUE(accounts_->RevokeKeys("ci", kNow).ok());
  EXPECT_EQ(authority->FromBearer(key.text, kNow).status().reason(), "key_revoked");
  EXPECT_EQ(authority->StillValid(**who, kNow).reason(), "key_revoked");
}

TEST_F(AuthenticatorTest, WhatIsNoKeyIsRefusedInTheSameWords) {
  const auto authority = Make({});
  std::string wrong = CreateKey("ci").text;
  wrong.back() = wrong.back() == 'A' ? 'B' : 'A';
  for (const std::string& text :
       {std::string(), std::string("x"), wrong, std::string(1 << 20, 'k'), std::string("a.b.c"),
        std::string("tutti-\0", 7), std::string("\xff\xfe")})
    EXPECT_EQ(authority->FromBearer(text, kNow).status(), NotAuthenticated());
}

TEST_F(AuthenticatorTest, TheKeyOfTheConfigurationStandsBesideThoseOfTheStore) {
  const auto authority = Make({.configured_key = "sk-test", .issuers = {}, .hash = {}, .pool = {}});
  const IssuedKey key = CreateKey("ci");
  const auto who = authority->FromBearer("sk-test", kNow);
  ASSERT_TRUE(who.ok());
  EXPECT_EQ((*who)->name, "configured");
  EXPECT_FALSE(Authorize(**who, RouteClass::kAdmin).ok());
  EXPECT_TRUE(authority->StillValid(**who, kNow).ok());
  EXPECT_TRUE(authority->FromBearer(key.text, kNow).ok());
  EXPECT_FALSE(authority->FromBearer("sk-tes", kNow).ok());
  EXPECT_FALSE(Make({})->FromBearer("", kNow).ok()) << "no key is no key";
}

TEST_F(AuthenticatorTest, ConfigureReplacesTheConfiguredKey) {
  const auto authority =
      Make({.configured_key = "sk-first", .issuers = {}, .hash = {}, .pool = {}});
  const auto first = authority->FromBearer("sk-first", kNow);
  ASSERT_TRUE(first.ok());
  Authenticator::Options options;
  options.configured_key = "sk-first";
  ASSERT_TRUE(authority->Configure(options).ok());
  EXPECT_TRUE(authority->StillValid(**first, kNow).ok()) << "an unchanged key stays valid";
  options.configured_key = "sk-second";
  ASSERT_TRUE(authority->Configure(options).ok());
  EXPECT_FALSE(authority->StillValid(**first, kNow).ok());
  EXPECT_FALSE(authority->FromBearer("sk-first", kNow).ok());
  EXPECT_TRUE(authority->FromBearer("sk-second", kNow).ok());
  EXPECT_TRUE(authority->IsOpenWith({}, /*loopback=*/true));
  EXPECT_FALSE(authority->IsOpen(/*loopback=*/true));
  JwtIssuer broken;
  broken.issuer = "i";
  options.configured_key = "sk-third";
  options.issuers = {broken};
  EXPECT_FALSE(authority->Configure(options).ok());
  EXPECT_TRUE(authority->FromBearer("sk-second", kNow).ok()) << "an error changes nothing";
  ASSERT_TRUE(authority->Configure({}).ok());
  EXPECT_TRUE(authority->IsOpen(/*loopback=*/true));
}

TEST_F(AuthenticatorTest, ASignedTokenIsTakenWhereItsIssuerIsTrusted) {
  const SigningKey signer(JwtAlgorithm::kEdDsa);
  const std::string token =
      signer.Token(R"({"iss":"i","sub":"ann","aud":"tutti","exp":1700000300})");
  EXPECT_FALSE(Make({})->FromBearer(token, kNow).ok());
  const auto authority = Make({.configured_key = "",
                               .issuers = {{.issuer = "i",
                                            .audience = "tutti",
                                            .algorithm = JwtAlgorithm::kEdDsa,
                                            .keys = {signer.public_text()},
                                            .tenant = "default",
                                            .tenant_claim = "",
                                            .scope_claim = ""}},
                               .hash = {},
                               .pool = {}});
  const auto who = authority->FromBearer(token, kNow);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ((*who)->name, "ann");
  EXPECT_TRUE(authority->StillValid(**who, kNow + 359).ok());
  EXPECT_FALSE(authority->StillValid(**who, kNow + 360).ok());
  EXPECT_TRUE(authority->FromBearer(CreateKey("ci").text, kNow).ok()) << "keys as before";
}

TEST_F(AuthenticatorTest, APasswordIsItsUsers) {
  const auto authority = Make({});
  AddUser("ann", "correct horse");
  const auto who = Login(*authority, "ann", "correct horse");
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ((*who)->kind, PrincipalKind::kUser);
  EXPECT_EQ((*who)->name, "ann");
  EXPECT_TRUE(authority->StillValid(**who, kNow).ok());
  const Status wrong = Login(*authority, "ann", "correct horsE").status();
  EXPECT_EQ(wrong.code(), StatusCode::kUnauthenticated);
  for (const char* name : {"bob", "", "Ann", "ann ", "\xff"})
    EXPECT_EQ(Login(*authority, name, "correct horse").status(), wrong) << name;
  EXPECT_EQ(Login(*authority, "ann", std::string(1 << 20, 'p')).status(), wrong);
  EXPECT_EQ(Login(*authority, "ann", "").status(), wrong);
}

TEST_F(AuthenticatorTest, RefusesDisabledAndRemovedUsersLikeAWrongPassword) {
  const auto authority = Make({});
  AddUser("ann", "correct horse");
  const PrincipalRef who = *Login(*authority, "ann", "correct horse");
  const Status wrong = Login(*authority, "ann", "x").status();
  ASSERT_TRUE(accounts_->EnableUser("ann", false).ok());
  EXPECT_EQ(Login(*authority, "ann", "correct horse").status(), wrong);
  EXPECT_FALSE(authority->StillValid(*who, kNow).ok());
  ASSERT_TRUE(accounts_->EnableUser("ann", true).ok());
  EXPECT_TRUE(Login(*authority, "ann", "correct horse").ok());
  ASSERT_TRUE(accounts_->RemoveUser("ann").ok());
  EXPECT_EQ(Login(*authority, "ann", "correct horse").status(), wrong);
  EXPECT_FALSE(authority->StillValid(*who, kNow).ok());
}

TEST_F(AuthenticatorTest, ACertificateIsItsUserAndNobodyElseIsToldApart) {
  Authenticator::Options options;
  options.client_certificates = true;
  const auto authority = Make(options);
  EXPECT_FALSE(authority->IsOpen(/*loopback=*/true)) << "whom they would name is to be known";
  AddUser("ann", "correct horse");
  const auto shown = [](const std::string& name) {
    return CertifiedName{.name = name, .expires_s = kNow + 10};
  };
  const auto who = authority->FromCertificate(shown("ann"), kNow + 9);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(*who, *Login(*authority, "ann", "correct horse")) << "one principal, however they came";
  const Status unknown = authority->FromCertificate(shown("bob"), kNow).status();
  const Status wrong = Login(*authority, "ann", "x").status();
  EXPECT_EQ(unknown.code(), wrong.code());
  EXPECT_EQ(unknown.reason(), wrong.reason());
  for (const std::string& name :
       {std::string(), std::string("Ann"), std::string("ann "), std::string("ann\0", 4)})
    EXPECT_EQ(authority->FromCertificate(shown(name), kNow).status(), unknown) << name;
  EXPECT_EQ(authority->FromCertificate(shown("ann"), kNow + 10).status(), unknown) << "too late";
  ASSERT_TRUE(accounts_->EnableUser("ann", false).ok());
  EXPECT_EQ(authority->FromCertificate(shown("ann"), kNow).status(), unknown);
  ASSERT_TRUE(accounts_->EnableUser("ann", true).ok());
  EXPECT_TRUE(authority->FromCertificate(shown("ann"), kNow).ok());
  ASSERT_TRUE(accounts_->RemoveUser("ann").ok());
  EXPECT_EQ(authority->FromCertificate(shown("ann"), kNow).status(), unknown);
}

TEST_F(AuthenticatorTest, WhereNoCertificatesAreAskedForNoneLetsAnybodyIn) {
  const auto authority = Make({});
  AddUser("ann", "correct horse");
  EXPECT_FALSE(authority->FromCertificate({.name = "ann", .expires_s = kNow + 10}, kNow).ok());
}

TEST_F(AuthenticatorTest, ALoginBringsAnOldHashToTheParametersOfToday) {
  AddUser("ann", "correct horse", {.memory_kib = 32, .passes = 1, .lanes = 1});
  const auto authority = Make({});
  EXPECT_FALSE(Login(*authority, "ann", "wrong horse!").ok());
  EXPECT_THAT(accounts_->Users()->front().password_hash, StartsWith("$argon2id$v=19$m=32,"));
  EXPECT_TRUE(Login(*authority, "ann", "correct horse").ok());
  EXPECT_THAT(accounts_->Users()->front().password_hash, StartsWith("$argon2id$v=19$m=64,"));
  EXPECT_TRUE(Login(*authority, "ann", "correct horse").ok());
}

TEST_F(AuthenticatorTest, ManyLoginsAtOnceAreAllAnsweredRightOrRefusedAsTooMany) {
  const auto authority = Make({});
  AddUser("ann", "correct horse", {.memory_kib = 32, .passes = 1, .lanes = 1});
  constexpr int kLogins = 1000;
  std::atomic<int> right = 0, refused = 0, faults = 0;
  for (int i = 0; i < kLogins; ++i) {
    const bool good = i % 2 == 0;
    authority->FromPassword("ann", good ? "correct horse" : "wrong horse!",
                            [&, good](const Result<PrincipalRef>& who) {
                              if (who.status().reason() == "overloaded") {
                                ++refused;
                              } else {
                                ++right;
                                // While the first of them rehashes, the others are not turned away.
                                if (who.ok() != good) ++faults;
                              }
                            });
  }
  while (right + refused < kLogins) std::this_thread::yield();
  EXPECT_EQ(faults, 0);
  EXPECT_GT(right, 0);
}

// Processor time of this process; unlike wall time it does not depend on other processes.
Duration ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Interleaved, and the medians compared: an answer without a hash would take a thousandth. Not the
// least: the time of the thread that hashes may be added to the process's only after its answer.
TEST_F(AuthenticatorTest, AnUnknownUserTakesAsMuchWorkAsAWrongPassword) {
  constexpr HashParameters kSlower{.memory_kib = 4096, .passes = 2, .lanes = 1};
  const auto authority =
      Make({.configured_key = "", .issuers = {}, .hash = kSlower, .pool = {.threads = 1}});
  AddUser("ann", "correct horse", kSlower);
  std::vector<double> times[2];
  for (int i = 0; i < 60; ++i) {
    const bool known = i % 2 == 0;
    const Duration begin = ProcessorTime();
    ASSERT_FALSE(Login(*authority, known ? "ann" : "bob", "wrong horse!").ok());
    times[known].push_back(ToMillis(ProcessorTime() - begin));
  }
  for (std::vector<double>& of_kind : times) std::sort(of_kind.begin(), of_kind.end());
  const double unknown = times[0][15], wrong = times[1][15];
  EXPECT_LT(unknown, 1.5 * wrong);
  EXPECT_LT(wrong, 1.5 * unknown);
}

TEST_F(AuthenticatorTest, TheServerIsOpenOnThisMachineUntilSomebodyIsKnown) {
  const auto authority = Make({});
  EXPECT_TRUE(authority->IsOpen(/*loopback=*/true));
  EXPECT_FALSE(authority->IsOpen(/*loopback=*/false));
  EXPECT_TRUE(authority->StillValid(*OpenPrincipal(), kNow).ok());
  CreateKey("ci");
  EXPECT_FALSE(authority->IsOpen(true));
  EXPECT_FALSE(authority->StillValid(*OpenPrincipal(), kNow).ok());
  ASSERT_TRUE(accounts_->RevokeKeys("ci", kNow).ok());
  EXPECT_FALSE(authority->IsOpen(true)) << "the last key's revocation opens nothing";
}

TEST_F(AuthenticatorTest, ItIsShutWhenAllItKnowsHasEnded) {
  const auto authority = Make({});
  EXPECT_FALSE(authority->IsShut(kNow)) << "it is open";
  CreateKey("ci");
  EXPECT_FALSE(authority->IsShut(kNow));
  ASSERT_TRUE(accounts_->RevokeKeys("ci", kNow).ok());
  EXPECT_TRUE(authority->IsShut(kNow));
  EXPECT_FALSE(Make({.configured_key = "k", .issuers = {}, .hash = {}, .pool = {}})->IsShut(kNow));
  AddUser("ann", "correct horse");
  EXPECT_FALSE(authority->IsShut(kNow));
}

TEST_F(AuthenticatorTest, AUserAKeyOfTheConfigurationAndAnIssuerCloseItToo) {
  EXPECT_FALSE(Make({.configured_key = "k", .issuers = {}, .hash = {}, .pool = {}})->IsOpen(true));
  const auto authority = Make({});
  AddUser("ann", "correct horse");
  EXPECT_FALSE(authority->IsOpen(true));
}

TEST_F(AuthenticatorTest, ARotatedKeyEndsForThoseWhoAreConnectedWithItToo) {
  const auto authority = Make({});
  const PrincipalRef who = *authority->FromBearer(CreateKey("ci").text, kNow);
  ASSERT_TRUE(accounts_->RotateKey("ci", 100, kNow).ok());
  EXPECT_TRUE(authority->StillValid(*who, kNow + 99).ok());
  EXPECT_FALSE(authority->StillValid(*who, kNow + 100).ok());
}

TEST_F(AuthenticatorTest, AnIssuerThatMakesNoSenseIsRefusedAtStart) {
  JwtIssuer issuer{.issuer = "i",
                   .audience = "a",
                   .algorithm = JwtAlgorithm::kHs256,
                   .keys = {"short"},
                   .tenant = "default",
                   .tenant_claim = "",
                   .scope_claim = ""};
  EXPECT_EQ(
      Authenticator::Create(accounts_.get(),
                            {.configured_key = "", .issuers = {issuer}, .hash = kQuick, .pool = {}})
          .status()
          .reason(),
      "invalid_value");
}

TEST_F(AuthenticatorTest, LoginsThatWaitAtTheEndAreTold) {
  std::atomic<int> answers = 0;
  {
    const auto authority = Make({.configured_key = "",
                                 .issuers = {},
                                 .hash = {.memory_kib = 4096, .passes = 2, .lanes = 1},
                                 .pool = {.threads = 1}});
    for (int i = 0; i < 50; ++i)
      authority->FromPassword("nobody", "wrong horse!", [&](const Result<PrincipalRef>& who) {
        EXPECT_FALSE(who.ok());
        ++answers;
      });
  }
  EXPECT_EQ(answers, 50);
}

}  // namespace
}  // namespace tutti::auth
