#include "services/auth/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "services/auth/testing/opened_store.h"
#include "services/auth/testing/signed_token.h"

namespace tutti::auth {
namespace {

using testing::kNow;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr JwtAlgorithm kAll[] = {JwtAlgorithm::kHs256, JwtAlgorithm::kRs256, JwtAlgorithm::kEs256,
                                 JwtAlgorithm::kEdDsa};

JwtIssuer IssuerWith(JwtAlgorithm algorithm, const SigningKey& key) {
  return {.issuer = "https://id.example",
          .audience = "tutti",
          .algorithm = algorithm,
          .keys = {key.public_text()},
          .tenant = "default",
          .tenant_claim = "",
          .scope_claim = ""};
}

std::vector<JwtVerifier> VerifierOf(const JwtIssuer& issuer) {
  auto verifier = JwtVerifier::Create(issuer);
  CHECK(verifier.ok()) << verifier.status();
  return {*std::move(verifier)};
}

// Valid claims, followed by `more`; a repeated name is an error of its own.
std::string Claims(const std::string& more = "") {
  return R"({"iss":"https://id.example","sub":"ann","aud":"tutti","exp":)" +
         std::to_string(kNow + 300) + more + "}";
}

class JwtTest : public ::testing::TestWithParam<JwtAlgorithm> {
 protected:
  Result<PrincipalRef> Verify(const std::string& token, int64_t now_s = kNow) {
    return VerifyJwt(token, verifiers_, now_s);
  }

  const SigningKey key_{GetParam()};
  std::vector<JwtVerifier> verifiers_ = VerifierOf(IssuerWith(GetParam(), key_));
};

INSTANTIATE_TEST_SUITE_P(Algorithms, JwtTest, ::testing::ValuesIn(kAll), [](const auto& param) {
  return std::string(JwtAlgorithmName(param.param));
});

TEST_P(JwtTest, ATokenOfItsIssuerIsItsSubject) {
  const auto who = Verify(key_.Token(Claims()));
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ((*who)->kind, PrincipalKind::kToken);
  EXPECT_EQ((*who)->name, "ann");
  EXPECT_EQ((*who)->id, "https://id.example|ann");
  EXPECT_EQ((*who)->grant, Grant());
  EXPECT_EQ((*who)->expires_s, kNow + 300 + kJwtLeewayS);
}

TEST_P(JwtTest, WhatAnotherKeySignedIsRefused) {
  EXPECT_FALSE(Verify(SigningKey(GetParam()).Token(Claims())).ok());
}

TEST_P(JwtTest, NoneIsNoAlgorithmAndNeitherIsAnotherOne) {
  for (const char* alg : {"none", "None", "NONE", "", "HS512", "hs256", "RS512", "PS256"}) {
    const std::string header = R"({"alg":")" + std::string(alg) + "\"}";
    EXPECT_FALSE(Verify(key_.Token(header, Claims())).ok()) << alg;
    const std::string text = Base64url(header) + "." + Base64url(Claims());
    EXPECT_FALSE(Verify(text + ".").ok()) << alg;
  }
  for (const char* header : {"{}", R"({"alg":null})", R"({"alg":["RS256"]})", R"({"typ":"JWT"})"})
    EXPECT_FALSE(Verify(key_.Token(header, Claims())).ok()) << header;
}

TEST_P(JwtTest, RefusesAnotherAlgorithmEvenWithACorrectSignature) {
  for (const JwtAlgorithm alg : kAll) {
    const std::string header = R"({"alg":")" + std::string(JwtAlgorithmName(alg)) + "\"}";
    EXPECT_EQ(Verify(key_.Token(header, Claims())).ok(), alg == GetParam());
  }
}

// The public key's text must not be accepted as an HMAC secret, with any `alg` in the header.
TEST_P(JwtTest, APublicKeyIsNotTakenForASecret) {
  if (GetParam() == JwtAlgorithm::kHs256) return;
  for (const char* alg : {"HS256", "RS256", "ES256", "EdDSA"}) {
    const std::string text =
        Base64url(R"({"alg":")" + std::string(alg) + "\"}") + "." + Base64url(Claims());
    EXPECT_FALSE(Verify(text + "." + Base64url(HmacOf(key_.public_text(), text))).ok()) << alg;
  }
}

