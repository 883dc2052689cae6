// Documents, the best answer to a query first. Usage: embed [MODEL [QUERY [DOCUMENT...]]]
#include <algorithm>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "tutti/tutti.h"

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : "all-minilm-l6-v2";
  const std::string query = argc > 2 ? argv[2] : "Where does the cat sleep?";
  std::vector<std::string> documents(argv + std::min(argc, 3), argv + argc);
  if (documents.empty())
    documents = {"Rivers run to the sea.", "The kitten naps on the sofa.", "Stocks fell."};

  const tutti::Expected<tutti::Encoder> encoder = tutti::Encoder::Load(tutti::ModelOptions(model));
  if (!encoder.ok()) {
    std::cerr << encoder.error().message() << "\n";
    return 1;
  }
  const tutti::Expected<std::vector<float>> scores = encoder->Rank(query, documents);
  if (!scores.ok()) {
    std::cerr << scores.error().reason() << ": " << scores.error().message() << "\n";
    return 1;
  }
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return (*scores)[a] > (*scores)[b]; });
  for (const size_t i : order) std::cout << (*scores)[i] << "  " << documents[i] << "\n";
  return 0;
}
