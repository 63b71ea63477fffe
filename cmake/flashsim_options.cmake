# Warnings, sanitizers and optimisation for the project's own targets, kept on an interface target so that nothing
# leaks to those who use the installed package.
add_library(flashsim_options INTERFACE)
target_include_directories(flashsim_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(flashsim_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow>)
if(FLASHSIM_WERROR)
  target_compile_options(flashsim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(FLASHSIM_NATIVE)
  target_compile_options(flashsim_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(FLASHSIM_SANITIZE)
  target_compile_options(flashsim_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(flashsim_options INTERFACE -fsanitize=address,undefined)
endif()
