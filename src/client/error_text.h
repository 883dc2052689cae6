// The error message of another vendor's server: reads the forms in which OpenAI-compatible servers
// report errors, in a body or in an event. Pure.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tutti::client {

// Empty: `answer` is no error.
std::string ErrorText(const boost::json::value& answer);

}  // namespace tutti::client
