#include "app/loading/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "temp_folder.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A cache of its own that holds an empty file of the default model.
class ModelRegistryTest : public ::testing::Test {
 protected:
  ModelRegistryTest() {
    std::filesystem::create_directories(folder_.path() + "/models");
    std::ofstream(folder_.path() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf") << "x";
    setenv("TUTTI_CACHE", folder_.path().c_str(), 1);
  }
  ~ModelRegistryTest() override { unsetenv("TUTTI_CACHE"); }

  static std::string Refusal(const std::string& argument) {
    const Result<ModelRef> ref = ResolveModel(argument);
    return ref.ok() ? "taken: " + ref->path : ref.status().ToString();
  }

  support::TempFolder folder_;
};

// `tutti run smollm2-135m-Instruct` was refused, though the file is called so.
TEST_F(ModelRegistryTest, AKnownModelIsFoundInAnyCaseOfItsLetters) {
  for (const char* const name : {"smollm2-135m-instruct", "smollm2-135m-Instruct",
                                 "SmolLM2-135M-Instruct", "SMOLLM2-135M-INSTRUCT"}) {
    const Result<ModelRef> ref = ResolveModel(name);
    ASSERT_TRUE(ref.ok()) << ref.status();
    EXPECT_EQ(ref->served_name, kDefaultModel);
    EXPECT_THAT(ref->path, HasSubstr("SmolLM2-135M-Instruct.Q4_1.gguf"));
  }
  const Result<ModelRef> named = ResolveModel("Chat=SmolLM2-135M-Instruct:f32");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->served_name, "Chat") << "what clients ask for is as it was typed";
  EXPECT_EQ(named->dtype, "f32");
  EXPECT_THAT(Refusal("Gemma3-270M"), HasSubstr("`make models NAME=gemma3-270m`"));
}

TEST_F(ModelRegistryTest, AMistypedNameIsAnsweredWithTheOneThatWasMeant) {
  EXPECT_THAT(Refusal("smollm2-135m-instrukt"), HasSubstr("did you mean smollm2-135m-instruct?"));
  EXPECT_THAT(Refusal("SmolLM-135M-Instruct"), HasSubstr("did you mean smollm2-135m-instruct?"));
  EXPECT_THAT(Refusal("gemma-270m"), HasSubstr("did you mean gemma3-270m?"));
  EXPECT_THAT(Refusal("all-MiniLM-L6"), HasSubstr("did you mean all-minilm-l6-v2?"));
  for (const char* const none : {"qwen", "./smollm2-135m-instrukt", "smollm2-135m-instrukt.gguf"}) {
    EXPECT_THAT(Refusal(none), HasSubstr("no file")) << none;
    EXPECT_THAT(Refusal(none), Not(HasSubstr("did you mean"))) << none;
  }
  EXPECT_THAT(Refusal("qwen"), HasSubstr("known: smollm2-135m-instruct, gemma3-270m, "));
}

TEST_F(ModelRegistryTest, NamesOfAHubAreAnsweredWithTheirCommand) {
  setenv("HF_HUB_CACHE", folder_.File("hub").c_str(), 1);
  EXPECT_THAT(Refusal("https://example.org/m.gguf?token=x"),
              ::testing::EndsWith("run: tutti pull https://example.org/m.gguf"));
  EXPECT_THAT(Refusal("ftp://example.org/m.gguf"), HasSubstr("give an https URL"));
  for (const char* const name : {"Org/Small-135M", "x=Org/Small-135M", "Org/Small-135M:f32"}) {
    EXPECT_THAT(Refusal(name), HasSubstr("model_not_pulled"));
    EXPECT_THAT(Refusal(name), HasSubstr("run: tutti pull Org/Small-135M"));
  }
  EXPECT_EQ(HubPartOf("x=Org/Small-135M:Q4_K_M:f32"), "Org/Small-135M:Q4_K_M");
  EXPECT_EQ(HubPartOf("x=Org/Small-135M:f16"), "Org/Small-135M:f16");
  EXPECT_EQ(HubPartOf("https://example.org/m.gguf?a=b"), "https://example.org/m.gguf?a=b");
  for (const char* const path : {"models/m.gguf", "./Small-135M", "/Small-135M", "a/b/c", "a/"})
    EXPECT_THAT(Refusal(path), ::testing::EndsWith(std::string("no file ") + path +
                                                   "; give a .gguf file or a model's folder"));
  unsetenv("HF_HUB_CACHE");
}

