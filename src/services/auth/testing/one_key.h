// An authority that knows one key, or nobody, for whatever asks one. Keeps nothing.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/check.h"
#include "services/auth/authority.h"
#include "services/auth/tables.h"
#include "store/store.h"

namespace tutti::auth::testing {

class OneKey {
 public:
  explicit OneKey(const std::string& key = "") {
    const std::array tables = {kAuthTables};
    store_ = *store::Store::Open({}, tables);
    accounts_ = *Accounts::Open(store_.get());
    Authority::Options options;
    options.configured_key = key;
    authority_ = *Authority::Create(accounts_.get(), options);
  }
  Authority& authority() { return *authority_; }
  Accounts& accounts() { return *accounts_; }

 private:
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Accounts> accounts_;
  std::unique_ptr<Authority> authority_;
};

}  // namespace tutti::auth::testing
