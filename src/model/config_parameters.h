// ConfigParameters: a decoder's config.json, as transformers writes it, read under the names of
// GGUF's keys, so that both formats go through one description of each family.
//
// A view of a parsed file; any thread. Keys of 4.x and 5.x (rope_parameters) are known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/families/family.h"
#include "model/hyper_parameters.h"
#include "model/json_file.h"

namespace tutti::model {

class ConfigParameters final : public HyperParameters {
 public:
  explicit ConfigParameters(const JsonFile& file) : file_(file) {}

  // Keys that lie in an object ("rope_scaling.factor") are read from an object: one of another kind
  // would be passed over as if it were absent. Errors: model_hparam.
  Status CheckNesting() const;

  bool Has(std::string_view name) const override { return Find(name).value != nullptr; }
  std::string Spelled(std::string_view name) const override;
  Result<int64_t> Int(std::string_view name, int64_t low, int64_t high) const override;
  Result<double> Float(std::string_view name, double low, double high) const override;
  Result<std::string> Text(std::string_view name) const override;
  Result<bool> Bool(std::string_view name) const override;
  Result<std::vector<bool>> Windowed(std::string_view name, int layers) const override;
  Result<std::vector<bool>> Flags(std::string_view name, int layers) const override;
  Result<std::vector<std::string>> Kinds(std::string_view name, int layers) const override;
  Result<std::vector<bool>> Listed(std::string_view name, int layers) const override;
  Result<std::vector<float>> Floats(std::string_view name) const override;
  Result<std::vector<int>> IntsOfLayers(std::string_view name, int layers, int64_t low,
                                        int64_t high) const override;
  Result<std::vector<double>> NumbersOfLayers(std::string_view name, int layers, double low,
                                              double high) const override;
  Result<std::vector<bool>> Recurrent(std::string_view kind, int layers) const override;

 private:
  struct Found {
    std::string_view spelled;                   // of config.json: "rope_scaling.factor"
    const boost::json::value* value = nullptr;  // absent and null are the same
  };
  Found Find(std::string_view name) const;

  const JsonFile& file_;
};

// Checks the keys of a decoder's config.json. Every key is one of: read for `family`; known to
// change no logits; known from other models to change them, and then model_hparam names it unless
// its value switches it off; unknown, and then one remark names all of these. Pure; any thread.
Status CheckConfigKeys(const Family& family, const JsonFile& config,
                       std::vector<std::string>& remarks);

}  // namespace tutti::model
