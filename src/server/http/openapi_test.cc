#include "server/http/openapi.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "protocol/json/json.h"
#include "server/http/routes.h"

namespace tutti::http {
namespace {

using protocol::Json;

class OpenApiTest : public ::testing::Test {
 protected:
  OpenApiTest() : document_(*protocol::ParseJson(OpenApiDocument("1.2.3"), 1 << 20)) {}
  const Json& root() const { return document_.root(); }
  const protocol::JsonObject& At(const Json& json, const char* name) const {
    return json.as_object().at(name).as_object();
  }
  // Calls `visit` with each object of the document.
  static void Walk(const Json& json,
                   const std::function<void(const protocol::JsonObject&)>& visit) {
    if (json.is_object()) {
      visit(json.as_object());
      for (const auto& [key, value] : json.as_object()) Walk(value, visit);
    } else if (json.is_array()) {
      for (const Json& value : json.as_array()) Walk(value, visit);
    }
  }

  protocol::JsonDocument document_;
};

TEST_F(OpenApiTest, HasEveryRouteWithAUniqueId) {
  const protocol::JsonObject& paths = At(root(), "paths");
  size_t operations = 0;
  std::set<std::string> ids;
  for (const auto& [path, item] : paths) {
    for (const auto& [method, operation] : item.as_object()) {
      ++operations;
      const std::string id(operation.as_object().at("operationId").as_string());
      EXPECT_TRUE(ids.insert(id).second) << id;
      EXPECT_FALSE(operation.as_object().at("summary").as_string().empty()) << id;
    }
  }
  size_t expected = 0;
  for (const Route& route : Routes()) {
    expected += route.versioned ? 2 : 1;
    EXPECT_TRUE(route.pattern.find('{') != std::string_view::npos || paths.contains(route.pattern))
        << route.pattern;
  }
  EXPECT_EQ(operations, expected);
}

TEST_F(OpenApiTest, ReferencesLeadToSchemasAndAllAreUsed) {
  const protocol::JsonObject& schemas = At(root().as_object().at("components"), "schemas");
  std::set<std::string> used;
  Walk(root(), [&](const protocol::JsonObject& object) {
    const auto reference = object.find("$ref");
    if (reference == object.end() || !reference->value().is_string()) return;
    const std::string text(reference->value().as_string());
    const std::string name = text.substr(text.rfind('/') + 1);
    EXPECT_TRUE(schemas.contains(name)) << name;
    used.insert(name);
  });
  for (const auto& [name, schema] : schemas) {
    // Messages of other transports are there for their readers.
    const std::string text(name);
    if (text.starts_with("Mqtt") || text.find("Socket") != std::string::npos || text == "BatchLine")
      continue;
    EXPECT_TRUE(used.contains(text)) << text;
  }
}

TEST_F(OpenApiTest, PathParametersAreDeclared) {
  for (const auto& [path, item] : At(root(), "paths")) {
    for (const auto& [method, operation] : item.as_object()) {
      std::set<std::string> declared;
      if (const auto list = operation.as_object().find("parameters");
          list != operation.as_object().end()) {
        for (const Json& parameter : list->value().as_array()) {
          if (parameter.as_object().at("in").as_string() == "path")
            declared.insert("{" + std::string(parameter.as_object().at("name").as_string()) + "}");
        }
      }
      size_t marks = 0;
      for (const std::string& mark : declared) {
        EXPECT_NE(std::string_view(path).find(mark), std::string_view::npos) << path;
        ++marks;
      }
      EXPECT_EQ(marks, static_cast<size_t>(std::count(path.begin(), path.end(), '{'))) << path;
    }
  }
}

TEST_F(OpenApiTest, RequestFieldsComeFromTheSchemaTable) {
  const protocol::JsonObject& schemas = At(root().as_object().at("components"), "schemas");
  const protocol::JsonObject& chat = schemas.at("ChatCompletionRequest").as_object();
  const Json& temperature = chat.at("properties").as_object().at("temperature");
  EXPECT_NE(protocol::PrintJson(temperature).find(R"("maximum":2)"), std::string::npos)
      << protocol::PrintJson(temperature);
  std::set<std::string> required;
  for (const Json& name : chat.at("required").as_array())
    required.insert(std::string(name.as_string()));
  EXPECT_EQ(required, (std::set<std::string>{"messages", "model"}));
}

TEST_F(OpenApiTest, OpenRoutesNeedNoKey) {
  const protocol::JsonObject& paths = At(root(), "paths");
  EXPECT_TRUE(At(paths.at("/livez"), "get").at("security").as_array().empty());
  EXPECT_FALSE(At(paths.at("/metrics"), "get").contains("security"));
}

}  // namespace
}  // namespace tutti::http
