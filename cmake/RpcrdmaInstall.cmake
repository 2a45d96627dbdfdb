# `cmake --install`: the library, its public headers, the command and a package configuration.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS rpcrdma EXPORT rpcrdmaTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rpcrdma"
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(RPCRDMA_BUILD_TOOLS)
  install(TARGETS rpcrdma_gen_command EXPORT rpcrdmaTargets
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES "${PROJECT_SOURCE_DIR}/gen/rpcrdma-gen.1" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(EXPORT rpcrdmaTargets NAMESPACE rpcrdma:: FILE rpcrdmaTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/rpcrdmaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/rpcrdmaConfig.cmake"
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rpcrdmaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rpcrdmaConfig.cmake"
        "${PROJECT_BINARY_DIR}/rpcrdmaConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/RpcrdmaGenerate.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
# The way from the .pc file to the prefix, so that `cmake --install --prefix` may choose another one.
file(RELATIVE_PATH RPCRDMA_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${CMAKE_CURRENT_LIST_DIR}/rpcrdma.pc.in" "${PROJECT_BINARY_DIR}/rpcrdma.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rpcrdma.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET rpcrdma_verbs)
  install(TARGETS rpcrdma_verbs LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rpcrdma)
endif()
if(TARGET rpcrdma_command)
  install(TARGETS rpcrdma_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET rpcrdma_bench_helper)
    install(TARGETS rpcrdma_bench_helper RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/rpcrdma)
  endif()
  install(DIRECTORY "${PROJECT_BINARY_DIR}/share/man/man1" DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY "${PROJECT_BINARY_DIR}/share/bash-completion"
                    "${PROJECT_BINARY_DIR}/share/zsh" DESTINATION ${CMAKE_INSTALL_DATADIR})
endif()
