// One answer. Usage: generate [MODEL [PROMPT]]
#include <iostream>
#include <string>

#include "tutti/tutti.h"

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "";  // empty: the default model
  const std::string prompt = argc > 2 ? argv[2] : "What is 2 + 2?";

  const tutti::Expected<tutti::Model> model = tutti::Model::Load(tutti::ModelOptions(path));
  if (!model.ok()) {
    std::cerr << model.error().message() << "\n";
    return 1;
  }
  const tutti::Expected<tutti::Completion> answer = model->Generate({
      .prompt = tutti::UserMessage(prompt),
      .sampling = {.temperature = 0, .max_tokens = 32},
  });
  if (!answer.ok()) {
    std::cerr << answer.error().reason() << ": " << answer.error().message() << "\n";
    return 1;
  }
  std::cout << answer->text() << "\n"
            << answer->usage.prompt_tokens << " tokens in, " << answer->usage.completion_tokens
            << " out\n";
  return 0;
}
