# What both consumer projects build, once kvpool's targets exist: an engine's own tests. Included
# by ../find_package and ../add_subdirectory, so that one source proves both ways in.
enable_testing()
add_executable(engine_tests "${CMAKE_CURRENT_LIST_DIR}/engine_tests.cpp")
target_link_libraries(engine_tests PRIVATE kvpool::kvpool kvpool::io kvpool::testing kvpool::reference)
add_test(NAME engine_tests COMMAND engine_tests)

# Where kvpool was built with CUDA: an engine on a GPU, which also starts where there is none.
if(TARGET kvpool::cuda)
  add_executable(gpu_engine "${CMAKE_CURRENT_LIST_DIR}/gpu_engine.cpp")
  target_link_libraries(gpu_engine PRIVATE kvpool::cuda)
  add_test(NAME gpu_engine COMMAND gpu_engine)
endif()
