# cmake -D BUILD=... -D SOURCE=... -D PROJECT=... -D COMPILER=... -D VERSION=... -P test_installed_package.cmake
# Installs BUILD to a fresh prefix, moves that away (an installation can be moved), then configures, builds and runs
# the project in SOURCE with nothing but the prefix to find flashsim by, and takes the course with the installed flashsim.
set(scratch ${BUILD}/installed_package)
set(prefix "${scratch}/a prefix that moved")
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${scratch}/prefix)
file(RENAME ${scratch}/prefix ${prefix})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${scratch}/build -G Ninja -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Release -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  -D FLASHSIM_EXPECTED_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${scratch}/build)
run(${scratch}/build/consumer)
if(EXISTS ${prefix}/bin/flashsim)
  run(${SOURCE}/course.sh ${prefix} ${PROJECT}/lessons/keys ${BUILD} ${PROJECT})
endif()
