// An Authenticator for tests: "secret of USER" is USER's password; a client without a password is
// the user named in its certificate.
#pragma once

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/mqtt/listener/authenticator.h"

namespace tutti::mqtt::listener::testing {

class FakeAuthenticator final : public Authenticator {
 public:
  void Check(Credentials credentials, Done done) override {
    asked.fetch_add(1);
    if (hold.load()) {
      const MutexLock lock(mutex_);
      held_.push_back([credentials = std::move(credentials), done = std::move(done)] {
        done(Answer(credentials));
      });
      return;
    }
    done(Answer(credentials));
  }
  bool MayStay(const Principal& principal) override {
    const MutexLock lock(mutex_);
    return !gone_.contains(principal.user);
  }
  void Forget(const std::string& user) {
    const MutexLock lock(mutex_);
    gone_.insert(user);
  }
  // Answers those that were held, on the calling thread.
  void AnswerHeld() {
    std::vector<std::function<void()>> held;
    {
      const MutexLock lock(mutex_);
      held.swap(held_);
    }
    for (const auto& answer : held) answer();
  }

  std::atomic<bool> hold{false};
  std::atomic<int> asked{0};

 private:
  static Result<Principal> Answer(const Credentials& credentials) {
    if (!credentials.password.has_value() && credentials.certificate.has_value())
      return UserPrincipal("llm/v1", credentials.certificate->name, "tenant");
    const std::string user = credentials.user_name.value_or("");
    if (user.empty() || credentials.password != "secret of " + user) {
      return Status(StatusCode::kUnauthenticated, "invalid_api_key", "wrong user or password");
    }
    return UserPrincipal("llm/v1", user, "tenant");
  }
  Mutex mutex_;
  std::vector<std::function<void()>> held_ GUARDED_BY(mutex_);
  std::set<std::string> gone_ GUARDED_BY(mutex_);
};

}  // namespace tutti::mqtt::listener::testing
