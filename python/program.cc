// The program `tutti` of the wheel: its code is in libtutti.so, which the Python package loads too.
int tutti_main(int argc, char** argv);  // src/cli/main.cc

int main(int argc, char** argv) { return tutti_main(argc, argv); }
