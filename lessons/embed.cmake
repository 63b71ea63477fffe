# cmake -DOUT=file.cpp -DLIST=file -P embed.cmake
# The list has a line `name|path` a file. Writes the texts of the files into a C++ source under their names, so that the commands need no files beside the
# executable.
set(text "// Generated from lessons/exercises by lessons/embed.cmake.\n#include \"lessons/exercises/embedded.h\"\n\n")
string(APPEND text "namespace flashsim::lessons {\n\nconst std::vector<EmbeddedFile>& embedded_files() {\n")
string(APPEND text "  static const std::vector<EmbeddedFile> all = {\n")
file(STRINGS ${LIST} files)
foreach(file IN LISTS files)
  string(REGEX MATCH "^([^|]*)[|](.*)$" matched "${file}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" content)
  string(APPEND text "      {\"${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
string(APPEND text "  };\n  return all;\n}\n\n}  // namespace flashsim::lessons\n")
file(WRITE ${OUT} "${text}")
