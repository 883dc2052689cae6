#define TUTTI_ROW_OPS baseline
#include "sampling/row_ops_impl.inc"
