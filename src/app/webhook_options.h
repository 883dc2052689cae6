// What the settings say of webhooks.
#pragma once

#include "app/settings.h"
#include "base/status.h"
#include "services/webhooks/webhooks.h"

namespace tutti::app {

// Of jobs.webhooks = "on". Errors: invalid_value: no file of secrets, one that others may read, or
// what is in it.
Result<webhooks::Webhooks::Options> WebhookOptions(const Settings& settings);

}  // namespace tutti::app
