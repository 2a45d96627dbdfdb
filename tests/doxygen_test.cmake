# Runs docs/Doxyfile with its output below OUTPUT: no warning, and the comments arrive in the pages.
file(READ "${SOURCE}/docs/Doxyfile" settings)
file(MAKE_DIRECTORY "${OUTPUT}")
file(WRITE "${OUTPUT}/Doxyfile" "${settings}\nOUTPUT_DIRECTORY = \"${OUTPUT}\"\n")
execute_process(COMMAND "${DOXYGEN}" "${OUTPUT}/Doxyfile" WORKING_DIRECTORY "${SOURCE}"
                RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT status EQUAL 0 OR NOT said STREQUAL "")
  message(FATAL_ERROR "doxygen ended with ${status}:\n${said}")
endif()
file(READ "${OUTPUT}/html/classrpcrdma_1_1Client.html" page)
if(NOT page MATCHES "Takes a slot for a call")
  message(FATAL_ERROR "the page of Client lacks the comments of its header")
endif()
