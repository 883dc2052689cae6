#define TUTTI_ROW_OPS avx512
#include "sampling/row_ops_impl.inc"
