# Says at the end of each configure run what this build has and lacks.
message(STATUS "rpcrdma ${PROJECT_VERSION}")
message(STATUS "  providers: sim ON, siwarp ON, verbs OFF (not part of this version)")
message(STATUS "  tools: ${RPCRDMA_BUILD_TOOLS}, tests: ${RPCRDMA_BUILD_TESTS}")
message(STATUS "  sanitizers: ${RPCRDMA_SANITIZE} coverage: ${RPCRDMA_COVERAGE}")
