# Installation: `find_package(flashsim)` gives flashsim::reference, flashsim::simulator, flashsim::gpu and, as an
# executable target, flashsim::flashsim. Headers keep their folders below include/flashsim, so that they are included
# as here: #include "cpu_reference/problem.h". flashsim_driver is what the installed flashsim links a user's schedule with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(flashsim_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flashsim)
foreach(target flashsim_options flashsim_abi flashsim_reference flashsim_simulator flashsim_driver flashsim_gpu flashsim)
  if(TARGET ${target})
    string(REPLACE flashsim_ "" name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    install(TARGETS ${target} EXPORT flashsim
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flashsim)
  endif()
endforeach()

install(DIRECTORY cpu_reference simulator DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flashsim
  FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE)
install(FILES gpu_kernels/kernels.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flashsim/gpu_kernels)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT flashsim NAMESPACE flashsim:: FILE flashsim-targets.cmake DESTINATION ${flashsim_package_dir})

configure_package_config_file(cmake/flashsim-config.cmake.in ${PROJECT_BINARY_DIR}/flashsim-config.cmake
  INSTALL_DESTINATION ${flashsim_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/flashsim-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/flashsim-config.cmake ${PROJECT_BINARY_DIR}/flashsim-config-version.cmake
  DESTINATION ${flashsim_package_dir})
