#include "grammar/schema_format.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/check.h"
#include "base/mutex.h"
#include "grammar/regex_parser.h"

namespace tutti::grammar {
namespace {

constexpr std::string_view kTimeOfDay = R"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])";
constexpr std::string_view kSecondFraction = R"((?:\.[0-9]{1,12})?)";
constexpr std::string_view kOffset = R"((?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))";

std::string Date() {
  const std::string leap_year =
      R"((?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00))";
  return R"((?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|)"
         R"((?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|)" +
         leap_year + "-02-29)";
}

// A leap second is the last second of a day in UTC, so the local time depends on the offset.
// Offsets are whole quarters of an hour, as all in use are: each other one would cost hundreds of
// states.
std::string LeapSecond() {
  std::string ways = "23:59:60" + std::string(kSecondFraction) + "[zZ]";
  const auto two = [](int value) {
    return std::string{static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
  };
  for (const int sign : {1, -1}) {
    for (int offset = 0; offset < 24 * 60; offset += 15) {
      const int local = (23 * 60 + 59 + sign * offset + 24 * 60) % (24 * 60);
      ways += "|" + two(local / 60) + ":" + two(local % 60) + ":60" + std::string(kSecondFraction) +
              (sign > 0 ? "\\+" : "-") + two(offset / 60) + ":" + two(offset % 60);
    }
  }
  return ways;
}

std::string Time() {
  return "(?:" + std::string(kTimeOfDay) + std::string(kSecondFraction) + std::string(kOffset) +
         "|" + LeapSecond() + ")";
}

std::string Duration() {
  const std::string n = "[0-9]{1,18}";
  const std::string time =
      "T(?:" + n + "H(?:" + n + "M(?:" + n + "S)?)?|" + n + "M(?:" + n + "S)?|" + n + "S)";
  return "P(?:(?:" + n + "D|" + n + "M(?:" + n + "D)?|" + n + "Y(?:" + n + "M(?:" + n +
         "D)?)?)(?:" + time + ")?|" + time + "|" + n + "W)";
}

constexpr std::string_view kLabel = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
constexpr std::string_view kOctet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

std::string Ipv4() {
  const std::string octet(kOctet);
  return octet + "(?:\\." + octet + "){3}";
}

// RFC 4291, section 2.2: eight groups, or fewer with one ::, the last two possibly as IPv4.
std::string Ipv6() {
  const std::string h = "[0-9a-fA-F]{1,4}";
  const std::string last = "(?:" + h + ":" + h + "|" + Ipv4() + ")";
  std::string ways = "(?:" + h + ":){6}" + last;
  const auto groups = [&](int most) {
    return most == 0 ? std::string()
                     : "(?:" + h + "(?::" + h + "){0," + std::to_string(most - 1) + "})?";
  };
  for (int before = 0; before <= 5; ++before) {
    const int behind = 5 - before;
    ways += "|" + groups(before) + "::(?:" + h + ":){" + std::to_string(behind) + "}" + last;
  }
  ways += "|" + groups(6) + "::" + h + "|" + groups(7) + "::";
  return "(?:" + ways + ")";
}

std::string Email() {
  const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string local =
      "(?:" + atom + "(?:\\." + atom + ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")";
  const std::string label(kLabel);
  return local + "@(?:" + label + "(?:\\." + label + "){0,30}|\\[" + Ipv4() +
         "\\]|\\[IPv6:" + Ipv6() + "\\])";
}

// RFC 3986, appendix A.
std::string Uri(bool reference) {
  const std::string hex = "%[0-9a-fA-F]{2}";
  const std::string unreserved = "a-zA-Z0-9._~\\-", sub = "!$&'()*+,;=";
  const std::string pchar = "(?:[" + unreserved + sub + ":@]|" + hex + ")";
  const std::string no_colon = "(?:[" + unreserved + sub + "@]|" + hex + ")";
  const std::string user = "(?:[" + unreserved + sub + ":]|" + hex + ")*@";
  const std::string name = "(?:[" + unreserved + sub + "]|" + hex + ")*";
  const std::string literal =
      "\\[(?:" + Ipv6() + "|[vV][0-9a-fA-F]+\\.[" + unreserved + sub + ":]+)\\]";
  const std::string authority = "(?:" + user + ")?(?:" + literal + "|" + name + ")(?::[0-9]*)?";
  const std::string segments = "(?:/" + pchar + "*)*";
  const std::string absolute = "/(?:" + pchar + "+" + segments + ")?";
  const std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  const std::string scheme = "[a-zA-Z][a-zA-Z0-9+.-]*:";
  const std::string uri = scheme + "(?://" + authority + segments + "|" + absolute + "|" + pchar +
                          "+" + segments + ")?" + tail;
  if (!reference) return uri;
  return "(?:" + uri + "|(?://" + authority + segments + "|" + absolute + "|" + no_colon + "+" +
         segments + ")?" + tail + ")";
}

std::string PatternOf(std::string_view name) {
  if (name == "date") return Date();
  if (name == "time") return Time();
  if (name == "date-time") return Date() + "[tT]" + Time();
  if (name == "duration") return Duration();
  if (name == "uuid") return "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
  if (name == "email") return Email();
  if (name == "hostname") return std::string(kLabel) + "(?:\\." + std::string(kLabel) + ")*";
  if (name == "ipv4") return Ipv4();
  if (name == "ipv6") return Ipv6();
  if (name == "uri") return Uri(/*reference=*/false);
  if (name == "uri-reference") return Uri(/*reference=*/true);
  if (name == "json-pointer") return "(?:/(?:[^~/]|~[01])*)*";
  if (name == "relative-json-pointer") return "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)";
  return "";
}

constexpr std::array<std::string_view, 13> kEnforcedFormats = {"date",
                                                               "time",
                                                               "date-time",
                                                               "duration",
                                                               "uuid",
                                                               "email",
                                                               "hostname",
                                                               "ipv4",
                                                               "ipv6",
                                                               "uri",
                                                               "uri-reference",
                                                               "json-pointer",
                                                               "relative-json-pointer"};
constexpr std::array<std::string_view, 6> kStandardFormats = {
    "idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "regex"};

std::shared_ptr<const Dfa> Compile(std::string_view name) {
  // These expressions are constants, not a client's, so the limit only catches mistakes in them.
  Budget budget({.work = 2'000'000'000, .bytes = size_t{1} << 30, .states = 1 << 20});
  Grammar grammar;
  const auto compile = [&](std::string_view pattern) {
    const Result<ExprId> body =
        ParseRegex(grammar, pattern, Spelling::kJson, RegexMatch::kWhole, budget);
    CHECK(body.ok());
    return Dfa::FromExpr(grammar, *body, budget);
  };
  std::shared_ptr<const Dfa> language = compile(PatternOf(name));
  if (name == "hostname") {  // RFC 1035, section 2.3.4: 253 characters as text
    const auto short_enough = compile("[a-zA-Z0-9.-]{1,253}");
    language = Dfa::Intersect(*language, *short_enough, budget);
  }
  CHECK(language != nullptr && !language->empty());
  return language;
}

}  // namespace

FormatKind KindOfFormat(std::string_view name) {
  const auto in = [&](const auto& list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (in(kEnforcedFormats)) return FormatKind::kEnforced;
  return in(kStandardFormats) ? FormatKind::kStandard : FormatKind::kUnknown;
}

std::shared_ptr<const Dfa> FormatLanguage(std::string_view name) {
  static Mutex mutex;
  static std::map<std::string, std::shared_ptr<const Dfa>, std::less<>> known;
  const MutexLock lock(mutex);
  const auto at = known.find(name);
  if (at != known.end()) return at->second;
  return known.emplace(std::string(name), Compile(name)).first->second;
}

}  // namespace tutti::grammar
