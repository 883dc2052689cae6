// KernelTable: the operations of a forward pass, and the choice of their implementation.
//
// A KernelTable is a bundle of constant function pointers for one instruction set. It is picked
// once, when a model is loaded, and passed on; there is no process-wide "current" table. Tables are
// immutable and live for the process; any thread. Threads, shapes and bits of the operations:
// gemm.h, attention.h, rows.h, span_attention.h, recurrent.h.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/recurrent.h"
#include "kernels/rows.h"
#include "kernels/span_attention.h"

namespace tutti::kernels {

struct KernelTable {
  Isa isa;
  const GemmKernels& gemm;
  const AttentionKernels& attention;
  const RowKernels& rows;
  const SpanAttentionKernels& span_attention;
  const RecurrentKernels& recurrent;
};

// The best table, or the one named (`--isa`). An unknown or unsupported name is invalid_value, and
// the message lists what is supported here. The pointer is never null and lives for the process.
Result<const KernelTable*> SelectKernels(std::optional<std::string> forced = std::nullopt);

// The table of one instruction set, which must be among DetectIsas().
const KernelTable& KernelsFor(Isa isa);

}  // namespace tutti::kernels
