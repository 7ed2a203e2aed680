# Benchmarks of the viewer. `scale_index --out DIR --ranks 24576` writes the index for them (1.3 GB, 2,048 records per rank), without Qt.
# `view/browser_speed.py` opens this index with `lockstep serve`; serve_page_test opens a smaller one.
add_executable(scale_index view/scale_index.cpp scale_job.cpp)
lockstep_common(scale_index)
target_include_directories(scale_index PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(scale_index PRIVATE lockstep_analysis lockstep_jobmodel)
set_target_properties(scale_index PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

# `matrix_frames [INDEX]` prints the cost of a full-size matrix frame while panning and zooming. Exit status 1 if a frame does not show a one-cell fault. With
# an index, also prints the time to build its matrices, and frames of the entire widget.
if(TARGET lockstep_gui_view)
  add_executable(matrix_frames EXCLUDE_FROM_ALL view/matrix_frames.cpp)
  lockstep_common(matrix_frames)
  target_link_libraries(matrix_frames PRIVATE lockstep_gui_view_matrix)
  set_target_properties(matrix_frames PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()

# `timeline_frames DIR/index.lsi` prints the time to read all times, and the cost of timeline frames.
if(TARGET lockstep_gui_view)
  add_executable(timeline_frames EXCLUDE_FROM_ALL view/timeline_frames.cpp)
  lockstep_common(timeline_frames)
  target_link_libraries(timeline_frames PRIVATE lockstep_gui_view_timeline)
  set_target_properties(timeline_frames PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()

# `window_speed DIR` opens the window with an index and prints, each with its goal: first picture, clicks, searches, sorts, the longest time that the GUI
# thread is blocked, memory. Exit status 1 if a value exceeds twice its goal.
if(TARGET lockstep_gui_app)
  add_executable(window_speed EXCLUDE_FROM_ALL view/window_speed.cpp)
  lockstep_common(window_speed)
  target_link_libraries(window_speed PRIVATE lockstep_gui_app)
  set_target_properties(window_speed PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()
