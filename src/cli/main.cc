#include "cli/command_line.h"

int main(int argc, char** argv) { return tutti::cli::Main(argc, argv); }
