// CHECK: for beliefs about our own code. No byte from a client, a file, a broker or a peer may
// decide one: those are validated and answered with a Status. Stays on in every build.
#pragma once

#include <sstream>

namespace tutti::internal {

// Collects the streamed explanation; its destructor prints it and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

// Makes both arms of CHECK's conditional expression void; & binds looser than <<.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace tutti::internal

#define CHECK(condition)                            \
  __builtin_expect(static_cast<bool>(condition), 1) \
      ? static_cast<void>(0)                        \
      : ::tutti::internal::Voidify() &              \
            ::tutti::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define CHECK_EQ(a, b) CHECK((a) == (b)) << (a) << " vs " << (b) << " "
#define CHECK_LE(a, b) CHECK((a) <= (b)) << (a) << " vs " << (b) << " "
#define CHECK_LT(a, b) CHECK((a) < (b)) << (a) << " vs " << (b) << " "
#define CHECK_GE(a, b) CHECK((a) >= (b)) << (a) << " vs " << (b) << " "
#define CHECK_GT(a, b) CHECK((a) > (b)) << (a) << " vs " << (b) << " "