TEST_F(ModelRegistryTest, PulledModelsAreFoundByTheirNames) {
  const std::string hub = folder_.File("hub"), commit(40, 'a');
  setenv("HF_HUB_CACHE", hub.c_str(), 1);
  const auto put = [&](const std::string& repository, const std::string& file) {
    const std::string snapshot = hub + "/" + repository + "/snapshots/" + commit;
    std::filesystem::create_directories(snapshot);
    std::ofstream(snapshot + "/" + file) << "{}";
    return snapshot;
  };
  const std::string gguf = put("models--o--g", "m-F16.gguf");
  put("models--o--g", "m-Q8_0.gguf");
  const std::string folder = put("models--o--f", "config.json");
  put("models--o--f", "model.safetensors");
  struct Case {
    const char* argument;
    std::string path, served_name, dtype;
  };
  for (const Case& c :
       {Case{"o/g:Q8_0", gguf + "/m-Q8_0.gguf", "o/g:Q8_0", ""},
        Case{"o/g:q8_0:f32", gguf + "/m-Q8_0.gguf", "o/g:q8_0", "f32"},
        Case{"o/g:f16", gguf + "/m-F16.gguf", "o/g:f16", ""}, Case{"n=o/g:Q8_0@", "", "", ""},
        Case{"n=hf.co/o/g:Q8_0", gguf + "/m-Q8_0.gguf", "n", ""}, Case{"o/f", folder, "o/f", ""},
        Case{"o/f:BF16", folder, "o/f", "bf16"}}) {
    const Result<ModelRef> ref = ResolveModel(c.argument);
    if (c.path.empty()) {
      EXPECT_FALSE(ref.ok()) << c.argument;
      continue;
    }
    ASSERT_TRUE(ref.ok()) << ref.status();
    EXPECT_EQ(ref->path, c.path) << c.argument;
    EXPECT_EQ(ref->served_name, c.served_name) << c.argument;
    EXPECT_EQ(ref->dtype, c.dtype) << c.argument;
  }
  unsetenv("HF_HUB_CACHE");
}

TEST_F(ModelRegistryTest, AFileOfSafetensorsItselfIsAnsweredWithItsFolder) {
  const std::string model = folder_.File("model");
  std::filesystem::create_directory(model);
  for (const char* const name :
       {"model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
    std::ofstream(model + "/" + name) << "x";
    EXPECT_THAT(Refusal(model + "/" + name),
                HasSubstr("give a folder that also holds config.json and tokenizer.json"));
  }
  std::ofstream(model + "/config.json") << "{}";
  for (const char* const name : {"model.safetensors", "config.json"}) {
    EXPECT_THAT(
        Refusal(model + "/" + name),
        HasSubstr(name + std::string(" is one file of a model's folder: give the folder, ") +
                  model));
  }
  EXPECT_TRUE(ResolveModel(model).ok());
}

TEST_F(ModelRegistryTest, ASnapshotOfAHubCacheIsCalledAsItsModel) {
  const auto served_as = [](const std::string& path) {
    std::filesystem::create_directories(path);
    return ResolveModel(path).value().served_name;
  };
  const std::string cache = folder_.File("hub");
  EXPECT_EQ(served_as(cache + "/models--Org--Small-135M/snapshots/0a1b"), "Small-135M");
  EXPECT_EQ(served_as(cache + "/models--Org--Small-135M/snapshots/0a1b/"), "Small-135M");
  EXPECT_EQ(served_as(cache + "/models--gpt2/snapshots/0a1b"), "gpt2");
  EXPECT_EQ(served_as(cache + "/models--/snapshots/0a1b"), "0a1b");
  EXPECT_EQ(served_as(cache + "/mine/snapshots/0a1b"), "0a1b");
}

TEST_F(ModelRegistryTest, AFileThatIsThereIsMeantBeforeAModelOfOtherLetters) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  std::ofstream("SmolLM2-135M-Instruct") << "x";
  const Result<ModelRef> ref = ResolveModel("SmolLM2-135M-Instruct");
  std::filesystem::current_path(before);
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_EQ(ref->path, "SmolLM2-135M-Instruct");
}

TEST_F(ModelRegistryTest, ServedNamesAreThoseOfHubs) {
  const std::string path = folder_.path() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  for (const char* const name : {"HuggingFaceTB/SmolLM2-135M-Instruct", "hf.co/acme/SmolLM2:Q4_1",
                                 "smol lm 2", "smol-\xC3\xA9"}) {
    const Result<ModelRef> ref = ResolveModel(std::string(name) + "=" + path);
    ASSERT_TRUE(ref.ok()) << ref.status();
    EXPECT_EQ(ref->served_name, name);
    EXPECT_EQ(ref->path, path);
  }
}

TEST_F(ModelRegistryTest, APathWithAnEqualsSignIsNotSplit) {
  const std::string folder = folder_.path() + "/a=b";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/model.gguf") << "x";
  const Result<ModelRef> ref = ResolveModel(folder + "/model.gguf");
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_EQ(ref->served_name, "model");
  EXPECT_THAT(Refusal("./x=y/model.gguf"), HasSubstr("no file ./x=y/model.gguf"));
}

TEST_F(ModelRegistryTest, RejectsServedNamesThatCannotBeShown) {
  EXPECT_THAT(Refusal("a\nb=x"), HasSubstr("without control characters"));
  EXPECT_THAT(Refusal("a\xC2\x85=x"), HasSubstr("without control characters"));
  EXPECT_THAT(Refusal("a\xFF=x"), HasSubstr("must be UTF-8"));
  EXPECT_THAT(Refusal("a//b=x"), HasSubstr("empty part"));
  EXPECT_THAT(Refusal("a/=x"), HasSubstr("empty part"));
  EXPECT_THAT(Refusal("=x"), HasSubstr("has 0 bytes"));
  EXPECT_THAT(Refusal(std::string(129, 'a') + "=x"), HasSubstr("has 129 bytes; give it 1 to 128"));
}

}  // namespace
}  // namespace tutti::app
