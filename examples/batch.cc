// Many prompts, four at a time; the answers come back in the order of the prompts. Usage: batch
// [MODEL]
#include <iostream>
#include <string>
#include <vector>

#include "tutti/tutti.h"

int main(int argc, char** argv) try {
  const tutti::Model model =
      tutti::Model::Load(tutti::ModelOptions(argc > 1 ? argv[1] : "")).value();

  std::vector<tutti::Prompt> prompts;
  for (const char* country :
       {"France", "Italy", "Spain", "Japan", "Egypt", "Peru", "Kenya", "Norway"}) {
    prompts.push_back(tutti::Text{std::string("The capital of ") + country + " is"});
  }
  prompts.push_back(tutti::Text{""});  // fails by itself; the others do not care

  const auto answers =
      tutti::GenerateBatch(
          model, prompts,
          {.sampling = {.temperature = 0.5, .seed = 7, .max_tokens = 6},
           .degree = 4,
           .progress = [](size_t done,
                          size_t total) { std::cerr << done << " of " << total << "\n"; }})
          .value();
  for (size_t i = 0; i < answers.size(); ++i) {
    std::cout << i << ": "
              << (answers[i].ok() ? answers[i]->text() : "failed, " + answers[i].error().reason())
              << "\n";
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
