# Tests of the project as a whole rather than of one folder: headers, formatting, scripts, installation.

# Every public header compiles on its own: one generated source each, which includes it twice (the include guard).
# Built by the test, not by default.
file(GLOB_RECURSE flashsim_headers RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/cpu_reference/*.h ${PROJECT_SOURCE_DIR}/simulator/*.h ${PROJECT_SOURCE_DIR}/gpu_kernels/kernels.h)
set(flashsim_header_sources)
foreach(header IN LISTS flashsim_headers)
  string(MAKE_C_IDENTIFIER ${header} name)
  set(source ${PROJECT_BINARY_DIR}/headers/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"  // IWYU pragma: keep\n" @ONLY)
  list(APPEND flashsim_header_sources ${source})
endforeach()
add_library(flashsim_headers OBJECT EXCLUDE_FROM_ALL ${flashsim_header_sources})
target_compile_options(flashsim_headers PRIVATE -O0)
set_target_properties(flashsim_headers PROPERTIES CXX_CLANG_TIDY "")
target_link_libraries(flashsim_headers PRIVATE flashsim_options flashsim_reference flashsim_gpu fmt::fmt
  nlohmann_json::nlohmann_json CLI11::CLI11 $<TARGET_NAME_IF_EXISTS:flashsim_simulator>)
add_test(NAME headers_compile_alone
  COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target flashsim_headers)
set_tests_properties(headers_compile_alone PROPERTIES LABELS project RUN_SERIAL ON TIMEOUT 900)

add_test(NAME sources_are_formatted COMMAND ${PROJECT_SOURCE_DIR}/cmake/check_format.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(sources_are_formatted PROPERTIES LABELS project SKIP_RETURN_CODE 77)

add_test(NAME run_and_test_scripts COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/project/scripts_test.sh
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/scripts_test)
set_tests_properties(run_and_test_scripts PROPERTIES LABELS project TIMEOUT 60)

flashsim_test(types_have_one_definition SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/project/one_definition_test.cpp
  LABELS project)
target_compile_definitions(types_have_one_definition PRIVATE FLASHSIM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

# Installs the build and compiles, links and runs a small project against the result. Not with the sanitizers, which
# that project would have to be compiled with.
if(NOT FLASHSIM_SANITIZE)
  add_test(NAME installed_package_is_usable COMMAND ${CMAKE_COMMAND}
    -D BUILD=${PROJECT_BINARY_DIR} -D SOURCE=${CMAKE_CURRENT_SOURCE_DIR}/consumer
    -D PROJECT=${PROJECT_SOURCE_DIR} -D COMPILER=${CMAKE_CXX_COMPILER} -D VERSION=${PROJECT_VERSION}
    -P ${PROJECT_SOURCE_DIR}/cmake/test_installed_package.cmake)
  set_tests_properties(installed_package_is_usable PROPERTIES LABELS project TIMEOUT 600)
endif()
