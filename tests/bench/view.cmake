# The viewer's benches. `scale_index --out DIR --ranks 24576` writes the index that they open (1.3 GB, 2,048 records a rank); needs
# no Qt.
add_executable(scale_index EXCLUDE_FROM_ALL view/scale_index.cpp scale_job.cpp)
lockstep_common(scale_index)
target_include_directories(scale_index PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(scale_index PRIVATE lockstep_analysis lockstep_jobmodel)
set_target_properties(scale_index PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

# `matrix_frames [INDEX]` prints what a frame of the matrix costs at full size, panning and zooming, with a one-cell fault that
# every frame must show (exit status 1 where one does not). With an index also how long its matrices take to build, and frames
# of the whole widget.
if(TARGET lockstep_gui_view)
  add_executable(matrix_frames EXCLUDE_FROM_ALL view/matrix_frames.cpp)
  lockstep_common(matrix_frames)
  target_link_libraries(matrix_frames PRIVATE lockstep_gui_view)
  set_target_properties(matrix_frames PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()

# `timeline_frames DIR/index.lsi` prints how long all times take to read, and frames of the timeline.
if(TARGET lockstep_gui_view)
  add_executable(timeline_frames EXCLUDE_FROM_ALL view/timeline_frames.cpp)
  lockstep_common(timeline_frames)
  target_link_libraries(timeline_frames PRIVATE lockstep_gui_view)
  set_target_properties(timeline_frames PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()

# `window_speed DIR` opens the whole window over an index and prints, each with its goal: first picture, clicks, searches, sorts, how long
# the window's thread is blocked, memory. Exit status 1 where a goal is missed by more than double of it.
if(TARGET lockstep_gui_app)
  add_executable(window_speed EXCLUDE_FROM_ALL view/window_speed.cpp)
  lockstep_common(window_speed)
  target_link_libraries(window_speed PRIVATE lockstep_gui_app)
  set_target_properties(window_speed PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()
