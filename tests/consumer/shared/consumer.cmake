# What both consumer projects build, once kvpool's targets exist: an engine's own tests. Included
# by ../find_package and ../add_subdirectory, so that one source proves both ways in.
enable_testing()
add_executable(engine_tests "${CMAKE_CURRENT_LIST_DIR}/engine_tests.cpp")
target_link_libraries(engine_tests PRIVATE kvpool::kvpool kvpool::io kvpool::testing)
add_test(NAME engine_tests COMMAND engine_tests)
