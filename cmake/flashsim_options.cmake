# How the project's own targets are compiled. All but what a caller must know stays on the interface target
# flashsim_options, so that warnings do not leak to those who use the installed package.
add_library(flashsim_options INTERFACE)
target_include_directories(flashsim_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
set(flashsim_warnings -Wall -Wextra -Wpedantic)
if(FLASHSIM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND flashsim_warnings -Wshadow=local)  # a function of the file before is no shadow: see flashsim_together below
else()
  list(APPEND flashsim_warnings -Wshadow)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND flashsim_warnings -Wno-restrict)  # GCC 12 warns wrongly about "text" + std::string (its bug 105651)
  list(APPEND flashsim_warnings -Wno-maybe-uninitialized)  # and about its own AVX-512 intrinsics (its bug 105593)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  list(APPEND flashsim_warnings -Wno-array-bounds -Wno-stringop-overflow)  # warns wrongly about fmt 9's detail::bigint
endif()
if(FLASHSIM_WERROR)
  list(APPEND flashsim_warnings -Werror)
endif()
target_compile_options(flashsim_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${flashsim_warnings}>>")

# What changes the layout of types or the code that templates turn into (Eigen's alignment and packets follow the
# processor), hence has to be the same in the library and in what is linked with it: exported with the package.
add_library(flashsim_abi INTERFACE)
if(FLASHSIM_NATIVE)
  target_compile_options(flashsim_abi INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
# A target with the property FLASHSIM_UNSANITIZED is left out: what is linked with students' code, which runs with a limit
# on its address space, of which AddressSanitizer reserves terabytes.
if(FLASHSIM_SANITIZE)
  set(sanitized "$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:FLASHSIM_UNSANITIZED>>>>")
  target_compile_options(flashsim_abi INTERFACE
    "$<${sanitized}:-fsanitize=address,undefined;-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  target_link_options(flashsim_abi INTERFACE -fsanitize=address,undefined)
endif()
target_link_libraries(flashsim_options INTERFACE flashsim_abi)

# Compilations already done once are taken from ccache, where it is installed.
find_program(FLASHSIM_CCACHE ccache)
mark_as_advanced(FLASHSIM_CCACHE)
if(FLASHSIM_CCACHE)
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${FLASHSIM_CCACHE})
    endif()
  endforeach()
endif()

# flashsim_together(TARGET GROUP SOURCES...): adds SOURCES to TARGET. With FLASHSIM_UNITY they are one translation unit, so that
# the headers they share (Eigen, fmt, JSON, half of the standard library) are read, and their templates instantiated, once
# and not once a file. A group is one topic of one folder: what its files call their helpers has to differ. Each file still
# includes what it uses: the presets dev, asan and lint compile every file alone.
function(flashsim_together target group)
  target_sources(${target} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FLASHSIM_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

# For libraries that compute nothing and make text instead (commands, lessons, reports): a release spends no time on optimising
# them, which takes a third of their compilation and could not be noticed. Everything that computes keeps -O3.
add_library(flashsim_text_options INTERFACE)
target_compile_options(flashsim_text_options INTERFACE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

if(FLASHSIM_LINT)
  find_program(FLASHSIM_CLANG_TIDY NAMES clang-tidy-14 clang-tidy REQUIRED)
  # The warnings are chosen for the compiler; clang-tidy does not know all of them.
  set(CMAKE_CXX_CLANG_TIDY
    ${FLASHSIM_CLANG_TIDY};--quiet;--warnings-as-errors=*;--extra-arg=-Wno-unknown-warning-option)
endif()
