# `cmake --install`: the library, its public headers, the command and a package configuration.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS rpcrdma EXPORT rpcrdmaTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rpcrdma"
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT rpcrdmaTargets NAMESPACE rpcrdma:: FILE rpcrdmaTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/rpcrdmaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/rpcrdmaConfig.cmake"
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rpcrdmaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rpcrdmaConfig.cmake"
        "${PROJECT_BINARY_DIR}/rpcrdmaConfigVersion.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
if(TARGET rpcrdma_command)
  install(TARGETS rpcrdma_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
