#include "protocol/load.h"

namespace tutti::protocol {

void WriteLoad(const api::LoadSnapshot& load, JsonWriter* json) {
  json->BeginObject()
      .Member("server_load", load.running + load.waiting)
      .Member("running", load.running)
      .Member("waiting", load.waiting)
      .Member("lanes", load.max_num_seqs)  // the older name
      .Member("max_num_seqs", load.max_num_seqs)
      .Member("kv_blocks_used", load.kv_blocks_used)
      .Member("kv_blocks_total", load.kv_blocks_total)
      .Member("level", api::LoadLevelName(load.level))
      .EndObject();
}

}  // namespace tutti::protocol
