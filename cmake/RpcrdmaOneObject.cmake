# Optimises objects with LTO bytecode together, into one object of plain machine code.
#
# cmake -D COMPILER=g++ -D "FLAGS=-O2 -fPIC" -D NM=nm -D OBJCOPY=objcopy -D OBJECTS=FILE -D OUTPUT=rpcrdma.o -P RpcrdmaOneObject.cmake
#
# OBJECTS: a file with the path of one object a line. Whoever links the result needs neither LTO nor this compiler.
#
# GCC can make such an object by -r, but has to take every function for one that somebody calls from outside then, and
# keeps and calls what it would inline: 7,240 instead of 5,340 instructions of the client for a NULL call. So we link a
# shared object instead, where -u names what is called from outside, and take the machine code that the linker was given.
cmake_minimum_required(VERSION 3.25)
foreach(argument COMPILER FLAGS NM OBJCOPY OBJECTS OUTPUT)
  if(NOT ${argument})
    message(FATAL_ERROR "RpcrdmaOneObject.cmake needs -D ${argument}=...")
  endif()
endforeach()

# What a user of the public headers cannot name: the namespaces of the modules, and two classes. Of rdma
# the classes to derive from can be.
set(internal "4rdma3sim|4rdma6siwarp|4rdma5verbs|5iwarp|6engine|3rpc|9transport|4wire|10ClientImpl|10ServerImpl")

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${what} failed (${result}): ${command}\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(STRINGS "${OBJECTS}" objects)
run("Listing symbols" "${NM}" --defined-only --format=posix ${objects})
string(REPLACE "\n" ";" lines "${output}")
# Functions, data and virtual tables of ours. What is inline is made again wherever it is used.
set(ours "(Thn?[0-9]+_|TV|TI|TS)?N[VK]*7rpcrdma")
list(FILTER lines INCLUDE REGEX "^_Z(${ours}[^ ]* [TDBR]|T[VIS][^ ]* [WV]) ")
list(FILTER lines INCLUDE REGEX "^_Z${ours}")
list(FILTER lines EXCLUDE REGEX "^_Z${ours}(${internal})")
list(TRANSFORM lines REPLACE " .*" "")
list(JOIN lines "\n" kept)
list(TRANSFORM lines PREPEND "-Wl,-u,")
list(JOIN lines "\n" kept_options)

set(scratch "${OUTPUT}.parts")
file(REMOVE_RECURSE "${scratch}")
file(MAKE_DIRECTORY "${scratch}")
# GCC's references to its personality functions are shared by all objects that are linked.
file(WRITE "${scratch}/kept" "${kept}\nDW.ref.__gxx_personality_v0\nDW.ref.__gcc_personality_v0\n")
file(WRITE "${scratch}/kept.options" "${kept_options}\n")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
# One partition: several would have to see each other's functions. -save-temps keeps what we are after.
run("Optimising across files" "${COMPILER}" ${flags} -g0 -shared -flto -flto-partition=one -save-temps
    ${objects} "@${scratch}/kept.options" -o "${scratch}/whole")
file(GLOB made "${scratch}/*.ltrans.o")
list(LENGTH made count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "${COMPILER} left ${count} objects in ${scratch}, not one; configure with -DRPCRDMA_LTO=OFF")
endif()
# What a shared object exports besides would collide with the user's own: variables of the standard library's.
run("Hiding what is internal" "${OBJCOPY}" "--keep-global-symbols=${scratch}/kept" "${made}" "${OUTPUT}")
file(REMOVE_RECURSE "${scratch}")
