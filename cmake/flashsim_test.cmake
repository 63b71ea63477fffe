# flashsim_test(NAME SOURCES file... [LIBS target...] [LABELS label...] [TIMEOUT seconds])
# A doctest executable with the shared main of tests/, as the ctest entry NAME. Property tests (rapidcheck) run from a
# fixed seed, so that a failure can be repeated; RC_PARAMS in the environment of a run by hand overrides it.
# With the label `gpu` the test exits with 77, which ctest shows as skipped, where no GPU can be used; it fails there
# instead if FLASHSIM_REQUIRE_GPU is set in the environment.
add_library(flashsim_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/main.cpp)
target_link_libraries(flashsim_test_main PUBLIC doctest::doctest PRIVATE flashsim_options)
add_library(flashsim_gpu_test_main OBJECT ${PROJECT_SOURCE_DIR}/tests/gpu_main.cpp)
target_link_libraries(flashsim_gpu_test_main PUBLIC doctest::doctest flashsim_gpu PRIVATE flashsim_options)

function(flashsim_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBS;LABELS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "flashsim_test(${name}): expected SOURCES, LIBS, LABELS, TIMEOUT; got ${ARGN}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(main flashsim_test_main)
  if(gpu IN_LIST arg_LABELS)
    set(main flashsim_gpu_test_main)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${main} ${arg_LIBS} flashsim_options)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "RC_PARAMS=seed=20221")
endfunction()
