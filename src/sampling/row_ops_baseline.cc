// RowOps compiled for baseline. Nothing but the included bodies may stand here.
#include "sampling/row_ops.h"

namespace tutti::sampling::baseline {
namespace {
#include "sampling/row_ops_impl.inc"
}  // namespace

extern const RowOps kOps;
const RowOps kOps = {"baseline", BlockMax, BlockExpSum, ExpRow};

}  // namespace tutti::sampling::baseline
