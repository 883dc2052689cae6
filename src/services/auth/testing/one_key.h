// OneKey: an authenticator with one configured key, or with none if `key` is empty. Stores nothing
// on disk. `certificates`: the names in client certificates are names of users.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/check.h"
#include "services/auth/account_tables.h"
#include "services/auth/authenticator.h"
#include "store/store.h"

namespace tutti::auth::testing {

class OneKey {
 public:
  explicit OneKey(const std::string& key = "", bool certificates = false) {
    const std::array tables = {kAuthTables};
    store_ = *store::Store::Open({}, tables);
    accounts_ = *Accounts::Open(store_.get());
    Authenticator::Options options;
    options.configured_key = key;
    options.client_certificates = certificates;
    authority_ = *Authenticator::Create(accounts_.get(), options);
  }
  // Adds a user without a usable password.
  void AddUser(const std::string& name, const Grant& grant = {}) {
    const Status made =
        accounts_->CreateUser({.name = name, .password_hash = "none", .grant = grant});
    CHECK(made.ok()) << made;
  }
  Authenticator& authority() { return *authority_; }
  Accounts& accounts() { return *accounts_; }

 private:
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Accounts> accounts_;
  std::unique_ptr<Authenticator> authority_;
};

}  // namespace tutti::auth::testing
