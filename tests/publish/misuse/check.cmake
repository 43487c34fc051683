# cmake -DCXX=… -DINCLUDE=… -DSOURCE=… -DCASE=… -DEXPECT=regex [-DOPTION=…] -P check.cmake
# The case must fail to compile, for the reason EXPECT; without EXPECT it must compile.
execute_process(
  COMMAND ${CXX} -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I${INCLUDE} -DCASE=${CASE} ${OPTION} ${SOURCE}
  RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT EXPECT)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the right way does not compile:\n${text}")
  endif()
elseif(status EQUAL 0)
  message(FATAL_ERROR "case ${CASE} compiles")
elseif(NOT text MATCHES "${EXPECT}")
  message(FATAL_ERROR "case ${CASE} fails, but not with \"${EXPECT}\":\n${text}")
endif()
