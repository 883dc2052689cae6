#include <gtest/gtest.h>

#include <string>

#include "app/conversation_log.h"
#include "base/random.h"

namespace tutti::app {
namespace {

TEST(Redact, SecretsAreMaskedAndTheWordsAroundThemStay) {
  const struct {
    const char* said;
    const char* shown;
  } cases[] = {
      {"", ""},
      {"Name three rivers.", "Name three rivers."},
      {"my key is sk-prod_ab12_Zm9vYmFyYmF6, keep it", "my key is ***, keep it"},
      {"Authorization: Bearer abc.def-1", "Authorization: Bearer ***"},
      {"bearer of bad news", "bearer *** bad news"},
      {"password: hunter2 and more", "password: *** and more"},
      {"my password is hunter2.", "my password is ***"},
      {"{\"password\": \"a b c\", \"x\": 1}", "{\"password\": \"***\", \"x\": 1}"},
      {"API_KEY=xyz;rest", "API_KEY=***;rest"},
      {"the token bucket refills", "the token bucket refills"},
      {"secret='it is'!", "secret='***'!"},
      {"eyJhbGciOi.eyJzdWIiOi.c2ln ok", "*** ok"},
      {"card 4111 1111 1111 1111 thanks", "card *** thanks"},
      {"4111-1111-1111-1111", "***"},
      {"call 555 123 4567 now", "call 555 123 4567 now"},
      {"in 2024 there were 1000000 of them", "in 2024 there were 1000000 of them"},
      {"hash 9f86d081884c7d659a2feaa0c55ad015", "hash ***"},
      {"https://example.org/a/very/long/path/of/words",
       "https://example.org/a/very/long/path/of/words"},
      {"Donaudampfschifffahrtsgesellschaft", "Donaudampfschifffahrtsgesellschaft"},
      {"x -----BEGIN RSA PRIVATE KEY-----\nMIIB\nabc\n-----END RSA PRIVATE KEY----- y", "x *** y"},
      {"-----BEGIN PRIVATE KEY-----\nMIIB", "***"},
      {"-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"},
      {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
  };
  for (const auto& each : cases) EXPECT_EQ(Redact(each.said), each.shown) << each.said;
}

TEST(Redact, AnyTextIsTakenAndNoneGrowsMuch) {
  Random rng(7);
  constexpr std::string_view kBytes = "sk-ey.J0123456789 \"':=-\nBbearer password\xff\x00";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = rng.Below(40); n > 0; --n) text += kBytes[rng.Below(kBytes.size())];
    EXPECT_LE(Redact(text).size(), 3 * text.size());
  }
}

}  // namespace
}  // namespace tutti::app
