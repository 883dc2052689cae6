// RowOps compiled for avx512. Nothing but the included bodies may stand here.
#include "sampling/row_ops.h"

namespace tutti::sampling::avx512 {
namespace {
#include "sampling/row_ops_impl.inc"
}  // namespace

extern const RowOps kOps;
const RowOps kOps = {"avx512", BlockMax, BlockExpSum, ExpRow};

}  // namespace tutti::sampling::avx512
