#include <cstdlib>
#include <vector>

#include "lessons/exercises/given/calls.h"
#include "lessons/exercises/given/softmax.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;  // started by flashsim
  const int fd = std::atoi(argv[1]);
  given::SoftmaxQuestion question{};
  while (given::receive(fd, &question, sizeof question)) {
    std::vector<double> scores(question.count);
    if (!given::receive(fd, scores.data(), scores.size() * sizeof(double))) return 3;
    const RowState after = update({question.m, question.l}, scores.data(), scores.size());
    if (!given::answer(fd, &after, sizeof after)) return 3;
  }
  return 0;
}
