#define TUTTI_ROW_OPS avx2
#include "sampling/row_ops_impl.inc"
