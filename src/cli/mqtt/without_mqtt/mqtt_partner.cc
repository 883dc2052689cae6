// In place of ../mqtt_partner.cc in builds without MQTT.
#include "cli/chat_partner.h"

namespace tutti::cli {

Result<std::unique_ptr<ChatPartner>> MakeMqttPartner(const MqttPartnerOptions&, const std::string&,
                                                     const SamplingOptions&) {
  return InvalidArgument("not_built",
                         "this program was built without `tutti chat --mqtt` (TUTTI_MQTT=OFF); "
                         "`make build` makes one with it");
}

}  // namespace tutti::cli