TEST_P(JwtTest, EveryByteOfATokenCounts) {
  const std::string token = key_.Token(Claims());
  ASSERT_TRUE(Verify(token).ok());
  for (size_t i = 0; i < token.size(); ++i) {
    std::string wrong = token;
    wrong[i] = wrong[i] == 'A' ? 'Q' : 'A';
    EXPECT_FALSE(Verify(wrong).ok()) << i;
  }
  for (size_t size = 0; size < token.size(); ++size)
    EXPECT_FALSE(Verify(token.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Verify(token + "A").ok());
  EXPECT_FALSE(Verify(token + "=").ok());
  EXPECT_FALSE(Verify(token + ".").ok());
}

TEST_P(JwtTest, RandomTextsAreRefused) {
  Random random(11);
  const std::string token = key_.Token(Claims());
  for (int i = 0; i < 300; ++i) {
    std::string wrong = token;
    for (uint64_t n = random.Between(1, 5); n > 0; --n)
      wrong[random.Below(wrong.size())] = static_cast<char>(random.Below(256));
    if (wrong != token) {
      EXPECT_FALSE(Verify(wrong).ok()) << i;
    }
  }
}

// Checks that do not depend on the algorithm.
class JwtClaimsTest : public ::testing::Test {
 protected:
  Result<PrincipalRef> Verify(const std::string& claims, int64_t now_s = kNow) {
    return VerifyJwt(key_.Token(claims), VerifierOf(issuer_), now_s);
  }
  static std::string Without(const std::string& member) {
    std::string claims = Claims();
    const size_t at = claims.find("\"" + member + "\"");
    claims.insert(at + 1, "x-");
    return claims;
  }

  const SigningKey key_{JwtAlgorithm::kHs256};
  JwtIssuer issuer_ = IssuerWith(JwtAlgorithm::kHs256, key_);
};

TEST_F(JwtClaimsTest, EachOfTheFourIsDemanded) {
  ASSERT_TRUE(Verify(Claims()).ok());
  for (const char* member : {"iss", "sub", "aud", "exp"})
    EXPECT_EQ(Verify(Without(member)).status().reason(), "invalid_api_key") << member;
}

TEST_F(JwtClaimsTest, TimesAreKeptWithAMinuteOfLeeway) {
  EXPECT_TRUE(Verify(Claims(), kNow + 300 + 59).ok());
  const Status late = Verify(Claims(), kNow + 300 + 60).status();
  EXPECT_EQ(late.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(late.message(), HasSubstr("expired"));
  const std::string later = Claims(R"(,"nbf":)" + std::to_string(kNow + 1000));
  EXPECT_TRUE(Verify(later, kNow + 940).ok() == false) << "it expires before it begins";
  const std::string soon = Claims(R"(,"nbf":)" + std::to_string(kNow + 100));
  EXPECT_FALSE(Verify(soon, kNow + 39).ok());
  EXPECT_TRUE(Verify(soon, kNow + 40).ok());
}

TEST_F(JwtClaimsTest, TimesThatAreNoneAreRefused) {
  for (const char* exp : {"\"1700000300\"", "null", "-1", "1e300", "[]", "true",
                          "99999999999999999999", "18446744073709551615"}) {
    EXPECT_FALSE(
        Verify(std::string(R"({"iss":"https://id.example","sub":"ann","aud":"tutti","exp":)") +
               exp + "}")
            .ok())
        << exp;
  }
  EXPECT_TRUE(
      Verify(R"({"iss":"https://id.example","sub":"ann","aud":"tutti","exp":1700000300.5})").ok());
  EXPECT_FALSE(Verify(Claims(R"(,"nbf":"soon")")).ok());
}

TEST_F(JwtClaimsTest, TheAudienceIsThisServerOrAListWithIt) {
  const auto with = [](const std::string& aud) {
    return R"({"iss":"https://id.example","sub":"ann","exp":1700000300,"aud":)" + aud + "}";
  };
  EXPECT_TRUE(Verify(with(R"(["other","tutti"])")).ok());
  for (const char* aud : {R"("other")", R"("tutti2")", R"("Tutti")", "[]", R"(["other"])", "7",
                          R"({"a":"tutti"})", R"([["tutti"]])"})
    EXPECT_FALSE(Verify(with(aud)).ok()) << aud;
}

TEST_F(JwtClaimsTest, ASubjectIsAShortTextWithoutControlCharacters) {
  const auto with = [](const std::string& sub) {
    return R"({"iss":"https://id.example","aud":"tutti","exp":1700000300,"sub":)" + sub + "}";
  };
  EXPECT_TRUE(Verify(with("\"" + std::string(256, 's') + "\"")).ok());
  for (const std::string& sub :
       {std::string("\"\""), "\"" + std::string(257, 's') + "\"", std::string(R"("a\nb")"),
        std::string(R"("a\u0000")"), std::string("7"), std::string("null")})
    EXPECT_FALSE(Verify(with(sub)).ok()) << sub;
}

TEST_F(JwtClaimsTest, WhatIsMarkedCriticalIsNotUnderstoodAndRefused) {
  EXPECT_TRUE(
      VerifyJwt(key_.Token(R"({"alg":"HS256","kid":"7"})", Claims()), VerifierOf(issuer_), kNow)
          .ok());
  EXPECT_FALSE(VerifyJwt(key_.Token(R"({"alg":"HS256","crit":["exp"]})", Claims()),
                         VerifierOf(issuer_), kNow)
                   .ok());
}

TEST_F(JwtClaimsTest, RepeatedMembersDeepAndLongTokensAreRefused) {
  EXPECT_FALSE(Verify(Claims(R"(,"sub":"root")")).ok());
  EXPECT_FALSE(Verify(Claims(R"(,"x":)" + std::string(100, '[') + std::string(100, ']'))).ok());
  EXPECT_TRUE(Verify(Claims(R"(,"x":")" + std::string(4000, 'x') + "\"")).ok());
  EXPECT_FALSE(Verify(Claims(R"(,"x":")" + std::string(8000, 'x') + "\"")).ok());
  EXPECT_FALSE(Verify("[]").ok());
  EXPECT_FALSE(Verify("7").ok());
  EXPECT_FALSE(Verify("{").ok());
}

TEST_F(JwtClaimsTest, TheTenantIsTheConfiguredClaimsOrTheIssuers) {
  issuer_.tenant = "house";
  EXPECT_EQ((*Verify(Claims(R"(,"org":"acme")")))->grant.tenant, "house");
  issuer_.tenant_claim = "org";
  EXPECT_EQ((*Verify(Claims(R"(,"org":"acme")")))->grant.tenant, "acme");
  EXPECT_EQ((*Verify(Claims()))->grant.tenant, "house");
  for (const char* bad : {R"("a/b")", R"("")", "7", "null", R"(["acme"])"})
    EXPECT_FALSE(Verify(Claims(std::string(R"(,"org":)") + bad)).ok()) << bad;
}

TEST_F(JwtClaimsTest, ScopesAreTheWordsThatAreMeantForUs) {
  issuer_.scope_claim = "scope";
  const auto scopes = [&](const std::string& value) {
    const auto who = Verify(Claims(R"(,"scope":)" + value));
    CHECK(who.ok()) << who.status();
    return (*who)->grant.scopes;
  };
  const Scopes some = scopes(R"("openid tutti:embed  tutti:tokenize tutti:model:m tutti:later")");
  EXPECT_TRUE(some.routes.Has(RouteClass::kEmbed));
  EXPECT_TRUE(some.routes.Has(RouteClass::kTokenize));
  EXPECT_FALSE(some.routes.Has(RouteClass::kGenerate));
  EXPECT_THAT(some.models, ElementsAre("m"));
  EXPECT_EQ(scopes(R"(["tutti:embed","tutti:tokenize","tutti:model:m"])"), some);
  EXPECT_TRUE(scopes(R"("tutti:admin")").routes.Has(RouteClass::kAdmin));
  // No scope of this server: only health is allowed.
  for (const char* none : {R"("openid email")", R"("")", "[]", R"("embed")"})
    EXPECT_EQ(scopes(none).routes, RouteClasses()) << none;
  EXPECT_EQ((*Verify(Claims()))->grant.scopes.routes, RouteClasses());
  for (const char* bad : {"7", "[7]", R"("tutti:model:")", R"({"a":1})"})
    EXPECT_FALSE(Verify(Claims(std::string(R"(,"scope":)") + bad)).ok()) << bad;
}

TEST(Jwt, EveryIssuerIsCheckedWithItsOwnKey) {
  const SigningKey first(JwtAlgorithm::kEs256), second(JwtAlgorithm::kEdDsa);
  JwtIssuer other = IssuerWith(JwtAlgorithm::kEdDsa, second);
  other.issuer = "https://other.example";
  std::vector<JwtVerifier> verifiers = VerifierOf(IssuerWith(JwtAlgorithm::kEs256, first));
  verifiers.push_back(VerifierOf(other).front());
  std::string claims = Claims();
  EXPECT_TRUE(VerifyJwt(first.Token(claims), verifiers, kNow).ok());
  EXPECT_FALSE(VerifyJwt(second.Token(claims), verifiers, kNow).ok());
  claims.replace(claims.find("id."), 3, "other.");
  EXPECT_TRUE(VerifyJwt(second.Token(claims), verifiers, kNow).ok());
  EXPECT_FALSE(VerifyJwt(first.Token(claims), verifiers, kNow).ok());
  EXPECT_FALSE(VerifyJwt(first.Token(claims), {}, kNow).ok());
}

TEST(Jwt, AnIssuerMayHaveSeveralKeysWhileItChangesThem) {
  const SigningKey before(JwtAlgorithm::kRs256), after(JwtAlgorithm::kRs256);
  JwtIssuer issuer = IssuerWith(JwtAlgorithm::kRs256, before);
  issuer.keys.push_back(after.public_text());
  EXPECT_TRUE(VerifyJwt(before.Token(Claims()), VerifierOf(issuer), kNow).ok());
  EXPECT_TRUE(VerifyJwt(after.Token(Claims()), VerifierOf(issuer), kNow).ok());
}

TEST(Jwt, AKeyThatDoesNotFitItsAlgorithmIsRefusedAtStart) {
  const SigningKey rsa(JwtAlgorithm::kRs256), weak(JwtAlgorithm::kRs256, 1024);
  const SigningKey ec(JwtAlgorithm::kEs256), ed(JwtAlgorithm::kEdDsa);
  const auto refused = [](JwtAlgorithm algorithm, const std::string& text) {
    return JwtKey::Create(algorithm, text).status().reason() == "invalid_value";
  };
  EXPECT_TRUE(refused(JwtAlgorithm::kRs256, weak.public_text()));
  EXPECT_TRUE(refused(JwtAlgorithm::kRs256, ec.public_text()));
  EXPECT_TRUE(refused(JwtAlgorithm::kEs256, ed.public_text()));
  EXPECT_TRUE(refused(JwtAlgorithm::kEdDsa, rsa.public_text()));
  EXPECT_TRUE(refused(JwtAlgorithm::kHs256, rsa.public_text())) << "a public key is no secret";
  EXPECT_TRUE(refused(JwtAlgorithm::kHs256, std::string(31, 's')));
  EXPECT_TRUE(refused(JwtAlgorithm::kRs256, ""));
  EXPECT_TRUE(refused(JwtAlgorithm::kRs256, "-----BEGIN PUBLIC KEY-----\nxx\n"));
  JwtIssuer issuer = IssuerWith(JwtAlgorithm::kRs256, rsa);
  issuer.keys.clear();
  EXPECT_FALSE(JwtVerifier::Create(issuer).ok());
  issuer = IssuerWith(JwtAlgorithm::kRs256, rsa);
  issuer.audience.clear();
  EXPECT_FALSE(JwtVerifier::Create(issuer).ok()) << "tokens for others would be taken";
  issuer = IssuerWith(JwtAlgorithm::kRs256, rsa);
  issuer.issuer = std::string(kMaxIssuerBytes, 'i');
  EXPECT_TRUE(JwtVerifier::Create(issuer).ok());
  issuer.issuer += 'i';
  EXPECT_FALSE(JwtVerifier::Create(issuer).ok()) << "limits could not count its callers";
}

std::string Decoded(std::string_view text) { return DecodeBase64url(text).value(); }

std::string PemFrom(const std::string& der) {
  std::string text = Base64url(der);
  for (char& c : text) c = c == '-' ? '+' : c == '_' ? '/' : c;
  while (text.size() % 4 != 0) text += '=';
  std::string pem = "-----BEGIN PUBLIC KEY-----\n";
  for (size_t i = 0; i < text.size(); i += 64) pem += text.substr(i, 64) + "\n";
  return pem + "-----END PUBLIC KEY-----\n";
}

constexpr std::string_view kPayload =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlf"
    "Q";

// RFC 7515 A.1.
TEST(Jwt, AgreesWithThePublishedExampleOfHs256) {
  const auto key =
      JwtKey::Create(JwtAlgorithm::kHs256,
                     Decoded("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0"
                             "iPS4hcgUuTwjAzZr1Z9CAow"));
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string text = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + std::string(kPayload);
  EXPECT_TRUE(key->Verifies(text, Decoded("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")));
  EXPECT_FALSE(key->Verifies(text + "x", Decoded("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")));
}

// RFC 7515 A.3.
TEST(Jwt, AgreesWithThePublishedExampleOfEs256) {
  const std::string der = std::string(
                              "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08"
                              "\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04",
                              27) +
                          Decoded("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU") +
                          Decoded("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
  const auto key = JwtKey::Create(JwtAlgorithm::kEs256, PemFrom(der));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_TRUE(key->Verifies("eyJhbGciOiJFUzI1NiJ9." + std::string(kPayload),
                            Decoded("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISl"
                                    "SApmWQxfKTUJqPP3-Kg6NU1Q")));
}

// RFC 8037 A.4.
TEST(Jwt, AgreesWithThePublishedExampleOfEd25519) {
  const std::string der = std::string("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12) +
                          Decoded("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
  const auto key = JwtKey::Create(JwtAlgorithm::kEdDsa, PemFrom(der));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_TRUE(key->Verifies(
      "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
      Decoded("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0K"
              "Ag")));
}

}  // namespace
}  // namespace tutti::auth
