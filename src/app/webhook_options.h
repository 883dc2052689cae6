// Webhook options from the settings.
#pragma once

#include "app/settings.h"
#include "base/status.h"
#include "services/webhooks/webhooks.h"

namespace tutti::app {

// Options for jobs.webhooks = "on". Errors: invalid_value (secret file not set, readable by others,
// or malformed).
Result<webhooks::Webhooks::Options> WebhookOptions(const Settings& settings);

}  // namespace tutti::app
