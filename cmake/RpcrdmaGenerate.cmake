# rpcrdma_generate(TARGET foo FILES foo.x ... [NAMESPACE ns] [RANDOM])
#
# Makes C++ from .x files with rpcrdma-gen (docs/idl.md) and adds it to the target, which can then
# include "foo.h" and is linked with rpcrdma::rpcrdma. A file is made again when the .x file or the
# compiler is newer. RANDOM: foo_random.h as well, with random values for tests.
function(rpcrdma_generate)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "RANDOM" "TARGET;NAMESPACE" "FILES")
  if(NOT TARGET "${ARG_TARGET}" OR NOT ARG_FILES OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rpcrdma_generate(TARGET <a target> FILES <.x files> "
                        "[NAMESPACE <name>] [RANDOM]); got: ${ARGV}")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}.generated")
  set(options "")
  if(ARG_NAMESPACE)
    list(APPEND options --namespace "${ARG_NAMESPACE}")
  endif()
  if(ARG_RANDOM)
    list(APPEND options --random)
  endif()
  foreach(file IN LISTS ARG_FILES)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET file STEM LAST_ONLY stem)
    set(made "${folder}/${stem}.h" "${folder}/${stem}.cc")
    if(ARG_RANDOM)
      list(APPEND made "${folder}/${stem}_random.h")
    endif()
    # Files that stay the same keep their time; the stamp says that they were looked at.
    add_custom_command(OUTPUT "${folder}/${stem}.stamp"
      BYPRODUCTS ${made}
      COMMAND rpcrdma::gen "${file}" -o "${folder}" ${options}
      COMMAND "${CMAKE_COMMAND}" -E touch "${folder}/${stem}.stamp"
      DEPENDS "${file}" rpcrdma::gen
      COMMENT "rpcrdma-gen ${stem}.x" VERBATIM)
    target_sources(${ARG_TARGET} PRIVATE "${folder}/${stem}.stamp" ${made})
  endforeach()
  get_target_property(type ${ARG_TARGET} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set(scope PRIVATE)
  else()
    set(scope PUBLIC)
  endif()
  target_include_directories(${ARG_TARGET} ${scope} "$<BUILD_INTERFACE:${folder}>")
  target_link_libraries(${ARG_TARGET} ${scope} rpcrdma::rpcrdma)
endfunction()
