# Runs PROGRAM, which is to end well and to print what the regular expression EXPECTED says.
execute_process(COMMAND "${PROGRAM}" RESULT_VARIABLE status OUTPUT_VARIABLE output)
message("${output}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "it ended with ${status}")
elseif(NOT output MATCHES "${EXPECTED}")
  message(FATAL_ERROR "it did not print: ${EXPECTED}")
endif()
