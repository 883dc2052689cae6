#include "app/control.h"

#include <ctime>

#include "services/auth/control.h"
#include "services/usage/control.h"

namespace tutti::app {

std::string AnswerControl(store::Store& store, auth::Authority& authority,
                          std::string_view request) {
  if (usage::IsUsageRequest(request)) return usage::HandleControl(store, request);
  return auth::HandleControl(authority, request, std::time(nullptr));
}

}  // namespace tutti::app
