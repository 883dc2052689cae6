// Tensors of KServe v2 as JSON: the elements between `data` and raw bytes. Pure.
//
// Numbers are JSON numbers in the range of their type (3.0 is the integer 3), BOOL true or false,
// BYTES texts. FP16 and BF16 have no JSON form, as with Triton: they are sent as binary data.
// Source: the Open Inference Protocol, "Tensor Data".
#pragma once

#include <string>

#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

// Values of one request's JSON: what a tensor in it may have. Larger ones are sent as binary data.
inline constexpr size_t kMaxJsonValues = size_t{1} << 19;

// Appends the elements of `data` to tensor->data: a flat list, or lists nested as tensor->shape
// says. How many there must be is not checked here. Errors: invalid_value, naming the tensor.
Status ReadElements(const protocol::Json& data, Tensor* tensor);

// The shape that `value` has by itself: a scalar none, a list its length and that of its first
// element. At most kMaxDimensions + 1 numbers.
Shape ShapeOf(const protocol::Json& value);

// Writes the elements, which are as many as the shape says: a flat list, or where `scalar` is set
// and there is one element, that. Errors: invalid_value where they have no JSON form (FP16,
// NaN, bytes that are no text); then something unfinished has been written.
Status WriteElements(const Tensor& tensor, bool scalar, protocol::JsonWriter* json);
// At least what that takes, unless texts are full of escapes.
size_t EstimateElements(const Tensor& tensor);

// A parameter of a request. Errors: invalid_value for lists and objects.
Result<ParameterValue> ReadParameterValue(std::string_view name, const protocol::Json& value);
void WriteParameter(const std::string& name, const ParameterValue& value,
                    protocol::JsonWriter* json);

}  // namespace tutti::kserve
