# rpcrdma_generate(TARGET foo FILES foo.x ... [NAMESPACE ns] [FIELDS] [RANDOM] [EXTRAS_ONLY])
#
# Makes C++ from .x files with rpcrdma-gen (docs/idl.md) and adds it to the target, which can then
# include "foo.h" and is linked with rpcrdma::rpcrdma. A file is made again when the .x file or the
# compiler is newer. FIELDS makes foo_fields.h too, with to_string() and ==; RANDOM makes that and
# foo_random.h, with random values for tests. EXTRAS_ONLY makes these headers alone, for a target that
# links another with foo.h and foo.cc. The target may be of another directory, and linked in either way
# of target_link_libraries().
function(rpcrdma_generate)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "FIELDS;RANDOM;EXTRAS_ONLY" "TARGET;NAMESPACE" "FILES")
  if(NOT TARGET "${ARG_TARGET}" OR NOT ARG_FILES OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rpcrdma_generate(TARGET <a target> FILES <.x files> "
                        "[NAMESPACE <name>] [FIELDS] [RANDOM] [EXTRAS_ONLY]); got: ${ARGV}")
  endif()
  if(NOT TARGET rpcrdma::gen)
    message(FATAL_ERROR "rpcrdma_generate() needs rpcrdma-gen, which this installation lacks: "
                        "install rpcrdma again with RPCRDMA_BUILD_TOOLS=ON")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}.generated")
  set(options "")
  if(ARG_NAMESPACE)
    list(APPEND options --namespace "${ARG_NAMESPACE}")
  endif()
  if(ARG_FIELDS)
    list(APPEND options --fields)
  endif()
  if(ARG_RANDOM)
    list(APPEND options --random)
  endif()
  if(ARG_EXTRAS_ONLY)
    list(APPEND options --extras-only)
  endif()
  set(stems "")
  foreach(file IN LISTS ARG_FILES)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET file STEM LAST_ONLY stem)
    list(APPEND stems "${stem}")
    set(made "")
    if(NOT ARG_EXTRAS_ONLY)
      list(APPEND made "${folder}/${stem}.h" "${folder}/${stem}.cc")
    endif()
    if(ARG_FIELDS OR ARG_RANDOM)
      list(APPEND made "${folder}/${stem}_fields.h")
    endif()
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
  # Another directory knows the files, but not the rule that makes them.
  get_target_property(home ${ARG_TARGET} SOURCE_DIR)
  if(NOT home STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    list(TRANSFORM stems REPLACE "(.+)" "${folder}/\\1.stamp" OUTPUT_VARIABLE stamps)
    string(MD5 id "${folder};${stems}")
    add_custom_target(rpcrdma_generate_${id} DEPENDS ${stamps})
    add_dependencies(${ARG_TARGET} rpcrdma_generate_${id})
  endif()
  get_target_property(type ${ARG_TARGET} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set(scope PRIVATE)
  else()
    set(scope PUBLIC)
    set_property(TARGET ${ARG_TARGET} APPEND PROPERTY INTERFACE_LINK_LIBRARIES rpcrdma::rpcrdma)
  endif()
  target_include_directories(${ARG_TARGET} ${scope} "$<BUILD_INTERFACE:${folder}>")
  # Not by target_link_libraries(), whose two ways cannot be mixed: the caller has one already.
  set_property(TARGET ${ARG_TARGET} APPEND PROPERTY LINK_LIBRARIES rpcrdma::rpcrdma)
endfunction()
